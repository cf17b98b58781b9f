"""EMem and EMem-G behind the wrapper protocol, from a checkout of their repository.

A conversation is written in LoCoMo's format and read by EMem's own loader. It cannot take in more
later, so each `ready` builds a store of the history so far (Raw-RAG, D.3.4).
"""

import json
import os
from datetime import datetime

from rawrag_checkout import entry_points
from rawrag_wrapper import models_of, require, serve

ENTRY_POINTS = (
    "src.emem:EMem",
    "src.emem.utils.config_utils:BaseConfig",
    "src.emem.utils.conversation_data_utils:load_locomo_dataset",
)
SETTINGS = {
    "checkout": None,
    "python": None,  # read by `rawrag`, which starts this with it
    "json_schema": "true",  # whether the chat model takes a JSON schema
}
MONTHS = (
    "January February March April May June July August September October November December"
).split()


class EMem:
    def __init__(self, name, graph):
        self.graph = graph
        self.description = {
            "name": name,
            "version": "checkout",
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
                "Written from its public source and tested with a stand-in of its entry points, never the real one.",
                "A store of its own for each prefix of the history; undated sessions are given as of 1 January 1970.",
                "A unit's messages are the turns that the extractor named; one that names none has neither them nor a date.",
                "Exported units carry no messages; calls of the embedder are not counted.",
            ],
        }

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "EMem")
        options = require(request["settings"], SETTINGS)
        os.environ["OPENAI_API_KEY"] = os.environ.get("RAWRAG_API_KEY", "none")
        os.environ["SUPPORT_JSON_SCHEMA"] = str(options["json_schema"]).lower()
        self.build, self.config, self.load = entry_points(options["checkout"], "", ENTRY_POINTS)
        # It may write beside where it runs.
        os.chdir(request["folder"])
        self.folder, self.models = request["folder"], models
        self.speakers = request["speakers"]
        self.counts = {"chat_calls": 0, "input_tokens": 0, "output_tokens": 0}
        self.messages, self.built, self.memory = [], 0, None
        if not request["fresh"]:
            with open(self.kept(), encoding="utf-8") as file:
                kept = json.load(file)
            self.messages, self.built = kept["messages"], kept["built"]
            if self.built:
                self.index()
        return {"perspectives": 1}

    def kept(self):
        return os.path.join(self.folder, "conversation.json")

    def add(self, request):
        self.messages += request["messages"]
        self.memory = None
        return {}

    def ready(self, request):
        if self.messages and self.memory is None:
            self.built += 1
            self.index()
        with open(self.kept(), "w", encoding="utf-8") as file:
            json.dump({"messages": self.messages, "built": self.built}, file)
        return {}

    def index(self):
        """Builds the store of this number, or takes it up again."""
        store = os.path.join(self.folder, f"store-{self.built}")
        os.makedirs(store, exist_ok=True)
        self.turns = {}
        path = os.path.join(store, "conversation.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump([self.locomo()], file)
        [sample] = self.load(path)
        self.memory = self.build(
            global_config=self.config(
                llm_name=self.models["chat"],
                llm_base_url=self.models["address"],
                embedding_model_name=self.models["embedding"],
                embedding_base_url=self.models["address"],
                max_new_tokens=8192,
                seed=42,
                temperature=0,
                openie_mode="edu_based_contextual_ee_online",
                embedding_batch_size=256,
                embedding_return_as_normalized=True,
                synonymy_edge_sim_threshold=0.9,
                linking_top_k=30,
                date_format_type="locomo",
                skip_edu_context_gen=True,
                skip_retrieval_ppr=not self.graph,
                save_dir=store,
            )
        )
        self.count(self.memory.llm_model)
        self.memory.index_conversation(sample)

    def locomo(self):
        speakers = (self.speakers + ["Nobody", "Nobody"])[:2]
        conversation = {"speaker_a": speakers[0], "speaker_b": speakers[1]}
        numbers = {session: at for at, session in enumerate(dict.fromkeys(m["session"] for m in self.messages), 1)}
        for message in self.messages:
            number = numbers[message["session"]]
            turns = conversation.setdefault(f"session_{number}", [])
            conversation.setdefault(f"session_{number}_date_time", spelled(message["date"]))
            turn = f"D{number}:{len(turns) + 1}"
            self.turns[turn] = message
            captions = "".join(f" [image: {caption}]" for caption in message["captions"])
            turns.append({"speaker": message["speaker"], "dia_id": turn, "text": message["text"] + captions})
        return {
            "sample_id": "conversation",
            "conversation": conversation,
            "qa": [],
            "event_summary": {},
            "observation": {},
            "session_summary": {},
        }

    def count(self, model):
        """Counts calls and tokens as its own efficiency script does: replies are (text, metadata, cached)."""

        def counted(replies):
            for reply in replies:
                if reply is not None and len(reply) >= 3 and not reply[2]:
                    self.counts["chat_calls"] += 1
                    self.counts["input_tokens"] += reply[1].get("prompt_tokens", 0)
                    self.counts["output_tokens"] += reply[1].get("completion_tokens", 0)

        inside = False

        def watched(call, listed):
            def calling(*arguments, **named):
                nonlocal inside
                if inside:
                    return call(*arguments, **named)  # counted by the call that made it
                inside = True
                try:
                    replies = call(*arguments, **named)
                finally:
                    inside = False
                counted(replies if listed else [replies])
                return replies

            return calling

        model.infer, model.batch_infer = watched(model.infer, False), watched(model.batch_infer, True)

    def search(self, request):
        if request["k"] == 0 or not self.messages:
            return {"items": []}
        if self.memory is None:
            raise ValueError("messages were added since the last `ready`")
        [solution], _ = self.memory.retrieve_structuring_conversation_enhanced_v2(
            queries=[request["question"]], gold_docs=None, no_query_trace_saving=True
        )
        return {"items": [self.item(unit) for unit in list(solution.edus)[: request["k"]]]}

    def item(self, unit):
        named = [str(turn) for turn in getattr(unit, "source_turn_ids", None) or []]
        messages = [self.turns[turn] for turn in named if turn in self.turns]
        dates = [message["date"] for message in messages if message["date"]]
        date = max(dates, default=None)
        return {
            "text": f"[{date or 'unknown date'}] {unit.edu_text}",
            "messages": sorted({message["position"] for message in messages}) or None,
            "date": date,
            "stored": unit.edu_id,
        }

    def export(self, request):
        rows = self.memory.edu_embedding_store.get_all_id_to_rows() if self.memory else {}
        return {"items": [{"id": identity, "text": row["content"]} for identity, row in rows.items()]}

    def decisions(self, request):
        return {"decisions": []}

    def usage(self, request):
        return self.counts

    def close(self, request):
        return {}


def spelled(date):
    """A date as LoCoMo writes it, such as `1:56 pm on 8 May, 2023`."""
    when = datetime.fromisoformat(date) if date else datetime(1970, 1, 1)
    half = "pm" if when.hour >= 12 else "am"
    return f"{when.hour % 12 or 12}:{when.minute:02} {half} on {when.day} {MONTHS[when.month - 1]}, {when.year}"


def serve_variant(name, graph):
    serve(EMem(name, graph))
