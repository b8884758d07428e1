#!/usr/bin/env python3
"""Fails when a document names a source file that is not in the tree: it was renamed, and the document was not.

A name is in backticks outside of code blocks and has the end of a source's. It may leave out the folders that it begins
with: `store/loop.h` is runtime/launch/store/loop.h. A `*` stands for any characters.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^ *```.*?^ *```", re.M | re.S)
SPAN = re.compile(r"`((?:[^`\n]|\n(?!\n))+)`")
SOURCE = re.compile(r"(?<![\w./*<>{}$-])(?:\.\./)*([\w.*-]+(?:/[\w.*-]+)*\.(?:cc|h|hpp|cu|cuh|py|sh|c|md|inc))(?![\w.*/-])")
# A reader's own names; what ./dev makes; what an installation has; a header of NCCL's.
ELSEWHERE = re.compile(r"(?:.*/)?foo[._].*|NAME\.md|build/.*|include/tessera/\*\.hpp|nccl\.h")


def listed(*patterns):
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], text=True).split("\n")
    return [name for name in names if name and pathlib.Path(name).is_file()]


def tails(name):
    """The name, and the name without its first folders."""
    parts = name.split("/")
    return ("/".join(parts[i:]) for i in range(len(parts)))


def main():
    known = {tail for name in listed() for tail in tails(name)}
    num_breaches = 0
    for document in listed("*.md"):
        text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), pathlib.Path(document).read_text(encoding="utf-8"))
        for span in SPAN.finditer(text):
            for source in SOURCE.finditer(span[1]):
                name = source[1]
                if name in known or ELSEWHERE.fullmatch(name) or ("*" in name and fnmatch.filter(known, name)):
                    continue
                num_breaches += 1
                line = text.count("\n", 0, span.start(1) + source.start()) + 1
                print(f"{document}:{line}: {name} is not in the tree; name the file that took its place")
    sys.exit(1 if num_breaches else 0)


main()
