#!/usr/bin/env bash
# headers_test.sh SOURCE_DIR c|cpp WORK_DIR
# c:   every header of the ABI compiles alone, as C and as C++, without a warning, in every standard it promises; so do the
#      sentinels of its layout, signatures and values, and the sketches of what is to come (in C); and, with optimization, a
#      plugin that uses helpers.h.
# cpp: every header of the C++ layer compiles alone as C++20, and so does an ABI table made with it.
# With gcc and with clang, each if it is here; at least one must be. The headers of the C++ layer take seconds each: ccache,
# where it is, keeps what did not change, so they are compiled one by one, in a folder that is always the same.
set -uo pipefail

readonly source=$1 part=$2 alone=$3
readonly flags=(-Wall -Wextra -Wpedantic -Wshadow -Werror -I"$source/plugin-api/include")
failures=0 compiled=0

# compile COMPILER ARGS...: the rest of the failure is what the compiler says.
compile() {
  "$@" -fsyntax-only "${flags[@]}" || { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
  compiled=$((compiled + 1))
}

# Each header in a file of its own.
rm -rf "$alone"
mkdir -p "$alone"
write_includes() { # FOLDER EXTENSION
  local header
  for header in "$source/$1"/tessera/*.h*; do  # ops.inc is a part of device.h
    echo "#include <tessera/$(basename "$header")>" >"$alone/$(basename "$header").$2"
  done
}

check_c() {
  check_target "$1"
  check_helpers "$1" "$2"
  local standard enums
  for enums in -fno-short-enums -fshort-enums; do
    for standard in c11 c17; do
      compile "$1" -std=$standard $enums "$alone"/*.c "$source"/tests/abi/*_0_12.c "$source"/tests/abi/sketches/*.c
    done
    for standard in c++11 c++14 c++17 c++20; do
      compile "$2" -std=$standard $enums -x c++ "$alone"/*.c "$source"/tests/abi/{layout,layout_program,values}_0_12.c
    done
  done
}

# What a plugin makes of helpers.h.
check_helpers() {
  local standard
  for standard in c11 c17 c++11 c++14 c++17 c++20; do
    local compiler=("$1")
    if [[ $standard == c++* ]]; then compiler=("$2" -x c++); fi
    "${compiler[@]}" -std=$standard -O2 -c -o "$alone/helpers_in_use.o" "${flags[@]}" "$source/tests/abi/helpers_in_use.c" || {
      echo "FAILED: ${compiler[*]} -std=$standard -O2 helpers_in_use.c" >&2
      failures=$((failures + 1))
    }
    compiled=$((compiled + 1))
  done
}

# A minor that these headers do not have is refused; theirs is taken.
check_target() {
  local minor=$(($(sed -n 's/^#define TSR_ABI_MINOR \([0-9]*\)u$/\1/p' "$source"/plugin-api/include/tessera/core.h)))
  compile "$1" -std=c11 -DTSR_TARGET_MINOR=$minor "$alone"/*.c
  local wrong
  for wrong in $((minor + 1)) $(($(sed -n 's/^#define TSR_OLDEST_MINOR \([0-9]*\)u$/\1/p' "$source"/plugin-api/include/tessera/core.h) - 1)); do
    if "$1" -std=c11 -DTSR_TARGET_MINOR="$wrong" "$alone"/core.h.c -fsyntax-only "${flags[@]}" 2>/dev/null; then
      echo "FAILED: $1 takes TSR_TARGET_MINOR=$wrong" >&2
      failures=$((failures + 1))
    fi
  done
}

check_cpp() {
  local file launcher=()
  if command -v ccache >/dev/null; then launcher=(ccache); fi
  cd "$alone" || exit
  for file in *.cc; do
    "${launcher[@]}" "$2" -std=c++20 -c -o "$file.o" "${flags[@]}" -I"$source/plugin-api/cpp" "$file" || {
      echo "FAILED: $2 $file" >&2
      failures=$((failures + 1))
    }
    compiled=$((compiled + 1))
  done
}

case $part in
  c) write_includes plugin-api/include c ;;
  cpp) write_includes plugin-api/cpp cc ;;
  *) echo "headers_test.sh: the part is c or cpp, not $part" >&2; exit 2 ;;
esac
for pair in "gcc g++" "clang clang++"; do
  read -r cc cxx <<<"$pair"
  if command -v "$cc" >/dev/null && command -v "$cxx" >/dev/null; then "check_$part" "$cc" "$cxx"; fi
done
echo "$compiled compilations, $failures failures"
[ "$compiled" -gt 0 ] && [ "$failures" -eq 0 ]
