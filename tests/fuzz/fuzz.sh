#!/usr/bin/env bash
# fuzz.sh PROGRAM LIMIT: libFuzzer's program, from its seeds and from what it has learned, which stays in corpus/ beside it.
# An input that is a finding stays there too. LIMIT is -runs=N or -max_total_time=SECONDS.
set -euo pipefail
program=$(realpath "$1")
readonly program limit=$2
cd "$(dirname "$program")"
name=$(basename "$program" _fuzz)
mkdir -p "corpus/$name"
TESSERA_FUZZ_SEEDS=corpus/$name "$program" "$limit" -max_len=8192 -timeout=60 -malloc_limit_mb=128 -rss_limit_mb=1024 \
  -artifact_prefix="corpus/$name-" "corpus/$name"
