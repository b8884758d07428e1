#!/usr/bin/env bash
# Each rule of rules.sh is broken once, in a small tree of the repository's shape: the rules must name that breach, and
# hold before it and without it.
set -euo pipefail
for program in git python3; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
lint=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
failures=0

# put FILE [LINE...]: writes a file of these lines, with its folder.
put() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$1"
}

rules() { git add -A && tests/lint/rules.sh 2>&1; }

# refused WHAT PART...: the rules find a breach, and the output has every PART. The breach is taken back.
refused() {
  local what=$1 output
  if output=$(rules); then
    echo "FAILED: $what: the rules hold"
    failures=$((failures + 1))
  fi
  for part in "${@:2}"; do
    [[ $output == *"$part"* ]] && continue
    echo "FAILED: $what: no '$part' in:"
    echo "$output"
    failures=$((failures + 1))
  done
  git reset -q --hard
}

# accepted WHAT: the rules hold. The change is taken back.
accepted() {
  local output
  if ! output=$(rules); then
    echo "FAILED: $1: $output"
    failures=$((failures + 1))
  fi
  git reset -q --hard
}

git init -q .
mkdir -p tests && cp -r "$lint" tests/lint
put runtime/base/log.h '// Logs.'
put runtime/cli/main.cc '#include "base/log.h"' 'namespace tessera::host {}'
put runtime/model/mlp/mlp.h '// A perceptron.'
put runtime/model/architectures.cc '#include "model/mlp/mlp.h"'
put plugins/ddp/ddp.h '#include "tessera/strategy.h"'
put plugin-api/include/tessera/strategy.h '/* The ABI. */'
put tests/unit/log_test.cc '// Of the log.'
put tests/unit/CMakeLists.txt 'tessera_test(log_test SOURCES log_test.cc)'
put README.md 'There is no such thing.'
git add -A
git -c user.name=t -c user.email=t commit -qm 'a tree in which all rules hold'
accepted 'the tree as it is'

put runtime/base/log.h '#include "cli/main.h"'
refused 'an include to the right' 'runtime/base/log.h:1 includes cli/, which is to the right of base/'

put plugins/ddp/ddp.h '#include "base/log.h"'
refused 'a plugin that includes the host' 'plugins/ddp/ddp.h:1 includes base/; a plugin includes the plugin API only'

put runtime/cli/main.cc 'namespace tessera {}'
refused 'a name of the host outside its namespace' "runtime/cli/main.cc:1: namespace tessera {}: the host's names are in tessera::host"

put runtime/base/log.h 'namespace tessera::host {' 'struct Line {' '};' '}  // namespace tessera::host'
put runtime/cli/main.cc 'namespace tessera::host {' 'class Line final : public Text {' '};' '}  // namespace tessera::host'
refused 'a type that two files define' 'runtime/cli/main.cc: defines tessera::host::Line, as runtime/base/log.h does'
put runtime/base/log.h 'namespace tessera::host {' 'struct Line {' '};' '}  // namespace tessera::host'
put runtime/cli/main.cc 'namespace tessera::host {' 'namespace {' 'struct Line {' '};' '}  // namespace' 'struct Line;' '}  // namespace tessera::host'
accepted 'a type of one file alone that has the name of another'

put runtime/cli/main.cc 'const char* name = "ddp";'
refused 'the host names a plugin' 'runtime/cli/main.cc:1 names a plugin'
put plugins/optimizer-state-offload/CMakeLists.txt '# Built.'
put runtime/cli/main.cc 'const char* name = "optimizer-state";'
refused 'the host names an offload policy' 'runtime/cli/main.cc:1 names a plugin'

put runtime/cli/main.cc 'Mlp model;'
refused 'the host names an architecture' 'runtime/cli/main.cc:1 names the architecture mlp'

put tests/unit/other_test.cc '// Not built.'
refused 'a test that is not built' 'tests/unit/other_test.cc is named in no CMakeLists.txt'

put tests/unit/CMakeLists.txt 'tessera_test(log_test SOURCES log_test.cc)' 'target_compile_definitions(log_test PRIVATE TESSERA_PROGRAM="$<TARGET_FILE:tessera>")'
refused 'a path in the definitions of a test' 'tests/unit/CMakeLists.txt:2: TESSERA_PROGRAM holds a path'

put plugins/cuda-device/a.cu 'const int first = std::countr_zero(bits);'
refused 'bits counted by the standard library on a GPU' 'plugins/cuda-device/a.cu:1: std::countr_zero in a CUDA source'

put runtime/base/long.cc "$(yes '//' | head -501)"
refused 'a long source' 'runtime/base/long.cc has 501 lines; 500 is the limit'

for i in $(seq 31); do put "plugins/ddp/more/$i.txt"; done
refused 'a crowded folder' 'plugins/ddp/more/ holds 31 files; 30 is the limit'

put runtime/base/a.h '#include "base/b.h"'
put runtime/base/b.h '// Nothing.'
put runtime/base/b.cc '#include "base/a.h"'
refused 'a cycle of two units' 'runtime/base/a, runtime/base/b' 'cycles.py found the above'
put plugin-api/cpp/tessera/a.hpp '#include "tessera/b.hpp"'
put plugin-api/cpp/tessera/b.hpp '#include "tessera/c.hpp"'
put plugin-api/cpp/tessera/c.hpp '#include "tessera/a.hpp"'
refused 'a cycle of three units' 'tessera/a, plugin-api/cpp/tessera/b, plugin-api/cpp/tessera/c'

put plugin-api/include/tessera/a.h '/* APPENDABLE. */
typedef struct tsr_a {
  uint32_t struct_size;
  /* Does it. Errors: none of its own. */
  TSR_FN(tsr_status, untagged)(void* ctx, tsr_error* err) TSR_NOEXCEPT;
  /* Does it. [any-thread] */
  TSR_FN(tsr_status, faultless)(void* ctx, tsr_error* err) TSR_NOEXCEPT;
  /* Does it. Errors: none of its own. [any-thread, may block] */
  TSR_FN(tsr_status, right)(void* ctx, tsr_error* err) TSR_NOEXCEPT;
  /* Does it. [any-thread] */
  TSR_FN(void, throwing)(void* ctx);
} tsr_a;'
refused 'functions of the ABI without a contract' 'tsr_a.untagged has no tag' 'tsr_a.faultless does not list' 'tsr_a.throwing is not TSR_NOEXCEPT' 'contracts.py found the above'

# One sentence for each habit in words.py, in its order; and what the same words may say.
mkdir docs
cat >docs/page.md <<'TEXT'
A group of one is no group.
The value is none of its inputs.
The arena stands in device memory.
A write behind the end of the buffer.
Whoever waits is woken.
The list says who waits for which rank.
A port that nobody listens on.
A thread of ours.
It says no.
They say what is wrong.
The error is said once.
The verifier looks on at every action.
This has to do with time.
The failure is told to all.
A norm as PyTorch has it.
The links lead in a circle.
A wish for more memory.
A stream of an own.
A stretch of elements.
It is a matter of order.
The colour of a bar is its kind.
The limit is kMostRanks.
The error is "there is no flag --x".
Every kind that there is.
One lock. Who waits sleeps.
TEXT
num_habits=$(grep -cE "^    \(rf?[\"']" tests/lint/words.py)
[ "$num_habits" -eq "$(wc -l <docs/page.md)" ] || { echo "FAILED: words.py has $num_habits habits"; failures=1; }
mapfile -t places < <(seq -f 'docs/page.md:%.0f:' "$num_habits")
refused 'habits of a translation' "${places[@]}" 'words.py found the above'

mkdir -p docs
cat >docs/page.md <<'TEXT'
There is no group; the run is no longer than before.
An event stands for the work before it.
Work that is queued behind an unsignaled semaphore. Nothing is left behind.
The user `nobody` may read it; nobody() { true; }
There are no lines, he said, that there are rules for. Who reads this?
TEXT
accepted 'English'

# shellcheck disable=SC2016  # backticks of Markdown
page='The program is `base/log.h`, `runtime/cli/main.cc` and `log_test.cc`; `base/lo*.h` too, and `sed
base/log.h`.
```
`base/shown.h`
```
Made: `build/made.cc`. A name of the reader: `plugins/foo/foo_plugin.cc`. In no backticks: cli/lost.h.'
put docs/page.md "$page"
accepted 'paths of files that are there, in a block, or not ours'
# shellcheck disable=SC2016
put docs/page.md "$page" '`cli/log.h` and `sed' 'base/gone.cc cli/main.c`, `base/tog*.h`.'
refused 'a path of a file that is not there' 'docs/page.md:7: cli/log.h is not' 'docs/page.md:8: base/gone.cc is not' \
  'docs/page.md:8: cli/main.c is not' 'docs/page.md:8: base/tog*.h is not' 'paths.py found the above'

[ "$failures" -eq 0 ] && echo "every rule finds its breach"
exit $((failures > 0))
