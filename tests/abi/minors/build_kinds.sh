#!/usr/bin/env bash
# build_kinds.sh INCLUDE_FOLDER OUTPUT_FOLDER [COMPILER FLAGS...]: a plugin of each kind, built against those headers as its
# readers build one: the templates of the repository, and the smallest device and communicator.
set -euo pipefail
readonly include=$1 output=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
readonly root
mkdir -p "$output"
build() { # NAME SOURCE FLAGS...
  local name=$1 source=$2
  shift 2
  "${CC:-gcc}" -std=c11 -Os -s -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -I"$include" "$@" \
    -Wl,--version-script="$root/plugin-api/cmake/plugin.map",-z,defs,-z,now,-z,relro,-z,noexecstack,-z,noseparate-code,--build-id=none \
    -o "$output/$name.so" "$source"
}
build plain-ddp "$root/plugin-api/template/plain_ddp.c" "$@"
build local-sgd "$root/plugin-api/template/local_sgd.c" "$@"
build saved-out-offload "$root/plugin-api/template/saved_out.c" "$@"
build at-once-device "$root/tests/abi/minors/device.c" "$@"
build alone-comm "$root/tests/abi/minors/communicator.c" "$@"
