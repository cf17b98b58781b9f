#!/usr/bin/env bash
# Synthetic episodes, where the truth is known, through systems and the oracles over their stores
# (docs/diagnostics.md). `bash experiments/oracles/run.sh FOLDER_FOR_RUNS [NAME...]`; NAMES are files here
# without `.toml`, all of them if none is given. The program is RAWRAG, or cargo's. Mem0's needs
# `cargo rawrag system setup mem0` and, at 127.0.0.1:8788, `cargo rawrag models serve --script ...` as its
# file says.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:?name a folder for the runs}
shift
rawrag() { ${RAWRAG:-cargo --quiet run --release -p rawrag --} --offline "$@"; }

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for file in experiments/oracles/*.toml; do names+=("$(basename "$file" .toml)"); done
fi

mkdir -p "$runs"
for name in "${names[@]}"; do
  recipe=meme-100-short
  [[ $name != *-1000-* ]] || recipe=meme-1000-short
  data=$runs/$recipe-data
  [ -e "$data" ] || rawrag data generate experiments/synthetic/$recipe.toml --out "$data"
  [ -e "$runs/$name" ] || rawrag run "experiments/oracles/$name.toml" --data "$data" --out "$runs/$name"
  # The reader knows no policy, and a rule that looks for names finds them in it.
  for oracle in "complete 5000" "complete none" "raw 5000" "source none"; do
    read -r store budget <<<"$oracle"
    suffix=$store
    [ "$budget" = none ] || suffix=$store-$budget
    [ -e "$runs/$name-$suffix" ] || rawrag oracle "$runs/$name" --data "$data" \
      --store "$store" --budget "$budget" --policy none --out "$runs/$name-$suffix"
  done
done
