"""Exact search by rawrag-retrieval beside faiss IndexFlatIP, on the same random vectors of length 1.

usage: python compare.py BENCH_BINARY [--threads 2] [--rounds 15]

BENCH_BINARY  what `cargo bench -p rawrag-retrieval --bench search --no-run` built

needs: pip install -r requirements.txt

Both search in every round, one directly after the other and in alternating order, so that other
load on the machine meets both alike; ratios are taken within a round, above 1 where rawrag is
faster. Both must find the same rows.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import faiss
import numpy as np

DIMENSION, N = 384, 128


def vectors(count, seed):
    x = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Faiss:
    def __init__(self, rows):
        self.index = faiss.IndexFlatIP(DIMENSION)
        self.index.add(rows)

    def run(self, queries):
        """seconds of each query alone, seconds of all at once, and the rows"""
        alone, rows = [], []
        for query in queries:
            start = time.perf_counter()
            _, found = self.index.search(query[None], N)
            alone.append(time.perf_counter() - start)
            rows.append(found[0])
        start = time.perf_counter()
        self.index.search(queries, N)
        return alone, time.perf_counter() - start, rows


class Rawrag:
    def __init__(self, binary, rows, folder, threads):
        self.folder = folder
        rows.tofile(os.path.join(folder, "rows"))
        env = dict(os.environ, RAYON_NUM_THREADS=str(threads))
        command = [binary, os.path.join(folder, "rows"), str(DIMENSION), str(N)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def run(self, queries):
        path = os.path.join(self.folder, "queries")
        queries.tofile(path)
        self.process.stdin.write(path + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["alone"], answer["at_once"], answer["rows"]


def spread(values, scale=1.0):
    low, middle, high = np.percentile(values, [25, 50, 75]) * scale
    return f"{middle:8.2f} [{low:.2f}, {high:.2f}]"


def compare(binary, count, asked, threads, rounds):
    rows, queries = vectors(count, 1), vectors(asked, 2)
    with tempfile.TemporaryDirectory() as folder:
        mine, theirs = Rawrag(binary, rows, folder, threads), Faiss(rows)
        same = [len(set(a) & set(b.tolist())) for a, b in zip(mine.run(queries)[2], theirs.run(queries)[2])]
        # Sums in another order may swap what is equal to the seventh digit.
        assert sum(same) >= 0.9999 * N * asked, f"{sum(same)} of {N * asked} rows are the same"
        times = []
        for i in range(rounds):
            pair = [None, None]
            for side in ((0, 1), (1, 0))[i % 2]:
                # Idle threads of the side before may spin for a while.
                time.sleep(0.05)
                alone, at_once, _ = (mine, theirs)[side].run(queries)
                pair[side] = (statistics.median(alone), sum(alone), at_once)
            times.append(pair)
    (one, _, many), (other_one, other_sum, other_many) = np.array(times).transpose(1, 2, 0) * 1000
    print(f"{count} x {DIMENSION}, top {N}, {asked} queries; milliseconds")
    print(f"  one query   rawrag {spread(one)}   faiss {spread(other_one)}   ratio {spread(other_one / one)}")
    print(f"  all at once rawrag {spread(many)}   faiss {spread(other_many)}   ratio {spread(other_many / many)}")
    print(f"  faiss one at a time to rawrag all at once: ratio {spread(other_sum / many)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_binary")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    faiss.omp_set_num_threads(args.threads)
    print(f"faiss {faiss.__version__}, {args.threads} threads, {args.rounds} rounds; median [quartiles]")
    compare(args.bench_binary, 10_000, 50, args.threads, args.rounds)
    compare(args.bench_binary, 100_000, 200, args.threads, args.rounds)


main()
