#!/usr/bin/env python3
"""Fails when two files define a type of one name in one namespace: in a program that has both that is undefined
behavior, which no compilation shows. The preset `one-program` proves more, functions too, and takes a whole build.

Usage: names.py FOLDER...    folders of sources; a type of one may have the name of another's
"""
import pathlib
import re
import sys

ENDS = {".h", ".hpp", ".cc", ".cu", ".cuh"}
# Formatted code has what is in a namespace at the first column.
LINE = re.compile(r"^(?:namespace ?(?P<namespace>[\w:]*) \{|(?P<end>\}  // namespace)|"
                  r"(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(?P<type>\w+)(?: final)?(?: ?:(?!:)[^;]*)? ?\{)", re.M)


def types(text):
    """Types outside of unnamed namespaces, with their namespace."""
    namespaces = []
    for found in LINE.finditer(text):
        if found["namespace"] is not None:
            namespaces.append(found["namespace"])
        elif found["end"]:
            namespaces[-1:] = []
        elif "" not in namespaces:
            yield "::".join([*namespaces, found["type"]])


def main():
    breaches = 0
    for folder in sys.argv[1:]:
        first = {}
        for path in sorted(p for p in pathlib.Path(folder).rglob("*") if p.suffix in ENDS):
            for name in types(path.read_text(encoding="utf-8")):
                if first.setdefault(name, path) != path:
                    breaches += 1
                    print(f"{path}: defines {name}, as {first[name]} does; give one of them another name")
    sys.exit(1 if breaches else 0)


main()
