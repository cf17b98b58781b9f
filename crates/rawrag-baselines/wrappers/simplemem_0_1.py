"""SimpleMem behind the wrapper protocol: windows of 40 messages, two of them shared, become entries.

Its embedder is a local sentence-transformers model; here it is the service that the run names.
"""

import json
import os
import resource
from importlib.metadata import version

from openai import OpenAI
from rawrag_wrapper import Failures, UsageMeter, models_of, require, serve

WINDOW, SHARED = 40, 2


class Embedder:
    """What SimpleMem asks of its embedder, from an OpenAI-compatible service."""

    def __init__(self, client, model, dimension):
        self.client, self.model, self.dimension = client, model, dimension

    def encode_documents(self, texts):
        import numpy

        reply = self.client.embeddings.create(model=self.model, input=list(texts))
        return numpy.array([row.embedding for row in reply.data], dtype=numpy.float32)

    def encode_single(self, text, is_query=False):
        return self.encode_documents([text])[0]


# How the lines begin that SimpleMem prints of a failure before it goes on with less. A failed
# attempt that is followed by another is none.
FAILED = (
    r"Error during|Warning: Failed to|Failed to|All \d+ attempts failed"
    r"|LLM API call failed after|Query analysis failed after|\[Worker \d+\] All \d+ attempts"
    r"|\[Parallel (Search|Processing)\] (Query|Window|Parallel execution).*failed:"
    r"|\[(Sequential|Additional) Search \d+\] Failed:|\[Reflection Round \d+\].* failed:"
)
# Less address space than this and LanceDB cannot map its files.
ADDRESS_SPACE_GIB = 16


class SimpleMem:
    description = {
        "name": "simplemem",
        "version": version("simplemem"),
        "capabilities": {
            "dates": True,
            "speakers": True,
            "cutoff": False,
            "provenance": True,
            "deletion": False,
            "export": True,
            "persistence": True,
            "decisions": False,
        },
        "unit": "session",
        "notes": [
            "An entry's date and provenance are those of its window of messages.",
            "Its embedder is the service of the run, in place of a local sentence-transformers model.",
            "With planning, release 0.1.0 searches by vectors alone: its keyword and structured channels are never asked.",
            "Nor could they be: with the LanceDB of these pins the package's keyword index is not built.",
            "A model's failed call or unreadable reply fails the add or search; SimpleMem itself goes on with less.",
        ],
    }

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "SimpleMem")
        require(request["settings"], {})
        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        if allowed != resource.RLIM_INFINITY and allowed < ADDRESS_SPACE_GIB << 30:
            mib = ADDRESS_SPACE_GIB << 10
            raise ValueError(f"SimpleMem's store maps much memory: --memory {mib}, or memory_mib under [memory.limits]")
        import simplemem.core.hybrid_retriever as retriever
        import simplemem.core.memory_builder as builder
        import simplemem.database.vector_store as store
        import simplemem.system as system
        import simplemem.utils.llm_client as client_module
        from simplemem.models.memory_entry import Dialogue

        self.failures = Failures(FAILED)
        for module in (retriever, builder, store, client_module):
            module.print = self.failures.print
        self.dialogue, self.folder = Dialogue, request["folder"]
        key = os.environ.get("RAWRAG_API_KEY", "none")
        client = OpenAI(base_url=models["address"], api_key=key)
        system.EmbeddingModel = lambda: Embedder(client, models["embedding"], models["dimension"])
        self.system = system.SimpleMemSystem(
            api_key=key,
            model=models["chat"],
            base_url=models["address"],
            db_path=os.path.join(self.folder, "lancedb"),
            use_streaming=False,
            enable_parallel_processing=False,
        )
        self.meter = UsageMeter()
        self.meter.watch(self.system.llm_client.client, client)
        self.origin, self.pending, self.shared = {}, [], []
        if not request["fresh"]:
            with open(self.kept(), encoding="utf-8") as file:
                self.origin = json.load(file)
        return {"perspectives": 1}

    def kept(self):
        return os.path.join(self.folder, "origin.json")

    def add(self, request):
        self.pending += request["messages"]
        while len(self.shared) + len(self.pending) >= WINDOW:
            self.window(WINDOW - len(self.shared))
        return {}

    def ready(self, request):
        if self.pending:
            self.window(len(self.pending))
        with open(self.kept(), "w", encoding="utf-8") as file:
            json.dump(self.origin, file)
        return {}

    def window(self, new):
        said, self.pending = self.shared + self.pending[:new], self.pending[new:]
        self.shared = said[-SHARED:]
        dialogues = [
            self.dialogue(
                dialogue_id=message["position"],
                speaker=message["speaker"],
                content=" ".join([message["text"], *(f"[image: {text}]" for text in message["captions"])]),
                timestamp=message["date"],
            )
            for message in said
        ]
        builder = self.system.memory_builder
        entries = builder._generate_memory_entries(dialogues)
        self.failures.check()
        self.system.vector_store.add_entries(entries)
        self.failures.check()
        builder.previous_entries = entries or builder.previous_entries
        dates = [message["date"] for message in said if message["date"]]
        for entry in entries:
            self.origin[entry.entry_id] = {
                "messages": [message["position"] for message in said],
                "date": max(dates, default=None),
            }

    def search(self, request):
        if request["k"] == 0 or not self.origin:
            return {"items": []}
        found = self.system.hybrid_retriever.retrieve(request["question"])[: request["k"]]
        self.failures.check()
        return {"items": [self.item(entry) for entry in found]}

    def item(self, entry):
        when = entry.timestamp or self.origin[entry.entry_id]["date"] or "unknown date"
        return {
            "text": f"[{when}] {entry.lossless_restatement}",
            "stored": entry.entry_id,
            **self.origin[entry.entry_id],
        }

    def export(self, request):
        entries = self.system.get_all_memories() if self.origin else []
        return {
            "items": [
                {"id": entry.entry_id, "text": entry.lossless_restatement, **self.origin[entry.entry_id]}
                for entry in entries
            ]
        }

    def decisions(self, request):
        return {"decisions": []}

    def usage(self, request):
        return self.meter.counts

    def close(self, request):
        return {}


serve(SimpleMem())
