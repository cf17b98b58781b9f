#!/usr/bin/env bash
# Takes the sample history through the wrapped systems that pip installs, with this project's embedder
# and replies by rule. First `cargo rawrag system setup` for mem0, mem0-classic, simplemem, a-mem and memu.
# `bash experiments/scripted/run.sh [FOLDER FOR RUNS [EXPERIMENT..]]`; the program is RAWRAG, or cargo's.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-runs}
shift || true
[ $# -gt 0 ] || set -- experiments/scripted/sample-*.toml
read -ra program <<<"${RAWRAG:-cargo --quiet run -p rawrag --}"

listening() { (exec 3<>/dev/tcp/127.0.0.1/8787) 2>/dev/null; }
if listening; then
  echo "something else listens on port 8787, which the experiments name" >&2
  exit 1
fi
"${program[@]}" --offline models serve --script crates/rawrag-baselines/wrappers/script.toml --address 127.0.0.1:8787 &
server=$!
trap 'kill $server' EXIT
until listening; do
  kill -0 $server
  sleep 0.2
done

for experiment; do
  "${program[@]}" --offline run "$experiment" --out "$runs/$(basename "$experiment" .toml)"
done
