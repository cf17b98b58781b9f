"""Time of `rawrag search` on a stored history, from the start of the process to its end.

usage: python search_process.py RAWRAG HISTORY [--rounds 30]

RAWRAG   the program, as `cargo build --release -p rawrag` made it
HISTORY  a history that `rawrag ingest` reads; its store is made in a temporary folder first

The weights must be in the model store (`rawrag models pull minilm`). Beside it, in every round, runs
`rawrag --version`: what starting a process costs on this machine at this moment.
"""
import argparse
import os
import resource
import subprocess
import tempfile
import time

QUESTIONS = ["Who fixed the bicycle in June?", "What did they say about moving house?", "When was the trip to the lake?"]


def run(command):
    """seconds by the clock, and seconds of processor time"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(values):
    values = sorted(values)
    at = lambda share: values[round(share * (len(values) - 1))] * 1000
    return f"{at(0.5):7.1f} [{at(0.25):.1f}, {at(0.75):.1f}], least {at(0):.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rawrag")
    parser.add_argument("history")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        subprocess.run([args.rawrag, "--offline", "ingest", args.history, "--store", store], check=True)
        search = lambda i: [args.rawrag, "--offline", "search", QUESTIONS[i % len(QUESTIONS)], "--store", store]
        run(search(0))
        times = [(run(search(i)), run([args.rawrag, "--version"])) for i in range(args.rounds)]
    print(f"{args.rounds} rounds; milliseconds, median [quartiles]")
    for name, side in (("search", 0), ("start alone", 1)):
        for what, column in (("clock", 0), ("processor", 1)):
            print(f"  {name:12} {what:10} {spread([t[side][column] for t in times])}")


main()
