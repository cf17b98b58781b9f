"""A stand-in with the entry points of EMem that its wrapper uses: a unit is a turn, found by shared words."""

import json
import os
import re
from types import SimpleNamespace


def words(text):
    return set(re.findall(r"\w+|[^\w\s]", text.lower()))


class Model:
    def infer(self, messages, **named):
        return "", {"prompt_tokens": 3, "completion_tokens": 1}, False

    def batch_infer(self, messages, **named):
        return [self.infer(message) for message in messages]


class Store:
    def __init__(self):
        self.rows = {}

    def get_all_id_to_rows(self):
        return self.rows


class EMem:
    def __init__(self, global_config=None, save_dir=None, llm_model_name=None):
        self.global_config = global_config
        self.llm_model = Model()
        self.edu_embedding_store = Store()
        self.units = []

    def index_conversation(self, conversation):
        if os.environ["SUPPORT_JSON_SCHEMA"] not in ("true", "false"):
            raise ValueError("SUPPORT_JSON_SCHEMA")
        for session in conversation.conversation.sessions.values():
            if not re.fullmatch(r"\d{1,2}:\d\d [ap]m on \d{1,2} [A-Z][a-z]+, \d{4}", session.date_time):
                raise ValueError(f"no date of LoCoMo's: {session.date_time}")
            self.llm_model.batch_infer([turn.text for turn in session.turns])
            for turn in session.turns:
                unit = SimpleNamespace(
                    edu_id=f"edu-{turn.dia_id}",
                    edu_text=f"{turn.speaker} said: {turn.text}",
                    source_turn_ids=[turn.dia_id],
                )
                self.units.append(unit)
                self.edu_embedding_store.rows[unit.edu_id] = {"hash_id": unit.edu_id, "content": unit.edu_text}
        with open(os.path.join(self.global_config.save_dir, "graph.json"), "w") as file:
            json.dump(len(self.units), file)

    def retrieve_structuring_conversation_enhanced_v2(self, queries, gold_docs=None, no_query_trace_saving=False):
        solutions = []
        for query in queries:
            found = sorted(self.units, key=lambda unit: -len(words(query) & words(unit.edu_text)))
            solutions.append(SimpleNamespace(question=query, edus=found[:30]))
        return solutions, [{} for _ in queries]
