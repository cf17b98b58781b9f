"""A-MEM behind the wrapper protocol: every message becomes a note, and a note may rewrite its neighbours.

Its package imports PyTorch and others for an embedder and back ends that are not used here; what
stands for them below fails when it is used. The embedder is the service that the run names.
"""

import json
import os
import sys
import types
from importlib.metadata import version

from rawrag_wrapper import Failures, UsageMeter, models_of, require, serve

# Imported by the package at its top, and never called on the way that this wrapper takes.
NOT_INSTALLED = (
    "litellm",
    "nltk",
    "nltk.tokenize",
    "rank_bm25",
    "sentence_transformers",
    "sklearn",
    "sklearn.metrics",
    "sklearn.metrics.pairwise",
    "transformers",
)
# How the lines begin that the package prints of a failure before it goes on with less.
FAILED = r"Error |Document .* not found for update"


class NotInstalled(types.ModuleType):
    """A module whose every function refuses."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*arguments, **named):
            raise RuntimeError(f"{self.__name__}.{name} is not installed in this environment")

        return refuse


for name in NOT_INSTALLED:
    sys.modules[name] = NotInstalled(name)

import agentic_memory.memory_system as memory_system  # noqa: E402
import agentic_memory.retrievers as retrievers  # noqa: E402
import chromadb  # noqa: E402
from openai import OpenAI  # noqa: E402


class Embedder(chromadb.EmbeddingFunction):
    """What the package's store asks of its embedder, from an OpenAI-compatible service."""

    def __init__(self, client, model):
        self.client, self.model = client, model

    def __call__(self, input):
        import numpy

        reply = self.client.embeddings.create(model=self.model, input=list(input))
        return [numpy.array(row.embedding, dtype=numpy.float32) for row in reply.data]

    @staticmethod
    def name():
        return "rawrag-service"

    def get_config(self):
        return {"model": self.model}

    @staticmethod
    def build_from_config(config):
        raise ValueError("the embedder is the run's service and is given at every opening")


class AMem:
    description = {
        "name": "a-mem",
        "version": version("a-mem"),
        "capabilities": {
            "dates": True,
            "speakers": True,
            "cutoff": False,
            "provenance": True,
            "deletion": True,
            "export": True,
            "persistence": True,
            "decisions": True,
        },
        "unit": {"messages": 1},
        "notes": [
            "The package of this name on PyPI, a continuation by others of the authors' code.",
            "Its embedder is the service of the run, in place of a local sentence-transformers model.",
            "A later note may rewrite a note's context and tags; date and provenance stay those of its own message.",
            "Searched by its own search with linked notes; linked ones come in where fewer than k were found.",
            "Links between notes are kept by the system and are no decisions here.",
            "A model's failed call or unreadable reply fails the add; A-MEM itself goes on with an empty note.",
        ],
    }

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "A-MEM")
        require(request["settings"], {})
        self.folder, self.unit, self.log = request["folder"], 0, []
        self.failures = Failures(FAILED)
        for module in (memory_system, retrievers):
            module.print = self.failures.print
        memory_system.logger.handlers = [self.failures]
        key = os.environ.get("RAWRAG_API_KEY", "none")
        client = OpenAI(base_url=models["address"], api_key=key)
        retrievers.SentenceTransformerEmbeddingFunction = lambda model_name: Embedder(client, models["embedding"])
        self.system = memory_system.AgenticMemorySystem(
            llm_backend="openai",
            llm_model=models["chat"],
            api_key=key,
            storage_path=os.path.join(self.folder, "chroma"),
        )
        chat = OpenAI(base_url=models["address"], api_key=key)
        self.system.llm_controller.llm.client = chat
        self.meter = UsageMeter()
        self.meter.watch(chat, client)
        self.rewrite, self.system.update = self.system.update, self.rewritten
        self.origin = {}
        if not request["fresh"]:
            with open(self.kept(), encoding="utf-8") as file:
                self.origin = json.load(file)
        return {"perspectives": 1}

    def kept(self):
        return os.path.join(self.folder, "origin.json")

    def add(self, request):
        for message in request["messages"]:
            captions = "".join(f" [image: {caption}]" for caption in message["captions"])
            # Without a time the package would take the wall clock's.
            when = "".join(character for character in message["date"] or "" if character.isdigit())[:12]
            identity = f"m{message['position']}"
            self.origin[identity] = {"messages": [message["position"]], "date": message["date"]}
            returned = self.system.add_note(
                f"{message['speaker']}: {message['text']}{captions}", time=when or "unknown", id=identity
            )
            self.failures.check()
            text = self.text(returned)
            self.note("returned", "ADD", returned, None, text)
            self.note("persisted", "ADD", returned, None, text)
        self.unit += 1
        return {}

    def rewritten(self, identity, **fields):
        """The system's own update of a note, with its texts before and after on record."""
        old = self.text(identity)
        done = self.rewrite(identity, **fields)
        new = self.text(identity)
        self.note("proposed", "UPDATE", identity, old, new)
        self.note("persisted", "UPDATE" if done else "NONE", identity, old, new)
        return done

    def note(self, level, event, memory, old, new):
        decision = {"unit": self.unit, "level": level, "event": event, "memory": memory, "old": old, "new": new}
        self.log.append({**decision, "perspective": None})

    def ready(self, request):
        with open(self.kept(), "w", encoding="utf-8") as file:
            json.dump(self.origin, file)
        return {}

    def text(self, identity):
        """A note as its reader sees it: when, what was said, and what the model made of it."""
        return self.shown(identity, self.system.retriever.get_by_id(identity))

    def shown(self, identity, stored):
        when = self.origin[identity]["date"] or "unknown date"
        words, tags = (", ".join(str(word) for word in stored[field]) for field in ("keywords", "tags"))
        return f"[{when}] {stored['content']}\ncontext: {stored['context']}\nkeywords: {words}\ntags: {tags}"

    def search(self, request):
        if request["k"] == 0 or not self.origin:
            return {"items": []}
        found = self.system.search_agentic(request["question"], request["k"])
        self.failures.check()
        return {
            "items": [
                {
                    "text": self.text(note["id"]),
                    # Chroma's distance, turned so that more is better; linked notes have none.
                    "score": -note["score"] if "score" in note else None,
                    "stored": note["id"],
                    **self.origin[note["id"]],
                }
                for note in found
            ]
        }

    def export(self, request):
        identities = self.system.retriever.get_all_ids()
        stored = self.system.retriever.get_by_ids(identities) if identities else {}
        self.failures.check()
        return {
            "items": [
                {"id": identity, "text": self.shown(identity, stored[identity]), **self.origin[identity]}
                for identity in identities
            ]
        }

    def decisions(self, request):
        return {"decisions": self.log}

    def usage(self, request):
        return self.meter.counts

    def close(self, request):
        return {}


serve(AMem())
