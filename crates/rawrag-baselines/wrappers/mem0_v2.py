"""Mem0 2.x behind the wrapper protocol: its extractor only adds memories."""

import json
from importlib.metadata import version

import mem0.memory.main as main
from mem0 import Memory
from mem0_store import CAPABILITIES, MESSAGES_AN_ADD, Mem0Store
from rawrag_wrapper import serve


class Mem0(Mem0Store):
    description = {
        "name": "mem0",
        "version": version("mem0ai"),
        "capabilities": {**CAPABILITIES, "cutoff": True, "deletion": False},
        "unit": {"messages": MESSAGES_AN_ADD},
        "notes": [
            "A memory's date and provenance are those of its batch of messages.",
            "The extraction prompt's observation date and current date are the batch's; Mem0 itself takes the wall clock.",
            "Installed without its extras `nlp` and `extras`, so it searches by vectors, without keywords or entities.",
            "What is later than a cutoff is taken out of the k memories found, so fewer may remain.",
        ],
    }

    def build(self, config):
        # Memory.add refuses `timestamp`, but the prompt's builder takes the two dates.
        build = main.generate_additive_extraction_prompt

        def dated(**named):
            return build(**{**named, "current_date": self.day, "timestamp": self.day})

        main.generate_additive_extraction_prompt = dated
        return Memory.from_config(config)

    def find(self, question, k, identity):
        return self.memory.search(question, top_k=k, filters={"user_id": identity})

    def read(self, messages, reply):
        memories = json.loads(self.unfenced(reply), strict=False)["memory"]
        for memory in memories:
            self.note("proposed", memory.get("event", "ADD"), str(memory["id"]), None, memory["text"])
        return reply


serve(Mem0())
