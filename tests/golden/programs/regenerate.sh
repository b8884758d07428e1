#!/usr/bin/env bash
# regenerate.sh [PROGRAM]: writes the golden programs of programs.txt anew, with PROGRAM or a fresh build of tessera.
# Look at the difference before you keep it.
set -euo pipefail
program=${1:-}
[ -z "$program" ] || program=$(realpath "$program")
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
if [ -z "$program" ]; then
  ./dev run --version >&2
  program=build/${TESSERA_PRESET:-release}/tessera
fi
while read -r name flags; do
  case $name in '' | '#'*) continue ;; esac
  read -ra more <<<"$flags"
  "$program" plan --model=tests/golden/programs/two-blocks --batch-size=2 --seq-len=16 --print-program "${more[@]}" \
    >"tests/golden/programs/$name.txt"
done <tests/golden/programs/programs.txt
