"""Scores of late interaction on LoCoMo's conv-26, which the test in ../reference.rs compares with.

usage: python late_interaction.py LOCOMO_JSON MINILM_DIR > conv-26.json
needs: pip install -r requirements.txt

Everything is numpy in float32 from the weights on: the encoder, and the score as the documentation
of rawrag_retrieval::late_interaction gives it. Of every third question with evidence in categories
1 to 4 the ten best messages are kept, as message ids and scores.
"""
import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import scipy
import tokenizers
from safetensors.numpy import load_file
from scipy.special import erf

LAYERS, HEADS, HEAD = 6, 12, 32
MONTHS = ("January February March April May June July August September October November December").split()
CONTEXTS, NAMED, DATED, SHARE, BEST = [(0, 0), (1, 0), (2, 0), (2, 2)], 0.1, 0.1, 0.25, 3


class Encoder:
    def __init__(self, folder):
        self.weights = load_file(Path(folder, "model.safetensors"))
        self.tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def normal(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def __call__(self, text):
        """The word-pieces between [CLS] and [SEP], and a row of length 1 for each."""
        ids = self.tokenizer.encode(text).ids
        embedding = lambda name: self.weights[f"embeddings.{name}_embeddings.weight"]
        x = embedding("word")[ids] + embedding("position")[: len(ids)] + embedding("token_type")[0]
        x = self.normal(x, "embeddings.LayerNorm")
        heads = lambda y: y.reshape(-1, HEADS, HEAD).swapaxes(0, 1)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}."
            query, key, value = (heads(self.linear(x, f"{at}attention.self.{n}")) for n in ("query", "key", "value"))
            attention = np.exp(query @ key.swapaxes(1, 2) / np.float32(math.sqrt(HEAD)))
            attention /= attention.sum(-1, keepdims=True)
            mixed = (attention @ value).swapaxes(0, 1).reshape(len(ids), -1)
            x = self.normal(x + self.linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
            inner = self.linear(x, at + "intermediate.dense")
            inner *= (1 + erf(inner / np.float32(math.sqrt(2)))) / 2
            x = self.normal(x + self.linear(inner, at + "output.dense"), at + "output.LayerNorm")
        states = x[1:-1]
        return ids[1:-1], states / np.linalg.norm(states, axis=1, keepdims=True)


def words(text):
    return re.findall(r"[^\W_]+", text)


def names(question, speaker):
    spoken = " ".join(words(question)).lower()
    return f" {' '.join(words(speaker)).lower()} " in f" {spoken} "


def dates(question, month, year):
    found = words(question)
    for i, word in enumerate(found):
        if word.lower() != MONTHS[month - 1].lower():
            continue
        if word.lower() in ("may", "march") and (i == 0 or word[0].islower()):
            continue
        years = [int(w) for w in found[i + 1 : i + 3] if re.fullmatch("(19|20)[0-9]{2}", w)]
        if not years or years[0] == year:
            return True
    return False


def messages(conversation):
    """id, session, speaker, (month, year), text of every message, in order"""
    for number in range(1, 100):
        for turn in conversation.get(f"session_{number}", []):
            _, month, year = re.search(r"on (\d+) (\w+), (\d+)", conversation[f"session_{number}_date_time"]).groups()
            caption = f" [image: {turn['blip_caption']}]" if "blip_caption" in turn else ""
            yield (turn["dia_id"], number, turn["speaker"], (MONTHS.index(month) + 1, int(year)),
                   f"{turn['speaker']}: {turn['text']}{caption}")


def scores(question, asked, history, encoded, frequency):
    pieces, vectors = asked
    n = len(history)
    weights = np.array([math.log(1 + (n - frequency[p] + 0.5) / (frequency[p] + 0.5)) for p in pieces])
    best = np.array([(vectors @ message.T).max(1) for _, message in encoded])
    session = [row[1] for row in history]
    score = np.empty(n)
    for i, (_, _, speaker, month, _) in enumerate(history):
        near = lambda before, after: [j for j in range(max(i - before, 0), min(i + after + 1, n)) if session[j] == session[i]]
        wide = [weights @ best[near(*context)].max(0) / weights.sum() for context in CONTEXTS]
        score[i] = np.mean(wide) + NAMED * names(question, speaker) + DATED * dates(question, *month)
    lift = {s: np.sort(score[[x == s for x in session]])[-BEST:].mean() for s in set(session)}
    return score + [SHARE * lift[s] for s in session]


def main():
    sample = next(s for s in json.load(open(sys.argv[1])) if s["sample_id"] == "conv-26")
    encode = Encoder(sys.argv[2])
    history = list(messages(sample["conversation"]))
    ids = [row[0] for row in history]
    encoded = [encode(row[4]) for row in history]
    frequency = Counter(piece for pieces, _ in encoded for piece in set(pieces))
    asked = [(i, q["question"]) for i, q in enumerate(sample["qa"]) if q["category"] != 5 and set(q["evidence"]) & set(ids)]
    out = {"versions": {m.__name__: m.__version__ for m in (np, scipy, tokenizers)}, "questions": []}
    for i, question in asked[::3]:
        score = scores(question, encode(question), history, encoded, frequency)
        order = np.argsort(-score, kind="stable")[:10]
        best = [[ids[j], round(float(score[j]), 6)] for j in order]
        out["questions"].append({"question": f"conv-26/{i}", "best": best})
    json.dump(out, sys.stdout, separators=(",", ":"))


main()
