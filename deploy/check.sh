#!/usr/bin/env bash
# Checks deploy/ without a cluster and without a docker engine: the manifests by schema, the image by building it.
#
#     manifests   check.py, in a virtual environment with the schemas (PyPI: kubernetes-validate)
#     image       buildah runs the Dockerfile's steps in a chroot; its base is a Debian that mmdebstrap makes, in place
#                 of one from a registry. Then the image trains, as its own user.
#     cuda-image  the same with the plugins for NVIDIA GPUs, for one architecture; they load, and the image trains on the CPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly work=build/deploy
mkdir -p "$work"
readonly buildah=(buildah --storage-driver vfs --root "$PWD/$work/store" --runroot "$PWD/$work/store/run")
readonly authorities=/usr/local/share/ca-certificates
export BUILDAH_ISOLATION=chroot

manifests() {
  if ! cmp -s deploy/requirements.txt "$work/requirements.txt"; then
    rm -rf "$work/venv"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r deploy/requirements.txt
    cp deploy/requirements.txt "$work"
  fi
  "$work/venv/bin/python" deploy/check.py
}

# build_image NAME BUILD-ARGS...
build_image() {
  local name=$1 base=$work/debian.tar container arguments=() cache=()
  shift
  [ -e "$base" ] || mmdebstrap --variant=minbase bookworm "$base"
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add --quiet "$container" "$base" >/dev/null
  # A proxy between here and PyPI may have an authority that this machine was told of.
  if [ -d "$authorities" ]; then "${buildah[@]}" copy "$container" "$authorities" "$authorities" >/dev/null; fi
  "${buildah[@]}" commit --quiet --rm "$container" tessera-base >/dev/null
  for argument in BUILD_IMAGE=localhost/tessera-base RUN_IMAGE=localhost/tessera-base \
    COMMIT="$(git rev-parse --short=12 HEAD)" "$@"; do
    arguments+=(--build-arg "$argument")
  done
  # What this tree's builds have compiled already.
  if command -v ccache >/dev/null; then cache=(--volume "$(ccache --get-config cache_dir):/root/.cache/ccache"); fi
  "${buildah[@]}" bud "${cache[@]}" --pull-never --network host "${arguments[@]}" \
    --ignorefile deploy/Dockerfile.dockerignore -f deploy/Dockerfile -t "$name" .
}

# train_in NAME PLUGINS...: trains in the image, once the plugins have loaded there.
train_in() {
  local name=$1 container
  shift
  container=$("${buildah[@]}" from --pull-never "$name")
  "${buildah[@]}" copy "$container" examples/char /data/model >/dev/null
  "${buildah[@]}" copy "$container" docs /data/docs >/dev/null
  "${buildah[@]}" run "$container" -- tessera --version
  "${buildah[@]}" run "$container" -- sh -c 'test "$(id -u)" = 1000'
  for plugin in "$@"; do "${buildah[@]}" run "$container" -- tessera plugins info "$plugin"; done
  "${buildah[@]}" run "$container" -- tessera train --model model --data docs --batch-size 2 --nproc 2 --steps 5
  "${buildah[@]}" rm "$container" >/dev/null
  echo "deploy: the image $name was built, and trains"
}

image() {
  build_image tessera
  train_in tessera
}

# What the plugins open is found, and has all that it needs but the driver.
readonly libraries='
  for name in libcublasLt libcudart libcudnn libnccl libnvrtc; do
    ldconfig -p | grep -q "$name\.so\.[0-9]* .*/usr/local/lib" || { echo "deploy: $name is not in the image"; exit 1; }
  done
  ! ldd /usr/local/lib/lib*.so.* | grep "not found" | grep -v "libcuda\.so\.1"'

cuda-image() {
  local container
  build_image tessera-cuda CUDA=ON CUDAARCHS=90
  container=$("${buildah[@]}" from --pull-never tessera-cuda)
  "${buildah[@]}" run "$container" -- sh -c "$libraries"
  "${buildah[@]}" rm "$container" >/dev/null
  train_in tessera-cuda cuda-device nccl-comm
}

if [ $# -eq 0 ]; then set -- manifests image cuda-image; fi
for part in "$@"; do
  case $part in
    manifests | image | cuda-image) "$part" ;;
    *)
      echo "deploy-check has the parts manifests, image and cuda-image, not '$part'" >&2
      exit 2
      ;;
  esac
done
