#!/usr/bin/env bash
# Rules that a compiler does not know. Prints each breach; exit 1 if there is one. lint_test.sh plants one breach of each.
#  1. In runtime/ a folder includes only folders to its left in the list below, itself and the plugin API.
#  2. A plugin's folder includes only itself and the plugin API.
#  3. The host's names are in tessera::host: those of the plugin API's C++ layer are in tessera, and tests link both.
#  4. runtime/ knows no plugin by name: no text in its code is the name of one in plugins/, or holds such a name that is not
#     also a word. Which plugins are the default is in plugins/defaults.cmake.
#  5. An architecture is named in its folder below runtime/model/ and in the list model/architectures.cc, nowhere else.
#  6. Every *_test.cc is named in a CMakeLists.txt; no source file is longer than 500 lines.
#  7. No folder of runtime/, plugins/ or plugin-api/ holds more than 30 files.
#  8. Units, a header with the source of its name, do not include one another in a cycle (cycles.py).
#  9. A file of runtime/ that calls a plugin includes the guard: without it the name `call` is the plugin API's.
# 10. Comments, messages and docs have no habits that give a translation away (words.py).
# 11. Each function of the ABI's tables says on which thread it is called, and which errors it has (contracts.py).
# 12. No definition for a test's sources holds a path: compiled anew in every checkout, they took half of a CI run. They
#     ask support/paths.h. A plugin that wraps another cannot ask, and has TEST_INNER.
# 13. CUDA sources count bits with CUDA's functions (__ffs, __clz, __popc): of std::countr_zero nvcc 13.0 makes the number 32,
#     without a warning, and compiled for the processor the same source is right.
# 14. No two files define a type of one name in one namespace of runtime/, of a plugin or of the plugin API (names.py).
# 15. Source files that documents name are in the tree (paths.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly folders=(base machine storage config launch guard plugins mesh model weights data text program passes memory offload verify compile exec generate job checkpoint rates trace plan train record report doctor cli)
breaches=0
breach() {
  echo "rules: $*" >&2
  breaches=$((breaches + 1))
}

# includes FOLDER: "file:first part of the path" of every #include "part/..." below it.
includes() { grep -rnoE '^#include "[^"/]+/' "$1" --include='*.h' --include='*.cc' --include='*.hpp' --include='*.c' --include='*.cu' --include='*.cuh' || true; }

allowed=" tessera "
for folder in "${folders[@]}"; do
  allowed+="$folder "
  [ -d "runtime/$folder" ] || continue
  while IFS=: read -r file line include; do
    [ -n "$file" ] || continue
    part=${include#'#include "'}
    [[ $allowed == *" ${part%/} "* ]] || breach "$file:$line includes ${part}, which is to the right of $folder/"
  done < <(includes "runtime/$folder")
done

for folder in plugins/*/; do
  while IFS=: read -r file line include; do
    [ -n "$file" ] || continue
    part=${include#'#include "'}
    [[ $part == tessera/ || $part == "$(basename "$folder")/" || -d $folder$part ]] || breach "$file:$line includes $part; a plugin includes the plugin API only"
  done < <(includes "$folder")
done

while IFS=: read -r file line text; do
  breach "$file:$line: $text: the host's names are in tessera::host, and are used by name"
done < <(grep -rnE '^ *using namespace tessera|^namespace tessera' runtime | grep -vE ':namespace tessera::host\b' || true)

# Of the names, these are words of the field too, and may be part of a text; these may be all of one.
readonly words=' cpu cuda local pipeline tensor fit ' whole_words=' activations stream '
names='' coined=''
for folder in plugins/*/; do
  name=$(basename "$folder")
  name=${name%-device} name=${name%-comm} name=${name%-offload}
  [[ $whole_words == *" $name "* ]] && continue
  names+="${names:+|}$name"
  [[ $words == *" $name "* ]] || coined+="${coined:+|}$name"
done
readonly names_in_text="\"($names)\"|\"[^\"]*\\b($coined)\\b[^\"]*\""
while IFS=: read -r file line text; do
  breach "$file:$line names a plugin: $text"
done < <(grep -rnE "$names_in_text" runtime --include='*.cc' --include='*.h' | sed 's@ *//.*@@' | grep -E "$names_in_text" || true)

for folder in runtime/model/*/; do
  while IFS=: read -r file line text; do
    breach "$file:$line names the architecture $(basename "$folder"); ask model/architecture.h instead"
  done < <(grep -rniE "^([^/]|/[^/])*$(basename "$folder")" runtime --include='*.h' --include='*.cc' |
    grep -vE '^runtime/model/([^/]+/|architectures\.cc:)' || true)
done

while read -r file; do
  grep -qE '^#include "(guard/(plugin_calls|process_state)|exec/device|exec/communicators|exec/execution_context|exec/executable|exec/rank_runtime)\.h"' "$file" "${file%.cc}.h" 2>/dev/null ||
    breach "$file calls a plugin without guard/plugin_calls.h"
done < <(grep -lE '[^_a-z:]call\([a-z_.>()-]+[,)]' runtime -r --include='*.cc')

while read -r test; do
  git grep -qF "$(basename "$test")" -- '*CMakeLists.txt' || breach "$test is named in no CMakeLists.txt"
done < <(git ls-files 'tests/*_test.cc' 'tests/*_test.sh')

while read -r lines file; do
  [ "$file" = total ] || [ "$lines" -le 500 ] || breach "$file has $lines lines; 500 is the limit"
done < <(git ls-files '*.cc' '*.h' '*.hpp' '*.c' '*.cu' '*.cuh' | xargs wc -l)

while read -r files folder; do
  [ "$files" -le 30 ] || breach "$folder/ holds $files files; 30 is the limit: merge small ones or make a folder"
done < <(git ls-files runtime plugins plugin-api | sed 's@/[^/]*$@@' | sort | uniq -c)

while IFS=: read -r file line text; do
  breach "$file:$line: ${text%%=*} holds a path; use tests/support/paths.h, so that ccache takes the source from another checkout"
done < <(git grep -noE '[A-Z_]+="\$(\{PROJECT_(BINARY|SOURCE)_DIR\}|\{CMAKE_CURRENT|<TARGET_FILE)' -- 'tests/*CMakeLists.txt' |
  grep -vE ':(TESSERA_(BINARY|SOURCE)_DIR|TEST_INNER)=' || true)

while IFS=: read -r file line text; do
  breach "$file:$line: $text in a CUDA source; nvcc may compile it to a constant; use __ffs, __clz or __popc"
done < <(grep -rnoE 'std::(count[lr]_(zero|one)|popcount|bit_(width|ceil|floor)|has_single_bit)' plugins --include='*.cu' --include='*.cuh' || true)

for check in 'cycles.py runtime plugins plugin-api' 'contracts.py plugin-api/include/tessera' words.py paths.py \
  "names.py runtime plugin-api $(echo plugins/*/)"; do
  # shellcheck disable=SC2086  # a script and its arguments
  python3 tests/lint/$check >&2 || breach "tests/lint/${check%% *} found the above"
done

[ "$breaches" -eq 0 ] && echo "rules: all hold"
exit $((breaches > 0))
