"""EverMemOS behind the wrapper protocol, over its HTTP interface (`/api/v1/memories`).

Messages go in one by one; the last one before a search closes the open episode. What a reader sees are
subject and episode (Raw-RAG, D.3.2).
"""

from urllib.parse import urlencode

from rawrag_service import ServiceSystem, content, instant, shown
from rawrag_wrapper import read_instant, serve, until

PATH = "/api/v1/memories"
PAGE = 500
MOST = 100
# What EverMemOS is told of a message without a date, which it must have.
UNDATED = "1970-01-01T00:00:00+00:00"


class EverMemOS(ServiceSystem):
    settings = {
        "method": "agentic",  # keyword, vector, hybrid, rrf or agentic
    }
    description = {
        "name": "evermemos",
        "version": "HTTP interface v1",
        "capabilities": {
            "dates": True,
            "speakers": True,
            "cutoff": True,
            "provenance": False,
            "deletion": False,
            "export": True,
            "persistence": True,
            "decisions": False,
        },
        "unit": "session",
        "notes": [
            "Written from its public interface and tested against a server of this project's own, never a real EverMemOS.",
            "An episode's date is that of the latest message at its timestamp; times without an offset are taken as UTC.",
            "Episodes alone are searched and exported; the interface does not tell which messages they come from.",
            "The last message before a search ends the open episode (`flush`).",
            "What the service spends on models is not known here and counts as 0.",
        ],
    }

    def begin(self, request):
        speakers = request["speakers"]
        self.senders = {speaker: f"speaker-{number}" for number, speaker in enumerate(speakers)}
        self.held = None
        if request["fresh"]:
            details = {sender: {"full_name": speaker, "role": "user"} for speaker, sender in self.senders.items()}
            self.done(
                self.service.call(
                    "POST",
                    f"{PATH}/conversation-meta",
                    {
                        "version": "1.0.0",
                        "scene": "group_chat",
                        "scene_desc": {"description": "A conversation.", "type": "conversation"},
                        "name": self.identity,
                        "group_id": self.identity,
                        "created_at": UNDATED,
                        "default_timezone": "UTC",
                        "user_details": details,
                        "tags": [],
                    },
                )
            )
        return 1

    def done(self, answer):
        if answer.field(str, "status") != "ok":
            raise RuntimeError(f"{answer.what}: {answer.value}")
        return answer

    def add(self, request):
        for message in request["messages"]:
            if self.held:
                self.send(self.held, flush=False)
            self.held = message
        return {}

    def send(self, message, flush):
        when = instant(message["date"]) if message["date"] else UNDATED
        self.state["dates"][when] = message["date"]
        sender = self.senders.setdefault(message["speaker"], f"speaker-{len(self.senders)}")
        self.done(
            self.service.call(
                "POST",
                PATH,
                {
                    "message_id": f"{self.identity}-{message['position']}",
                    "create_time": when,
                    "sender": sender,
                    "sender_name": message["speaker"],
                    "role": "user",
                    "content": content(message),
                    "group_id": self.identity,
                    "group_name": self.identity,
                    "refer_list": [],
                    "flush": flush,
                },
            )
        )

    def settle(self):
        if self.held:
            self.send(self.held, flush=True)
            self.held = None
        if self.state["dates"]:
            waiting = "messages still wait for extraction"
            self.until(lambda: not self.find("anything", 1).field(list, "result", "pending_messages"), waiting)

    def find(self, question, k, cutoff=None):
        body = {
            "query": question,
            "group_id": self.identity,
            "retrieve_method": self.options["method"],
            "memory_types": ["episodic_memory"],
            "top_k": k,
            "include_metadata": True,
        }
        if cutoff:
            body["end_time"] = instant(cutoff)
        return self.done(self.service.call("GET", f"{PATH}/search", body))

    def search(self, request):
        k, cutoff = request["k"], request["cutoff"]
        if k > MOST:
            raise ValueError(f"EverMemOS returns at most {MOST} memories, and {k} were asked for")
        if k == 0 or not self.state["dates"]:
            return {"items": []}
        found = self.find(request["question"], k, cutoff).field(list, "result", "memories")
        memories = []
        for group in found:
            # Releases differ: memories come in groups by type, or one after the other.
            memories += [group] if "memory_type" in group else [memory for kind in group.values() for memory in kind]
        items = [self.episode(memory) for memory in self.most(memories, k, "memories")]
        for item in items:
            item["stored"] = item.pop("id")
        return {"items": until(items, cutoff)}

    def episode(self, memory):
        text = memory.get("episode") or memory.get("content") or memory.get("summary")
        if not text:
            raise RuntimeError(f"a memory has neither `episode`, `content` nor `summary`: {str(memory)[:160]!r}")
        subject = memory.get("subject") or memory.get("title")
        date = self.date_at(memory["timestamp"])
        identity = memory.get("id") or memory.get("event_id") or memory.get("episode_id")
        return {
            "id": identity,
            "text": shown(date, f"{subject}: {text}" if subject else text),
            "messages": None,
            "date": date,
        }

    def date_at(self, timestamp):
        """The date of the latest message at a time."""
        until = read_instant(timestamp)
        times = [when for when in self.state["dates"] if read_instant(when) <= until]
        if not times:
            raise RuntimeError(f"a memory is dated {timestamp}, before every message: run the service with TZ=UTC")
        return self.state["dates"][max(times, key=read_instant)]

    def export(self, request):
        items, offset = [], 0
        while self.state["dates"]:
            query = {"group_id": self.identity, "memory_type": "episodic_memory", "limit": PAGE, "offset": offset}
            answer = self.done(self.service.call("GET", f"{PATH}?{urlencode(query)}"))
            page = answer.field(list, "result", "memories")
            items += [self.episode(memory) for memory in page]
            offset += len(page)
            if not page or not answer.field(dict, "result").get("has_more"):
                break
        for item in items:
            if not item["id"]:
                raise RuntimeError(f"a stored memory has no id: {item['text'][:120]!r}")
        return {"items": items}


serve(EverMemOS())
