#!/usr/bin/env bash
# Gathers what ./dev gpu-check runs into one folder that works on a machine with nothing but a driver and CUDA's
# libraries: programs, plugins, data, and the shared libraries they need beside them, found through relative RPATHs.
#     make_folder.sh BUILD FOLDER [PLUGINS]
# PLUGINS: a folder of plugins that take the place of those of the same names, for a dry run on emulated GPUs.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
folder=$2
own_plugins=${3:-}
limit_mb=60

rm -rf "$folder"
mkdir -p "$folder"/bin/plugins "$folder"/lib "$folder"/tests/golden
cp "$build"/tessera "$folder"/bin/
cp "$build"/plugins/*.so "$folder"/bin/plugins/
[ -z "$own_plugins" ] || cp "$own_plugins"/*.so "$folder"/bin/plugins/
for program in conformance/device_test conformance/device_ops_test conformance/communicator_test \
  parity/device_training_test gpu/gpu_bench; do
  cp "$build/tests/$program" "$folder"/bin/
done
cp -r "$source"/tests/golden/gpt2-nano "$source"/tests/golden/gpt2-wide "$folder"/tests/golden/
cp "$source"/tests/gpu/peer_torch.py "$source"/tests/gpu/gpu-check "$source"/tests/gpu/same-values "$folder"/
# 24,000 tokens of GPT-2's vocabulary, each two bytes.
# shellcheck disable=SC2059
printf "$(awk 'BEGIN { srand(7); for (i = 0; i < 24000; ++i) { t = int(rand() * 50257); printf "\\%03o\\%03o", t % 256, int(t / 256) } }')" >"$folder"/tokens.bin
git -C "$source" describe --always --dirty --abbrev=12 >"$folder"/commit

# The C library and its parts come with every system and fit only their own loader.
system='linux-vdso|ld-linux|libc\.so|libm\.so|libpthread|libdl\.so|librt\.so'
for file in "$folder"/bin/* "$folder"/bin/plugins/*.so; do
  [ -f "$file" ] || continue
  if ldd "$file" | grep 'not found'; then
    echo "make_folder.sh: $file needs a library that is not here" >&2
    exit 1
  fi
  ldd "$file" | awk '$2 == "=>" {print $3}' | grep -Ev "$system" || true
done | sort -u | xargs -I{} cp -L {} "$folder"/lib/

strip --strip-unneeded "$folder"/bin/plugins/*.so "$folder"/lib/*
find "$folder"/bin -maxdepth 1 -type f -exec strip {} +
find "$folder"/bin -maxdepth 1 -type f -exec patchelf --set-rpath '$ORIGIN/../lib' {} +
find "$folder"/bin/plugins -type f -exec patchelf --set-rpath '$ORIGIN/../../lib' {} +
find "$folder"/lib -type f -exec patchelf --set-rpath '$ORIGIN' {} +

# oneDNN is two thirds of it all; gpu-check unpacks it.
gzip -9 "$folder"/lib/libdnnl.so.*

mb=$(du -sm "$folder" | cut -f1)
if [ "$mb" -ge "$limit_mb" ]; then
  echo "make_folder.sh: $folder has $mb MB; it must stay below $limit_mb" >&2
  exit 1
fi
echo "$folder: $mb MB" >&2
