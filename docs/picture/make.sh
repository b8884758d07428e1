#!/usr/bin/env bash
# Makes docs/picture/first-run.png, which README shows: the terminal of `./dev train` and the report page of that run.
# usage: docs/picture/make.sh [TESSERA], or ./dev picture; needs Debian's python3, chromium, pngquant
# and fonts-dejavu-core. Nothing else uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly tessera=$(realpath "${1:-build/release/tessera}")
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shot HTML PNG WIDTH HEIGHT
shot() {
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/chromium" \
    --virtual-time-budget=5000 --window-size="$3,$4" --screenshot="$2" "file://$1" 2>"$work/chromium.log" ||
    { cat "$work/chromium.log" >&2; exit 1; }
}

python3 docs/picture/terminal.py "$work/terminal.html" 124 \
  examples/text/train.sh "$tessera" --save "$work/shakespeare" --out "$work/record"
"$tessera" report "$work/record" --to "$work/report.html" >/dev/null
sed -i "s|$work|runs|g" "$work/terminal.html" "$work/report.html"
shot "$work/report.html" "$work/report.png" 1000 1340
python3 - "$work" <<'PYTHON'
import pathlib, sys
work = pathlib.Path(sys.argv[1])
page = pathlib.Path("docs/picture/page.html").read_text().replace("TERMINAL", (work / "terminal.html").read_text())
(work / "page.html").write_text(page)
PYTHON
shot "$work/page.html" "$work/page.png" 1800 1190
pngquant --force --quality 60-90 --output docs/picture/first-run.png "$work/page.png"
