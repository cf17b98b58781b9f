"""A stand-in with the entry points of Memora that its wrapper uses: a memory is a message, found by shared words."""

import json
import logging
import os
import re
from types import SimpleNamespace

logger = logging.getLogger(__name__)


def words(text):
    return set(re.findall(r"\w+|[^\w\s]", text.lower()))


def entry(**fields):
    return SimpleNamespace(**{"linked_memory": "", "history": "", "episodic_memory_ids": [], **fields})


class MemoraClient:
    def __init__(self, cfg=None, user_id=None, api_key=None):
        if not os.environ["OPENAI_BASE_URL"].startswith("http"):
            raise ValueError("OPENAI_BASE_URL")
        self.path = os.path.join(cfg.memory.persist_path, f"{cfg.memory.collection_name}_{user_id}.json")
        os.makedirs(cfg.memory.persist_path, exist_ok=True)
        self.kept = []
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.kept = [entry(**fields) for fields in json.load(file)]

    def add(self, text=None, type="default", metadata=None, progress_callback=None):
        episode = entry(index=f"Episode {metadata['segment_index']}", value="Some talk.", memory_type="episodic")
        added = [episode]
        for message in text:
            if "out of reach" in message["content"]:
                logger.error("Error in extraction: the model is out of reach")
                continue
            value = message["content"]
            added.append(
                entry(
                    index=f"Note {len(self.kept) + len(added)}",
                    value=value,
                    memory_type="factual",
                    episodic_memory_ids=[episode.index],
                )
            )
        cue = entry(index=f"Cue {len(self.kept)}", value="", memory_type="factual", linked_memory=added[-1].index)
        self.kept += [*added, cue]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump([vars(kept) for kept in self.kept], file)
        return added

    def advance_query(self, context, top_k=5, query_type="prompt", checkpoint_path=None, latency_tracker=None):
        facts = [kept for kept in self.kept if kept.memory_type == "factual" and not kept.linked_memory]
        # Its policy's working set may grow past what was asked for.
        return sorted(facts, key=lambda fact: -len(words(context) & words(fact.value)))[: top_k + 2]

    def list_memories(self, limit=20):
        return self.kept[:limit]

    def count(self):
        return len(self.kept)
