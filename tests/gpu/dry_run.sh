#!/usr/bin/env bash
# Makes gpu-check's folder from a build of the tests, with the GPU plugins compiled for the processor (tests/cuda_on_cpu), and
# runs all of gpu-check there that emulated GPUs can show: that its programs, files, flags and checks fit together.
#     dry_run.sh BUILD FOLDER
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
folder=$2
emulated=$build/tests/cuda_on_cpu
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
"$source"/tests/gpu/make_folder.sh "$build" gpu-check "$emulated"/plugins
export LD_LIBRARY_PATH=$emulated/lib64 CUDA_ON_CPU_DEVICES=8
GPU_CHECK_DRY=4 gpu-check/gpu-check
