#!/usr/bin/env bash
# skipped_test.sh CPU_KERNELS_TEST: a test that is skipped beside others is counted, with its reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
log=$(env -u ONEDNN_MAX_CPU_ISA "$1" --gtest_filter=CpuBf16.AmxCanBeHeldBack:CpuLoss.GoesOverChunksOfTokens) || { echo "$log"; exit 1; }
counted=$(awk -f skipped.awk <<<"$log"$'\n'"$log")
[ "$counted" = 'skipped: 2 x needs ONEDNN_MAX_CPU_ISA, which cpu_kernels_test_without_amx sets' ] || { echo "$counted"; exit 1; }
