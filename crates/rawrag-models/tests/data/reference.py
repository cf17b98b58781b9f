"""Writes the expected values that the tests of rawrag-models compare with, and the small cross-encoder.

usage: python reference.py MINILM_DIR     (made with the versions that expected.json names)
needs: pip install torch transformers tokenizers safetensors numpy

- cross-encoder/: a BERT classifier of two layers with random weights and a vocabulary of its own
- expected.json: word-piece ids by `tokenizers`; MiniLM vectors and classifier scores by
  `transformers`, computed in float64
"""
import json
import os
import sys

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, BertModel

here, minilm = os.path.dirname(os.path.abspath(__file__)), sys.argv[1]
small = os.path.join(here, "cross-encoder")

PIECES = [
    "", " \t\r\n", "Hello, world!", "unaffable UNAFFABLE Unaffable's", "don't stop-and-go at 3.14%",
    "na\u00efve caf\u00e9 re\u0301sume\u0301 \u00c5ngstr\u00f6m \u0130stanbul \u1e9e\u00df", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8\u3002\u4e2d\u6587\uff0c\ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645 \u0661\u0662\u0663 \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f ok",
    "a\u0000b\u0001c\ufffdd\u200be\ufefff\u00adg\u2028h\u00a0i\u3000j\u0085k", "\u201cquoted\u201d \u2014 dash\u2026 \u00a1hola! \u00bfqu\u00e9? \u20ac5 \u00a33 \u00b0C \u00a9",
    "x" * 100 + " " + "y" * 101, "supercalifragilisticexpialidocious antidisestablishmentarianism", "\ue000private\U000f0000 \u0378unassigned",
    "~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./", "\u01c4\u01c5 \ufb01ne \uff26\uff55\uff4c\uff4c \u2167 \u00bd \u00b2", "##ing ##", "[unused1] <|endoftext|> <s></s>",
]
TEXTS = [
    "The ferry leaves at seven, so meet me by the ticket office.",
    "",
    "We counted the beehives twice: eleven in spring, fourteen by August!",
    "\u00bfD\u00f3nde dej\u00e9 las llaves? \U0001f511 \u65e5\u672c",
    " ".join(f"Entry {i}: the lamp in room {i * 7 % 31} was replaced, and nobody wrote down why." for i in range(40)),
]
PAIRS = ("where is the green boat", [
    "the green boat is at the old pier", "nobody knows", "", "boat boat boat",
    "the boat that anna painted green last summer is tied to the old pier behind the mill where the river is wide",
])
LONG_QUERY = "where is the green boat that anna painted last summer behind the old mill by the river"


def tokenizer(path):
    """Text only: the ids of text that spells a special token are not what these tests ask for."""
    t = Tokenizer.from_file(path)
    t.no_padding()
    t.no_truncation()
    return t


def make_small():
    words = ("the boat green old pier mill river is at where nobody know ##s anna paint ##ed last summer behind that "
             "by tied to wide a b c d e i o n r s t ##a ##b ##e ##i ##n ##o ##r ##t").split()
    vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?"] + words)}
    t = json.load(open(os.path.join(minilm, "tokenizer.json")))
    ids = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    for token in t["added_tokens"]:
        token["id"] = ids[token["content"]]
    for name, token in t["post_processor"]["special_tokens"].items():
        token["ids"] = [ids[name]]
    t["model"]["vocab"], t["truncation"], t["padding"] = vocab, None, None
    json.dump(t, open(os.path.join(small, "tokenizer.json"), "w"), indent=1)
    torch.manual_seed(20)
    config = BertConfig(vocab_size=len(vocab), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                        intermediate_size=40, max_position_embeddings=24, num_labels=1, initializer_range=0.3)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                p.add_(torch.randn_like(p) * 0.2)
    save_file(model.state_dict(), os.path.join(small, "model.safetensors"))
    keys = ["model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
            "max_position_embeddings", "type_vocab_size", "vocab_size", "layer_norm_eps"]
    json.dump({k: getattr(config, k) for k in keys}, open(os.path.join(small, "config.json"), "w"), indent=1)
    return model.double()


def score(model, query, passages):
    t = tokenizer(os.path.join(small, "tokenizer.json"))
    full = [len(t.encode(query, p).ids) for p in passages]
    t.enable_truncation(24, strategy="longest_first")
    encoded = [t.encode(query, p) for p in passages]
    logits = [model(input_ids=torch.tensor([e.ids]), token_type_ids=torch.tensor([e.type_ids])).logits.item() for e in encoded]
    return {"query": query, "passages": passages, "scores": logits, "truncated": sum(n > 24 for n in full)}


def main():
    os.makedirs(small, exist_ok=True)
    t = tokenizer(os.path.join(minilm, "tokenizer.json"))
    assert t.get_vocab_size() == 30522
    model = BertModel.from_pretrained(minilm, add_pooling_layer=False).eval().double()
    vectors, tokens = [], []
    for text in TEXTS:
        ids = t.encode(text).ids
        ids = ids if len(ids) <= 256 else ids[:255] + ids[-1:]
        states = model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
        mean = states.mean(0)
        vectors.append([round(float(x), 9) for x in mean / np.linalg.norm(mean)])
        inner = states[1:-1] / np.linalg.norm(states[1:-1], axis=1, keepdims=True)
        # the sum over components of every token's vector tells any wrong token
        tokens.append([round(float(x), 7) for x in inner.sum(1)])
    classifier = make_small()
    expected = {
        "versions": {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "pieces": [{"text": s, "ids": t.encode(s, add_special_tokens=False).ids} for s in PIECES],
        "minilm": [{"text": s, "vector": v, "token_sums": k} for s, v, k in zip(TEXTS, vectors, tokens)],
        "cross_encoder": [score(classifier, *PAIRS), score(classifier, LONG_QUERY, PAIRS[1])],
    }
    with open(os.path.join(here, "expected.json"), "w") as f:
        json.dump(expected, f, separators=(",", ":"))


with torch.no_grad():
    main()
