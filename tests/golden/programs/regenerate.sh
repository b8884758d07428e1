#!/usr/bin/env bash
# regenerate.sh [PROGRAM]: writes the golden programs of programs.txt anew, with PROGRAM of a build with tests, or a fresh
# build of tessera. Look at the difference before you keep it.
set -euo pipefail
program=${1:-}
[ -z "$program" ] || program=$(realpath "$program")
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
if [ -z "$program" ]; then
  ./dev run --version >&2
  build=build/${TESSERA_PRESET:-release}
  cmake -DTESSERA_BUILD_TESTS=ON "$build" >&2
  cmake --build "$build" --target tessera_test_devices >&2
  program=$build/tessera
fi
devices=$(dirname "$program")/tests/devices
while read -r name flags; do
  case $name in '' | '#'*) continue ;; esac
  read -ra more <<<"$flags"
  model=(--model=tests/golden/programs/two-blocks --seq-len=16)
  [[ $flags != *--model=* ]] || model=()
  "$program" plan "${model[@]}" --batch-size=2 --print-program --plugin-dir="$devices" "${more[@]}" \
    >"tests/golden/programs/$name.txt"
done <tests/golden/programs/programs.txt
