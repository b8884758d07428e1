#!/usr/bin/env bash
# Checks deploy/ without a cluster and without a docker engine: the manifests by schema, the image by building it.
#
#     manifests   check.py, in a virtual environment with the schemas (PyPI: kubernetes-validate)
#     image       buildah runs the Dockerfile's steps in a chroot; its base is a Debian that mmdebstrap makes, in place
#                 of one from a registry. Then the image trains, as its own user.
#
# The CUDA variant has NVIDIA's base images, so building it takes a docker engine and a registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly work=build/deploy
mkdir -p "$work"

manifests() {
  if ! cmp -s deploy/requirements.txt "$work/requirements.txt"; then
    rm -rf "$work/venv"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r deploy/requirements.txt
    cp deploy/requirements.txt "$work"
  fi
  "$work/venv/bin/python" deploy/check.py
}

image() {
  local base=$work/debian.tar store=$PWD/$work/store
  local buildah=(buildah --storage-driver vfs --root "$store" --runroot "$store/run")
  export BUILDAH_ISOLATION=chroot
  [ -e "$base" ] || mmdebstrap --variant=minbase bookworm "$base"
  local container
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add --quiet "$container" "$base" >/dev/null
  "${buildah[@]}" commit --quiet --rm "$container" tessera-base >/dev/null
  local cache=()  # what this tree's builds have compiled already
  if command -v ccache >/dev/null; then cache=(--volume "$(ccache --get-config cache_dir):/root/.cache/ccache"); fi
  "${buildah[@]}" bud "${cache[@]}" --pull-never --network host --build-arg BUILD_IMAGE=localhost/tessera-base \
    --build-arg RUN_IMAGE=localhost/tessera-base --build-arg COMMIT="$(git rev-parse --short=12 HEAD)" \
    --ignorefile deploy/Dockerfile.dockerignore -f deploy/Dockerfile -t tessera .
  container=$("${buildah[@]}" from --pull-never tessera)
  "${buildah[@]}" copy "$container" examples/char /data/model >/dev/null
  "${buildah[@]}" copy "$container" docs /data/docs >/dev/null
  "${buildah[@]}" run "$container" -- tessera --version
  "${buildah[@]}" run "$container" -- sh -c 'test "$(id -u)" = 1000'
  "${buildah[@]}" run "$container" -- tessera train --model model --data docs --batch-size 2 --nproc 2 --steps 5
  "${buildah[@]}" rm "$container" >/dev/null
  echo "deploy: the image was built, and trains"
}

if [ $# -eq 0 ]; then set -- manifests image; fi
for part in "$@"; do
  case $part in
    manifests | image) "$part" ;;
    *)
      echo "deploy-check has the parts manifests and image, not '$part'" >&2
      exit 2
      ;;
  esac
done
