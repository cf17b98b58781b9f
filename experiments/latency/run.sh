#!/usr/bin/env bash
# Times adding and searching: ten episodes in full and cut short, and one chat of a million tokens message
# by message (docs/time-and-cost.md).
# `bash experiments/latency/run.sh FOLDER_FOR_RUNS [NAME...]`; NAMES are files here without `.toml`, all
# of them if none is given. BEAM names a folder with the `chat.json` of a chat of a million tokens, for
# the `stream-` ones. The program is RAWRAG, or cargo's. Those of Mem0 need
# `cargo rawrag system setup mem0` and `cargo rawrag system setup mem0-classic` first.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:?name a folder for the runs}
shift
program=${RAWRAG:-cargo --quiet run --release -p rawrag --}
rawrag() { $program --offline "$@"; }

mkdir -p "$runs"
for recipe in meme-10 meme-10-short; do
  [ -e "$runs/$recipe-data" ] || rawrag data generate experiments/synthetic/$recipe.toml --out "$runs/$recipe-data"
done

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for file in experiments/latency/*.toml; do names+=("$(basename "$file" .toml)"); done
fi

serve() {
  (exec $program --offline models serve --script "$1" --address "127.0.0.1:$2") &
  trap 'kill $(jobs -p)' EXIT
  until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
    kill -0 $!
    sleep 0.2
  done
}
[[ " ${names[*]}" != *mem0* ]] || serve crates/rawrag-baselines/wrappers/script.toml 8788
[[ ! " ${names[*]}" =~ atomic|summary|graph ]] || serve experiments/scripts/management.toml 8789

for name in "${names[@]}"; do
  more=()
  case $name in
    slice-*) data=$runs/meme-10-data ;;
    short-*) data=$runs/meme-10-short-data ;;
    stream-*)
      data=${BEAM:?name the folder of a chat of a million tokens in BEAM}
      # One chat is a part of a release, and has a hash of its own.
      more=(--unknown-data)
      ;;
  esac
  rawrag run "experiments/latency/$name.toml" --data "$data" --out "$runs/$name" "${more[@]}"
done
