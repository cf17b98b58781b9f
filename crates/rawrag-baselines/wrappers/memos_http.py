"""MemOS behind the wrapper protocol, over the HTTP interface of its server (`/product`).

Two named speakers are two perspectives, each a memory cube of its own; a search asks each cube for k
text memories and k preferences (Raw-RAG, D.3.3).
"""

import time

from rawrag_service import ServiceSystem, content, shown
from rawrag_wrapper import serve


class MemOS(ServiceSystem):
    settings = {
        "mode": "fine",  # of adding and of searching
        "interval": 0.1,  # seconds before each request that adds
    }
    description = {
        "name": "memos",
        "version": "HTTP interface of 2.0",
        "capabilities": {
            "dates": False,
            "speakers": True,
            "cutoff": False,
            "provenance": False,
            "deletion": True,
            "export": True,
            "persistence": True,
            "decisions": False,
        },
        "unit": {"messages": 10},
        "notes": [
            "Written from its public interface and tested against a server of this project's own, never a real MemOS.",
            "Memories that an add named have that batch's messages and date; others, merged later, have none.",
            "Adds wait until they are done (`async_mode` sync); k text memories and k preferences of each speaker's cube.",
            "What the service spends on models is not known here and counts as 0.",
        ],
    }

    def begin(self, request):
        speakers = request["speakers"]
        two = speakers if len(speakers) == 2 else [None]
        self.cubes = [(f"{self.identity}-{number}", speaker) for number, speaker in enumerate(two)]
        return 2 * len(self.cubes)

    def add(self, request):
        said = request["messages"]
        for cube, speaker in self.cubes:
            time.sleep(self.options["interval"])
            messages = []
            for message in said:
                role = "user" if speaker in (None, message["speaker"]) else "assistant"
                entry = {"role": role, "content": f"{message['speaker']}: {content(message)}"}
                if message["date"]:
                    entry["chat_time"] = message["date"]
                messages.append(entry)
            answer = self.post(
                "/product/add",
                user_id=cube,
                writable_cube_ids=[cube],
                session_id=f"{self.identity}-{said[0]['session']}",
                async_mode="sync",
                mode=self.options["mode"],
                messages=messages,
            )
            for memory in answer.field(list, "data"):
                self.came_from(memory["memory_id"], said)
        return {}

    def post(self, path, **body):
        answer = self.service.call("POST", path, body)
        code = answer.field(int, "code")
        if code != 200:
            raise RuntimeError(f"{answer.what}: code {code}: {answer.value.get('message')}")
        return answer

    def settle(self):
        pass  # every add has waited

    def search(self, request):
        k, items = request["k"], []
        if k == 0:
            return {"items": []}
        for cube, _ in self.cubes:
            answer = self.post(
                "/product/search",
                query=request["question"],
                user_id=cube,
                readable_cube_ids=[cube],
                mode=self.options["mode"],
                top_k=k,
                dedup="mmr",
                include_preference=True,
                pref_top_k=k,
                search_tool_memory=False,
                include_skill_memory=False,
                internet_search=False,
            )
            for kind in ("text_mem", "pref_mem"):
                items += [self.item(memory) for memory in self.most(self.memories(answer, kind), k, kind)]
        return {"items": items}

    def memories(self, answer, kind):
        """A kind's memories, of all cubes; a server without preferences may leave their list out."""
        if kind == "pref_mem" and kind not in answer.field(dict, "data"):
            return []
        return [memory for cube in answer.field(list, "data", kind) for memory in cube["memories"]]

    def item(self, memory):
        origin = self.where_from(memory["id"])
        score = memory.get("metadata", {}).get("relativity")
        return {"text": shown(origin["date"], memory["memory"]), "score": score, "stored": memory["id"], **origin}

    def export(self, request):
        items = []
        for cube, speaker in self.cubes:
            answer = self.post(
                "/product/get_memory",
                mem_cube_id=cube,
                user_id=cube,
                include_preference=True,
                include_tool_memory=False,
                include_skill_memory=False,
            )
            for memory in self.memories(answer, "text_mem") + self.memories(answer, "pref_mem"):
                origin = self.where_from(memory["id"])
                text = shown(origin["date"], memory["memory"])
                items.append({"id": memory["id"], "text": text, "perspective": speaker, **origin})
        return {"items": items}


serve(MemOS())
