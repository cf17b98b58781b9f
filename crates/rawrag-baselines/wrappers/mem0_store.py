"""What both generations of Mem0 have in common: one store a conversation, its searches and exports."""

import os

from mem0.memory.utils import remove_code_blocks
from rawrag_wrapper import Limits, UsageMeter, models_of, require, spoken

LONGEST_MESSAGE = 8_000
MESSAGES_AN_ADD = 5
CAPABILITIES = {
    "dates": True,
    "speakers": True,
    "provenance": True,
    "export": True,
    "persistence": True,
    "decisions": True,
}


class Mem0Store:
    """The calls of the protocol over a `mem0.Memory`; a generation adds what it does its own way."""

    settings = {}

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "Mem0")
        if os.environ.get("OPENROUTER_API_KEY"):
            raise ValueError("OPENROUTER_API_KEY would send every call to another provider: unset it")
        self.options = require(request["settings"], self.settings)
        # Names may hold anything and may be alike but for what a filter trims, so identities are numbers.
        speakers = request["speakers"]
        self.identities = dict(enumerate(speakers)) if len(speakers) == 2 else {0: None}
        self.limits, self.meter = Limits(LONGEST_MESSAGE), UsageMeter()
        self.unit, self.log, self.wrong, self.day = 0, [], [], None
        service = {"openai_base_url": models["address"], "api_key": os.environ.get("RAWRAG_API_KEY", "none")}
        self.memory = self.build(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": os.path.join(request["folder"], "qdrant"),
                        "collection_name": "memories",
                        "embedding_model_dims": models["dimension"],
                        "on_disk": True,
                    },
                },
                "llm": {"provider": "openai", "config": {"model": models["chat"], **service}},
                "embedder": {"provider": "openai", "config": {"model": models["embedding"], **service}},
                "history_db_path": os.path.join(request["folder"], "history.db"),
            }
        )
        chat, embeddings = self.memory.llm.client, self.memory.embedding_model.client
        for client in (chat, embeddings):
            if not str(client.base_url).startswith(models["address"]):
                raise ValueError(f"Mem0 calls {client.base_url} where it was told {models['address']}")
        self.meter.watch(chat, embeddings)
        self.generate = self.memory.llm.generate_response
        self.memory.llm.generate_response = self.watched
        self.rows = self.last_row()
        return {"perspectives": len(self.identities)}

    def add(self, request):
        said = request["messages"]
        dates = [message["date"] for message in said if message["date"]]
        date = max(dates, default=None)
        self.day = date[:10] if date else "unknown"
        metadata = {"said_at": date, "messages": [message["position"] for message in said]}
        if date:
            metadata["created_at"] = date
        texts = [self.limits.apply(spoken(message)) for message in said]
        for self.identity, speaker in self.identities.items():
            roles = ["user" if speaker in (None, message["speaker"]) else "assistant" for message in said]
            messages = [{"role": role, "content": text} for role, text in zip(roles, texts)]
            # A dictionary may be changed by the library, so each call has its own.
            results = self.memory.add(messages, user_id=str(self.identity), metadata=dict(metadata))["results"]
            if self.wrong:
                problems, self.wrong = "; ".join(self.wrong), []
                raise RuntimeError(problems)
            for result in results:
                self.note("returned", result["event"], result["id"], result.get("previous_memory"), result["memory"])
            for rowid, memory, old, new, event in self.history_after(self.rows):
                self.note("persisted", event, memory, old, new)
                self.rows = rowid
        self.unit += 1
        return {}

    def ready(self, request):
        return {}  # every add is on disk before it returns

    def search(self, request):
        if request["k"] == 0:
            return {"items": []}
        found = []
        for identity in self.identities:
            results = self.find(request["question"], request["k"], str(identity))["results"]
            if len(results) > request["k"]:
                raise RuntimeError(f"Mem0 returned {len(results)} memories where {request['k']} were asked for")
            found += results
        found.sort(key=lambda result: -result["score"])
        items = [self.item(result) for result in found]
        cutoff = request["cutoff"] if self.description["capabilities"]["cutoff"] else None
        return {"items": [item for item in items if not cutoff or not item["date"] or item["date"] <= cutoff]}

    def item(self, result):
        origin = result["metadata"]
        return {
            "text": f"[{origin['said_at'] or 'unknown date'}] {result['memory']}",
            "messages": origin["messages"],
            "date": origin["said_at"],
            "score": result["score"],
            "stored": result["id"],
        }

    def export(self, request):
        client, items, offset = self.memory.vector_store.client, [], None
        while True:
            points, offset = client.scroll("memories", limit=256, offset=offset, with_payload=True)
            items += [self.stored(point) for point in points]
            if offset is None:
                return {"items": items}

    def stored(self, point):
        payload = point.payload
        speaker = self.identities[int(payload["user_id"])]
        return {
            "id": str(point.id),
            "text": payload["data"],
            "messages": payload["messages"],
            "date": payload["said_at"],
            "perspective": speaker,
        }

    def decisions(self, request):
        return {"decisions": self.log}

    def usage(self, request):
        return {**self.meter.counts, "truncated": self.limits.cut}

    def close(self, request):
        self.memory.vector_store.client.close()
        self.memory.db.close()
        return {}

    def note(self, level, event, memory, old, new):
        if event == "DELETE":
            old, new = old or new, None  # Mem0 gives the deleted text where other events have the new one
        self.log.append(
            {
                "unit": self.unit,
                "level": level,
                "event": event,
                "memory": memory,
                "old": old,
                "new": new,
                "perspective": self.identities[self.identity],
            }
        )

    def watched(self, messages, **named):
        """A chat call whose failures Mem0 would swallow: they fail the add instead."""
        try:
            reply = self.generate(messages=messages, **named)
            return self.read(messages, reply)
        except Exception as error:
            self.wrong.append(f"the extractor's model: {type(error).__name__}: {error}")
            raise

    def unfenced(self, reply):
        return remove_code_blocks(reply)

    def last_row(self):
        return self.memory.db.connection.execute("SELECT COALESCE(MAX(rowid), 0) FROM history").fetchone()[0]

    def history_after(self, row):
        columns = "rowid, memory_id, old_memory, new_memory, event"
        query = f"SELECT {columns} FROM history WHERE rowid > ? ORDER BY rowid"
        return self.memory.db.connection.execute(query, (row,)).fetchall()
