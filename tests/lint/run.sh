#!/usr/bin/env bash
# run.sh BUILD-FOLDER: the rules, the format, names that two files define in different ways, and clang-tidy over every
# source the build knows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tests/lint/rules.sh
git ls-files '*.cc' '*.h' '*.hpp' '*.c' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror
cmake --preset one-program >/dev/null
cmake --build --preset one-program
git ls-files 'runtime/*.cc' 'plugins/*.cc' | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$1"
