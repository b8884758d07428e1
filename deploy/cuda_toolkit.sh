#!/bin/sh
# cuda_toolkit.sh TOOLKIT LIBRARIES: makes a CUDA toolkit of NVIDIA's wheels on PyPI (cuda.txt) in the folder TOOLKIT, and
# copies the libraries that the plugins for GPUs open when they run into the folder LIBRARIES.
set -eu
toolkit=$1 libraries=$2
wheels=$(mktemp -d)
python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary=:all: \
  --root-user-action=ignore --require-hashes \
  --target "$wheels" -r "$(dirname "$0")/cuda.txt"
mkdir -p "$toolkit/lib" "$libraries"
for part in "$wheels"/nvidia/*/; do
  for folder in bin include lib nvvm; do
    if [ -d "$part$folder" ]; then cp -a "$part$folder" "$toolkit"; fi
  done
done
rm -r "$wheels"
chmod -R a+rX "$toolkit"
chmod a+x "$toolkit"/bin/* "$toolkit"/nvvm/bin/*
# Wheels have no links for linkers, and the toolkit's tools look for lib64.
for library in "$toolkit"/lib/*.so.*; do
  ln -sf "$(basename "$library")" "${library%.so.*}.so"
done
ln -sfn lib "$toolkit/lib64"
# cuDNN compiles some of its kernels with nvrtc, and its front end may open the runtime, which is linked into ours.
for name in libcublasLt libcudart libcudnn libnccl libnvrtc; do
  cp "$toolkit/lib/$name"*.so.* "$libraries"
done
