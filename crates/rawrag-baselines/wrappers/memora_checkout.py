"""Memora behind the wrapper protocol, from a checkout of its repository.

Its prompted policy retrieves in at most five steps, with cue index, BM25 and episodes (Raw-RAG, D.3.9).
"""

import json
import logging
import os

from rawrag_checkout import entry_points
from rawrag_wrapper import Failures, models_of, require, serve

ENTRY_POINTS = ("memora.memora_client:MemoraClient", "omegaconf:OmegaConf")
SETTINGS = {
    "checkout": None,
    "python": None,  # read by `rawrag`, which starts this with it
}
MESSAGES_AN_ADD = 32


class Memora:
    description = {
        "name": "memora",
        "version": "checkout",
        "capabilities": {
            "dates": True,
            "speakers": True,
            "cutoff": False,
            "provenance": True,
            "deletion": True,
            "export": True,
            "persistence": True,
            "decisions": False,
        },
        "unit": {"messages": MESSAGES_AN_ADD},
        "notes": [
            "Written from its public source and tested with a stand-in of its entry points, never the real one.",
            "Segments are a session's messages in batches of 32; the segmentation by a model is not part of its library.",
            "A memory's messages and date are those of the batches that wrote it.",
            "A model's failed call fails the add or search where Memora logs it; Memora itself goes on with less.",
            "What it spends on models is not counted and stands as 0.",
        ],
    }

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "Memora")
        options = require(request["settings"], SETTINGS)
        key = os.environ.get("RAWRAG_API_KEY", "none")
        # Its OpenAI clients read both.
        os.environ["OPENAI_API_KEY"], os.environ["OPENAI_BASE_URL"] = key, models["address"]
        client, configurations = entry_points(options["checkout"], "src", ENTRY_POINTS)
        self.folder = request["folder"]
        os.chdir(self.folder)
        self.failures = Failures()
        logging.getLogger("memora").addHandler(self.failures)
        self.client = client(cfg=configurations.create(self.configuration(models, key)), user_id="conversation")
        self.number, self.origin = 0, {}
        if not request["fresh"]:
            with open(self.kept(), encoding="utf-8") as file:
                self.origin = json.load(file)
        return {"perspectives": 1}

    def configuration(self, models, key):
        return {
            "llm": {"model": models["chat"], "seed": 42},
            "openai": {
                "api_type": "openai",
                "llm_api_base": models["address"],
                "llm_api_version": "",
                "embedding_api_base": models["address"],
                "embedding_api_version": "",
                "embedding_deployment_name": models["embedding"],
                "managed_identity": None,
                "api_key": key,
                "embedding_model": models["embedding"],
                "model": models["chat"],
            },
            "memory": {
                "memory_store": "rawrag",
                "persist_path": os.path.join(self.folder, "memora"),
                "collection_name": "memora",
                "distance": "cosine",
                "query_score_threshold": 0.4,
                "update_score_threshold": 0.8,
                "force_rebuild": False,
                "enhance_query": False,
                "return_history": True,
                "multimodal_support": False,
                "top_k": 20,
                "cue_top_k": 10,
                "enable_hybrid_search": True,
                "enable_segmentation": False,
                "enable_episodic_memory": True,
                "use_segments_as_episodic": False,
                "enable_cue_index": True,
            },
            "retrieval": {"strategy": "prompt"},
            "eval": {"max_workers": 1},
        }

    def kept(self):
        return os.path.join(self.folder, "origin.json")

    def add(self, request):
        said = request["messages"]
        dates = [message["date"] for message in said if message["date"]]
        date = max(dates, default=None)
        messages = []
        for message in said:
            captions = "".join(f" [image: {caption}]" for caption in message["captions"])
            messages.append({"role": "user", "content": f"{message['speaker']}: {message['text']}{captions}"})
        metadata = {"timestamp": date or "unknown", "segment_index": f"{said[0]['session']}_{self.number}"}
        self.number += 1
        entries = self.client.add(messages, type="chat", metadata=metadata)
        self.failures.check()
        for entry in entries:
            origin = self.origin.setdefault(entry.index, {"messages": [], "date": None})
            positions = {message["position"] for message in said}
            origin["messages"] = sorted({*origin["messages"], *positions})
            origin["date"] = max(filter(None, (origin["date"], date)), default=None)
        return {}

    def ready(self, request):
        with open(self.kept(), "w", encoding="utf-8") as file:
            json.dump(self.origin, file)
        return {}

    def entries(self):
        """Everything kept but the cues, which no reader sees."""
        kept = self.client.list_memories(limit=max(self.client.count(), 1))
        return [entry for entry in kept if not entry.linked_memory]

    def search(self, request):
        k = request["k"]
        if k == 0 or not self.origin:
            return {"items": []}
        found = self.client.advance_query(request["question"], top_k=k, query_type="prompt")
        self.failures.check()
        episodes = {entry.index: entry for entry in self.entries() if entry.memory_type == "episodic"}
        return {
            "items": [
                {"text": self.text(entry, episodes), "stored": entry.index, **self.where_from(entry)}
                for entry in found[:k]
            ]
        }

    def where_from(self, entry):
        return self.origin.get(entry.index, {"messages": None, "date": None})

    def text(self, entry, episodes):
        """A memory as its reader sees it: its value and history, and the episodes that it links to."""
        lines = [f"[{self.where_from(entry)['date'] or 'unknown date'}] {entry.index}: {entry.value}"]
        if entry.history:
            lines.append(f"history: {entry.history}")
        for identity in entry.episodic_memory_ids or []:
            if identity in episodes:
                lines.append(f"episode: {episodes[identity].value}")
        return "\n".join(lines)

    def export(self, request):
        return {
            "items": [
                {"id": entry.index, "text": self.text(entry, {}), **self.where_from(entry)}
                for entry in (self.entries() if self.origin else [])
            ]
        }

    def decisions(self, request):
        return {"decisions": []}

    def usage(self, request):
        return {}

    def close(self, request):
        return {}


serve(Memora())
