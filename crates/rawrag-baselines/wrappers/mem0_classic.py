"""Classic Mem0 1.x behind the wrapper protocol: facts, then ADD, UPDATE, DELETE or NONE decisions.

The setting `policy` is `full` (the default) or `add-only`, which turns each proposed UPDATE into an ADD
and each DELETE into NONE.
"""

import json
import re
from importlib.metadata import version

from mem0 import Memory
from mem0_store import CAPABILITIES, MESSAGES_AN_ADD, Mem0Store
from rawrag_wrapper import serve

ADD_ONLY = {"UPDATE": "ADD", "DELETE": "NONE"}


class ClassicMem0(Mem0Store):
    settings = {"policy": "full"}
    description = {
        "name": "mem0-classic",
        "version": version("mem0ai"),
        "capabilities": {**CAPABILITIES, "cutoff": False, "deletion": True},
        "unit": {"messages": MESSAGES_AN_ADD},
        "notes": [
            "A memory's date and provenance are those of the batch of messages that last wrote it.",
            "The extraction prompt's date of today is the batch's; Mem0 itself takes the wall clock.",
            "Memories are overwritten and deleted, so earlier questions are asked of prefixes of the history.",
        ],
    }

    def build(self, config):
        if self.options["policy"] not in ("full", "add-only"):
            raise ValueError(f"policy is {self.options['policy']!r}; it must be full or add-only")
        return Memory.from_config(config)

    def find(self, question, k, identity):
        return self.memory.search(question, limit=k, user_id=identity)

    def watched(self, messages, **named):
        today = f"Today's date is {self.day}"
        dated = [{**m, "content": re.sub(r"Today's date is \d{4}-\d\d-\d\d", today, m["content"])} for m in messages]
        return super().watched(dated, **named)

    def read(self, messages, reply):
        said = json.loads(self.unfenced(reply), strict=False)
        if messages[0]["role"] == "system":
            if not isinstance(said["facts"], list):
                raise ValueError("`facts` is no list")
            return reply
        for memory in said["memory"]:
            event = memory["event"]
            self.note("proposed", event, str(memory["id"]), memory.get("old_memory"), memory["text"])
            if self.options["policy"] == "add-only":
                memory["event"] = ADD_ONLY.get(event, event)
        return json.dumps(said)


serve(ClassicMem0())
