#!/usr/bin/env bash
# Takes the sample history through both generations of Mem0, with this project's embedder and replies
# by rule. First: `cargo rawrag system setup mem0` and `cargo rawrag system setup mem0-classic`.
# `bash experiments/scripted/run.sh [FOLDER FOR RUNS]`; the program is RAWRAG, or cargo's.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-runs}
rawrag() { ${RAWRAG:-cargo --quiet run -p rawrag --} --offline "$@"; }

rawrag models serve --script crates/rawrag-baselines/wrappers/script.toml --address 127.0.0.1:8787 &
server=$!
trap 'kill $server' EXIT
until (exec 3<>/dev/tcp/127.0.0.1/8787) 2>/dev/null; do
  kill -0 $server
  sleep 0.2
done

for experiment in experiments/scripted/sample-*.toml; do
  rawrag run "$experiment" --out "$runs/$(basename "$experiment" .toml)"
done
