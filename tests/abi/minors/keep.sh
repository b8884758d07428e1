#!/usr/bin/env bash
# keep.sh: keeps a plugin of each kind as the headers of this minor build it, in kept/0_MINOR, for every later host to load.
# To be run on x86-64 when a minor is released, and never again for it; until then with every change of what it lays down.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here include=$here/../../../plugin-api/include
[ "$(uname -m)" = x86_64 ] || { echo "keep.sh: the plugins that are kept are for x86-64; this is $(uname -m)" >&2; exit 1; }
minor=$(sed -n 's/^#define TSR_ABI_MINOR \([0-9]*\)u$/\1/p' "$include/tessera/core.h")
"$here/build_kinds.sh" "$include" "$here/kept/0_$minor"
ls -l "$here/kept/0_$minor"
