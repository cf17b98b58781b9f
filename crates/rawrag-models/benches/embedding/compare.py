"""Embedding rate of rawrag-models beside onnxruntime, both in fp32 on the same generated texts.

usage: python compare.py MODEL_DIR BENCH_BINARY [--threads 2] [--rounds 7]

MODEL_DIR     folder with config.json, tokenizer.json and model.safetensors of all-MiniLM-L6-v2
BENCH_BINARY  what `cargo bench -p rawrag-models --bench embedding --no-run` built

needs: pip install -r requirements.txt

The ONNX graph is written here from the safetensors file with the operators that onnxruntime fuses
best (LayerNormalization, Gelu). Both run in every round, one directly after the other and in
alternating order, so that other load on the machine meets both alike; the ratio is taken within a
round. Batches of onnxruntime hold 32 texts of like length. Tokenising is counted for rawrag and
not for onnxruntime.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

WORDS = (
    "the a of to and we she he they with for again garden sister meeting report lamp river running photograph "
    "because 2023 coffee doctor's sketchbook piano violin Lisbon mountain promised forgot yesterday excited never "
    "painting appointment neighbour marathon recipe saffron unexpectedly, quietly; tomorrow? wonderful! bicycle"
).split()


def texts(tokenizer, count, low, high, seed):
    """`count` random sentences of `low` to `high` word-pieces, special tokens included."""
    rng, out = random.Random(seed), []
    while len(out) < count:
        words, size = [], rng.randint(low, high)
        while len(tokenizer.encode(" ".join(words)).ids) < size:
            words.append(rng.choice(WORDS))
        if len(tokenizer.encode(" ".join(words)).ids) <= high:
            out.append(" ".join(words))
    return out


def graph(folder):
    config = json.load(open(os.path.join(folder, "config.json")))
    weights = load_file(os.path.join(folder, "model.safetensors"))
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nodes, tensors = [], {}

    def const(name, value):
        tensors[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def op(kind, *inputs, **attributes):
        name = f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(x, name):
        product = op("MatMul", x, const(name + ".w", weights[name + ".weight"].T))
        return op("Add", product, const(name + ".b", weights[name + ".bias"]))

    def norm(x, name):
        scale, bias = const(name + ".w", weights[name + ".weight"]), const(name + ".b", weights[name + ".bias"])
        return op("LayerNormalization", x, scale, bias, axis=-1, epsilon=config["layer_norm_eps"])

    def split(x, order):
        return op("Transpose", op("Reshape", x, heads_shape), perm=order)

    heads_shape = const("heads_shape", np.array([0, 0, heads, hidden // heads], np.int64))
    joined_shape = const("joined_shape", np.array([0, 0, hidden], np.int64))
    one, last = const("one", np.array([1], np.int64)), const("last", np.array([2], np.int64))
    words = op("Gather", const("words", weights["embeddings.word_embeddings.weight"]), "ids")
    length = op("Slice", op("Shape", "ids"), one, last)
    positions = const("positions", weights["embeddings.position_embeddings.weight"]
                      + weights["embeddings.token_type_embeddings.weight"][0])
    places = op("Slice", positions, const("zero", np.array([0], np.int64)), length)
    x = norm(op("Add", words, places), "embeddings.LayerNorm")
    # 0 where there is text, a large negative number where there is padding
    absent = op("Sub", const("present", np.float32(1)), "mask")
    bias = op("Mul", op("Unsqueeze", absent, const("axes", np.array([1, 2], np.int64))), const("low", np.float32(-1e9)))
    scale = const("scale", np.float32((hidden // heads) ** -0.5))
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q = split(linear(x, p + "attention.self.query"), [0, 2, 1, 3])
        k = split(linear(x, p + "attention.self.key"), [0, 2, 3, 1])
        v = split(linear(x, p + "attention.self.value"), [0, 2, 1, 3])
        a = op("Softmax", op("Add", op("Mul", op("MatMul", q, k), scale), bias), axis=-1)
        a = op("Reshape", op("Transpose", op("MatMul", a, v), perm=[0, 2, 1, 3]), joined_shape)
        x = norm(op("Add", linear(a, p + "attention.output.dense"), x), p + "attention.output.LayerNorm")
        h = op("Gelu", linear(x, p + "intermediate.dense"))
        x = norm(op("Add", linear(h, p + "output.dense"), x), p + "output.LayerNorm")
    nodes.append(helper.make_node("Identity", [x], ["states"]))
    g = helper.make_graph(
        nodes, "minilm",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["b", "n"]),
         helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", "n"])],
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["b", "n", hidden])],
        list(tensors.values()))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


class Onnxruntime:
    def __init__(self, folder, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(graph(folder), options, providers=["CPUExecutionProvider"])

    def batches(self, encodings):
        order = sorted(range(len(encodings)), key=lambda i: len(encodings[i]))
        for at in range(0, len(order), 32):
            rows = order[at : at + 32]
            ids = np.zeros((len(rows), len(encodings[rows[-1]])), np.int64)
            mask = np.zeros(ids.shape, np.float32)
            for row, i in enumerate(rows):
                ids[row, : len(encodings[i])], mask[row, : len(encodings[i])] = encodings[i], 1
            yield rows, ids, mask

    def run(self, encodings):
        out = np.empty((len(encodings), 384), np.float32)
        start = time.perf_counter()
        for rows, ids, mask in self.batches(encodings):
            (states,) = self.session.run(None, {"ids": ids, "mask": mask})
            mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            out[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return time.perf_counter() - start, out


class Rawrag:
    def __init__(self, binary, folder, threads):
        env = dict(os.environ, RAYON_NUM_THREADS=str(threads))
        self.process = subprocess.Popen([binary, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def run(self, batch):
        self.process.stdin.write(json.dumps(batch) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def spread(values):
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:8.2f} [{low:.2f}, {high:.2f}]"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir")
    parser.add_argument("bench_binary")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(os.path.join(args.model_dir, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    other = Onnxruntime(args.model_dir, args.threads)
    ours = Rawrag(args.bench_binary, args.model_dir, args.threads)
    print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}, {args.threads} threads, {args.rounds} rounds; "
          "median [quartiles]")
    cases = {
        "windows of 241-256 pieces": texts(tokenizer, 64, 241, 256, 1),
        "turns of 32 pieces": texts(tokenizer, 512, 32, 32, 2),
        "turns of 8-120 pieces": texts(tokenizer, 256, 8, 120, 3),
    }
    for name, batch in cases.items():
        encodings = [e.ids for e in tokenizer.encode_batch(batch)]
        ours.run(batch), other.run(encodings)
        rates = []
        for i in range(args.rounds):
            if i % 2:
                theirs, mine = other.run(encodings)[0], ours.run(batch)
            else:
                mine, theirs = ours.run(batch), other.run(encodings)[0]
            rates.append((len(batch) / mine, len(batch) / theirs, theirs / mine))
        mine, theirs, ratio = zip(*rates)
        tokens = sum(map(len, encodings)) / len(batch)
        print(f"{name} ({tokens:.0f} on average)\n  rawrag      texts/s {spread(mine)}   {statistics.median(mine) * tokens:8.0f} tokens/s\n"
              f"  onnxruntime texts/s {spread(theirs)}\n  ratio               {spread(ratio)}")


main()
