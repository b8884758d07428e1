#!/usr/bin/env bash
# A first run: train.sh TESSERA [FLAGS] trains a small GPT-2 on the text of this folder with two ranks, evaluates
# it on the part that was held out, generates some text, and shows how to continue. FLAGS are added to those it prints,
# and override the same ones.
set -euo pipefail
readonly tessera=$1
shift
# Paths are relative in the repository's root, else absolute.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/
if [ "$here" = "$PWD/" ]; then here=''; fi
defaults=(--model ${here}examples/char --data ${here}examples/text/train.txt --data-order shuffled
  --eval-data ${here}examples/text/held-out.txt --eval-every 250 --nproc 2 --strategy ddp --comm gloo --batch-size 8
  --seq-len 64 --steps 1000 --lr 3e-3 --lr-schedule cosine --warmup-steps 50 --beta2 0.99
  --save ${here}runs/shakespeare)

say() { if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi; }

# shown WORDS...: as a shell reads them back, where one has a blank.
shown() {
  local line
  printf -v line '%q ' "$@"
  echo "${line% }"
}

# value_of FLAG WORDS...: the value of FLAG in WORDS; empty if they do not have it.
value_of() {
  local flag=$1 word
  shift
  while [ $# -gt 0 ]; do
    word=${1//_/-}
    if [ "$word" = "$flag" ]; then echo "${2:-}"; return; fi
    if [[ $word == "$flag="* ]]; then echo "${1#*=}"; return; fi
    shift
  done
}
given() { [ -n "$(value_of "$1" "${words[@]}")" ]; }

readonly words=("$@" '')
flags=()
for ((i = 0; i < ${#defaults[@]}; i += 2)); do
  flag=${defaults[i]} value=${defaults[i + 1]}
  if given "$flag"; then continue; fi
  # With other data, this held-out text says nothing.
  if [[ $flag == --eval-* ]] && given --data && ! given --eval-data; then continue; fi
  if [ "$flag" = --save ] && given --resume; then value=$(value_of --resume "${words[@]}"); fi
  if [ "$flag" = --save ] && ! given --resume; then
    folder=$value
    for ((n = 2; ; ++n)); do
      if [ ! -e "$value" ]; then break; fi
      value=$folder-$n
    done
  fi
  flags+=("$flag" "$value")
done
flags+=("$@")
say "tessera train $(shown "${flags[@]}")"
"$tessera" train "${flags[@]}"

for word in "$@"; do
  case ${word//_/-} in --help | -h | --print-config) exit ;; esac  # nothing was trained
done
save=$(value_of --save "${flags[@]}")
if ! given --model; then
  prompt=()
  if ! given --data; then prompt=(--prompt 'ROMEO:'); fi
  sample=(generate "$save" "${prompt[@]}" --max-tokens 300 --temperature 0.8)
  say "tessera $(shown "${sample[@]}")"
  "$tessera" "${sample[@]}"
fi
steps=$(value_of --steps "${flags[@]}")
# The flags that were given, but for those that the next run has otherwise.
again=()
while [ $# -gt 0 ]; do
  case ${1//_/-} in
    --resume | --save | --steps) if [ $# -gt 1 ]; then shift; fi ;;
    --resume=* | --save=* | --steps=*) ;;
    *) again+=("$1") ;;
  esac
  shift
done
say "to go on: ./dev train $(shown "${again[@]}" --resume "$save" --steps $((2 * steps)))"
