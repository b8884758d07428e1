#!/usr/bin/env bash
# next_minor_test.sh SOURCE_FOLDER PROGRAM PLUGIN_FOLDER: plugins of one minor on hosts of another, in both directions.
#
#                        built with   these headers   the next ones   the next ones, and needs them
#     a host of this minor            same            same            refused, with both ranges
#     a host of the next one          same            same            same
#
# The next headers are made (next_headers.py), and so is their host (small_host.cc says why it is a small one). "Same" is
# what the host prints of everything that the plugin did. Plugins: one of each kind, those of PLUGIN_FOLDER, and those
# kept of released minors. What PROGRAM, the real host of this minor, makes of plugins of the next headers is seen too.
set -euo pipefail
readonly source=$1 program=$2 plugins=$3
readonly here=$source/tests/abi/minors include=$source/plugin-api/include
work=$(mktemp -d)
readonly work
trap 'rm -rf "$work"' EXIT
failures=0 comparisons=0
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}
minor_of() { sed -n "s/^#define TSR_$1_MINOR \([0-9]*\)u$/\1/p" "$include/tessera/core.h"; }
this=$(minor_of ABI) oldest=$(minor_of OLDEST)
readonly this oldest
readonly next=$((this + 1))

# ---- headers, hosts and plugins ---------------------------------------------------------------------------------------

python3 "$here/next_headers.py" "$include" "$work/next"
sentinels_hold() { gcc -std=c11 -fsyntax-only -I"$work/next" -I"$source/tests/abi" "$@" "$source/tests/abi/layout_0_$this.c" 2>/dev/null; }
sentinels_hold || fail "a plugin for 0.$this sees another layout in the headers of 0.$next"
! sentinels_hold -DTSR_TARGET_MINOR=TSR_ABI_MINOR || fail "the next headers have nothing that these have not"

for host in this next; do
  headers=$include
  [ $host = this ] || headers=$work/next
  g++ -std=c++17 -Wall -Wextra -Werror -DTSR_TARGET_MINOR=TSR_ABI_MINOR -I"$headers" -I"$here" "$here/small_host.cc" \
    -o "$work/host_of_$host" -ldl
done
"$here/build_kinds.sh" "$include" "$work/of_this"
"$here/build_kinds.sh" "$work/next" "$work/of_next"
"$here/build_kinds.sh" "$work/next" "$work/needs_next" -DTSR_TARGET_MINOR=TSR_ABI_MINOR

# ---- small hosts ------------------------------------------------------------------------------------------------------

# drive HOST PLUGIN DEVICE: what the host prints, without the effective minor, which must be MINOR.
drive() { # HOST PLUGIN DEVICE MINOR
  local text
  text=$(ulimit -v 4000000 && timeout 30 "$work/host_of_$1" "$2" "$3" 2>&1) || fail "the host of the $1 minor with $2: $text"
  [ "${text%%$'\n'*}" = "effective minor $4" ] || fail "the host of the $1 minor with $2: ${text%%$'\n'*}, not $4"
  echo "${text#*$'\n'}"
}
# compare PLUGIN DEVICE MINOR_ON_NEXT EXPECTED: on both hosts.
compare() {
  local host on
  for host in this next; do
    on=$this
    [ $host = this ] || on=$3
    drive $host "$1" "$2" "$on" >"$work/found"
    cmp -s "$work/found" "$4" || fail "$1 does something else on the host of the $host minor: $(diff "$4" "$work/found")"
    comparisons=$((comparisons + 1))
  done
}

kinds=$(cd "$work/of_this" && ls)
for kind in $kinds; do
  drive this "$work/of_this/$kind" "$work/of_this/at-once-device.so" "$this" >"$work/$kind.expected"
  compare "$work/of_this/$kind" "$work/of_this/at-once-device.so" "$this" "$work/$kind.expected"
  compare "$work/of_next/$kind" "$work/of_next/at-once-device.so" "$next" "$work/$kind.expected"
  compare "$work/of_next/$kind" "$work/of_this/at-once-device.so" "$next" "$work/$kind.expected"
  drive next "$work/needs_next/$kind" "$work/needs_next/at-once-device.so" "$next" >"$work/found"
  cmp -s "$work/found" "$work/$kind.expected" || fail "$kind that needs 0.$next does something else"
  refusal=$("$work/host_of_this" "$work/needs_next/$kind" "$work/of_this/at-once-device.so" 2>&1) && fail "$kind that needs 0.$next was not refused"
  [ "$refusal" = "refused: host 0.$oldest to 0.$this, plugin 0.$next to 0.$next" ] || fail "$kind that needs 0.$next: $refusal"
done
for path in "$plugins"/{cpu-device,local-comm,ddp}.so; do
  [ -e "$path" ] || continue
  drive this "$path" "$plugins/cpu-device.so" "$this" >"$work/$(basename "$path").expected"
  compare "$path" "$plugins/cpu-device.so" "$this" "$work/$(basename "$path").expected"
done

# Those in C++: a strategy of the program's, built again with the next headers, and the templates.
build_cpp() { # INCLUDE_FOLDER OUTPUT SOURCES...
  g++ -std=c++20 -O0 -fPIC -shared -fvisibility=hidden -fno-gnu-unique -Wall -Wextra -Werror -I"$1" -I"$source/plugin-api/cpp" \
    -I"$source/plugins" -Wl,--version-script="$source/plugin-api/cmake/plugin.map",-z,now "${@:3}" -o "$2"
}
if [ -e "$plugins/ddp.so" ]; then
  build_cpp "$work/next" "$work/of_next/ddp.so" "$source"/plugins/ddp/*.cc
  compare "$work/of_next/ddp.so" "$plugins/cpu-device.so" "$next" "$work/ddp.so.expected"
fi
for template in unit_ddp shm_comm; do
  for headers in this next; do
    [ $headers = next ] && folder=$work/next || folder=$include
    build_cpp "$folder" "$work/of_$headers/$template.so" "$source/plugin-api/template/cpp/$template.cc"
  done
  device=$plugins/cpu-device.so
  drive this "$work/of_this/$template.so" "$device" "$this" >"$work/$template.expected"
  compare "$work/of_this/$template.so" "$device" "$this" "$work/$template.expected"
  compare "$work/of_next/$template.so" "$device" "$next" "$work/$template.expected"
done

# Those of released minors, which are not built again.
mkdir "$work/kept"
[ "$(uname -m)" != x86_64 ] || cp -r "$here"/kept/. "$work/kept"
for folder in "$work"/kept/*/; do
  [ -d "$folder" ] || continue
  for path in "$folder"*.so; do
    compare "$path" "${folder}at-once-device.so" "$(basename "$folder" | sed 's/0_//')" "$work/$(basename "$path").expected"
  done
done

# ---- the real host ----------------------------------------------------------------------------------------------------

train() { # PLUGIN_FOLDER: the losses of two steps
  local nano=$source/tests/golden/gpt2-nano
  rm -f "$work/metrics"
  "$program" train --model="$nano" --data="$nano/tokens.bin" --nproc=2 --comm=local --threads=1 --steps=2 \
    --batch-size=2 --seq-len=8 --strategy=plain-ddp --offload=saved-out --plugin-dir="$1" --metrics="$work/metrics" >"$work/said" 2>&1 || return
  grep -o '"loss":[^,]*' "$work/metrics"
}
train "$work/of_this" >"$work/losses" || fail "training with plugins of this minor: $(cat "$work/said")"
train "$work/of_next" >"$work/found" || fail "training with plugins of the next headers: $(cat "$work/said")"
cmp -s "$work/losses" "$work/found" || fail "plugins of the next headers train otherwise: $(diff "$work/losses" "$work/found")"
! train "$work/needs_next" >/dev/null || fail "plugins that need 0.$next were not refused"
grep -q "needs plugin ABI 0.$next, but this host has 0.$this; use a later host" "$work/said" || fail "$(cat "$work/said")"
for path in $(find "$work"/of_this "$work"/of_next "$work"/kept -name '*.so'); do
  "$program" plugins info "$path" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
  comparisons=$((comparisons + 1))
done

echo "$comparisons comparisons, $failures failures"
[ "$comparisons" -gt 0 ] && [ "$failures" -eq 0 ]
