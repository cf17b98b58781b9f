"""A reader of LoCoMo's format, as far as the wrapper writes it."""

import json
import re
from types import SimpleNamespace


def load_locomo_dataset(path):
    with open(path, encoding="utf-8") as file:
        samples = json.load(file)
    return [read(sample) for sample in samples]


def read(sample):
    conversation, sessions = sample["conversation"], {}
    for name, turns in conversation.items():
        number = re.fullmatch(r"session_(\d+)", name)
        if number:
            sessions[int(number[1])] = SimpleNamespace(
                session_id=int(number[1]),
                date_time=conversation[f"{name}_date_time"],
                turns=[SimpleNamespace(**turn) for turn in turns],
            )
    spoken = SimpleNamespace(
        speaker_a=conversation["speaker_a"], speaker_b=conversation["speaker_b"], sessions=sessions
    )
    return SimpleNamespace(sample_id=sample["sample_id"], qa=sample["qa"], conversation=spoken)
