#!/usr/bin/env bash
# Takes the sample history through the wrapped systems that pip installs, with this project's embedder
# and replies by rule. First `cargo rawrag system setup` for mem0, mem0-classic, simplemem, a-mem and memu.
# `bash experiments/scripted/run.sh [FOLDER FOR RUNS [EXPERIMENT..]]`; the program is RAWRAG, or cargo's.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-runs}
shift || true
[ $# -gt 0 ] || set -- experiments/scripted/sample-*.toml
rawrag() { ${RAWRAG:-cargo --quiet run -p rawrag --} --offline "$@"; }

rawrag models serve --script crates/rawrag-baselines/wrappers/script.toml --address 127.0.0.1:8787 &
server=$!
trap 'kill $server' EXIT
until (exec 3<>/dev/tcp/127.0.0.1/8787) 2>/dev/null; do
  kill -0 $server
  sleep 0.2
done

for experiment; do
  rawrag run "$experiment" --out "$runs/$(basename "$experiment" .toml)"
done
