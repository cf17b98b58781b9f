"""Times vectorised numpy and the Rust bench `resampling` side by side and prints the ratios.

pip install numpy==2.4.6
python against_numpy.py            # from anywhere in the workspace; needs cargo

Both compute the same estimates from the same outcomes; the printed intervals must agree up to
Monte-Carlo error. Numpy is given its usual forms of the stratified workload, index gathering and
multinomial counts times the outcome matrix; the faster one is what counts. numpy's bulk routines
use one core, so the Rust bench is also timed on one thread. On a machine that others use, processor
time is the fairer comparison.
"""

import json
import os
import pathlib
import subprocess
import time

import numpy as np

SYSTEMS = 7
HERE = pathlib.Path(__file__).resolve().parent


def outcome(unit, system):
    mixed = (unit * 7919 + system * 104729 + unit * unit * (system + 3) * 31) % 1009
    return (mixed < 450 + 60 * system).astype(np.float64)


def contrasts(scores):
    """Intervals and sign tests of all pairs."""
    first = None
    for a in range(SYSTEMS):
        for b in range(a + 1, SYSTEMS):
            d = scores[:, a] - scores[:, b]
            interval = np.percentile(d, [2.5, 97.5])
            hits = min((d <= 0).sum(), (d >= 0).sum())
            _ = min(1.0, 2 * (1 + hits) / (1 + len(d)))
            first = interval if first is None else first
    for s in range(SYSTEMS):
        np.percentile(scores[:, s], [2.5, 97.5])
    return first


def stratified(draw):
    units = np.arange(2071)
    x = np.stack([outcome(units, s) for s in range(SYSTEMS)], axis=1)
    strata = [x[units * 14 // 2071 == h] for h in range(14)]
    rng = np.random.default_rng(1)
    replicates, block = 50_000, 1_000
    scores = np.empty((replicates, SYSTEMS))
    for start in range(0, replicates, block):
        scores[start:start + block] = sum(draw(rng, s, block) for s in strata) / len(x)
    return contrasts(scores)


def gather(rng, stratum, block):
    n = len(stratum)
    return stratum[rng.integers(0, n, size=(block, n))].sum(axis=1)


def multinomial(rng, stratum, block):
    n = len(stratum)
    return rng.multinomial(n, np.full(n, 1 / n), size=block) @ stratum


def episodes():
    episode, task = np.meshgrid(np.arange(100), np.arange(6), indexing="ij")
    questions = 1 + (episode + task) % 2
    correct = np.zeros((100, 6, SYSTEMS))
    for question in range(2):
        unit = (episode * 6 + task) * 2 + question
        for s in range(SYSTEMS):
            gate = np.where(task < 3, 1.0, outcome(unit + 5000, s))
            correct[:, :, s] += np.where(question < questions, gate * outcome(unit, s), 0.0)
    rng = np.random.default_rng(1)
    counts = rng.multinomial(100, np.full(100, 0.01), size=20_000).astype(np.float64)
    totals = (counts @ correct.reshape(100, -1)).reshape(-1, 6, SYSTEMS)
    return contrasts((totals / (counts @ questions)[:, :, None]).mean(axis=1))


def timed(run, times):
    wall, cpu, interval = [], [], None
    for _ in range(times):
        start, started = time.perf_counter(), time.process_time()
        interval = run()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - started)
    return min(wall), min(cpu), interval


def rust(threads):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    command = ["cargo", "bench", "--quiet", "-p", "rawrag-statistics", "--bench", "resampling"]
    output = subprocess.run(command, cwd=HERE, env=environment, check=True, capture_output=True)
    return {row["name"]: row for row in map(json.loads, output.stdout.splitlines())}


def main():
    one, two = rust(1), rust(2)
    print(f"numpy {np.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, label, run in [
        ("stratified", "gather", lambda: stratified(gather)),
        ("stratified", "multinomial", lambda: stratified(multinomial)),
        ("episodes", "multinomial", episodes),
    ]:
        wall, cpu, interval = timed(run, 2)
        print(f"{name}: numpy ({label}) {wall:.3f} s, of the processor {cpu:.3f} s, "
              f"interval {interval.round(4).tolist()}")
        for threads, row in ((1, one[name]), (2, two[name])):
            print(f"  rust on {threads} thread(s): {row['seconds']:.4f} s ({wall / row['seconds']:.0f} "
                  f"times faster), of the processor {row['cpu_seconds']:.4f} s "
                  f"({cpu / row['cpu_seconds']:.0f} times less), peak {row['peak_mb']:.0f} MB, "
                  f"interval {np.round(row['interval'], 4).tolist()}")


if __name__ == "__main__":
    main()
