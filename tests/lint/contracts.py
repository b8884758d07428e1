#!/usr/bin/env python3
"""contracts.py FOLDER: each function of a table of the ABI says on which thread it is called, and which errors it has,
and throws nothing (TSR_NOEXCEPT).

The tags are those of core.h; a table that is handed to a call may name the thread of that call for all its functions. A
function with a tsr_error* lists its errors, unless the comment of its table does so for every function.
"""
import pathlib
import re
import sys

TAG = re.compile(r"\[(control-thread|issue-thread|any-thread(, may block[^\]]*)?|the (thread of the \w+ call|stream's thread))"
                 r"(; (working|failed|capturing)(, (working|failed|capturing))*)?\]", re.S)
STRUCT = re.compile(r"(/\*(?:[^*]|\*(?!/))*\*/\n)(?:#define [^\n]*\n|typedef struct \w+ \w+;\n|\n)*typedef struct (\w+) \{\n(.*?)\n\} \2;", re.S)


def without_margins(comment):
    return re.sub(r"\s*\n\s*\* ?", " ", comment)


def functions(body):
    """(name, the text from the last member to the end of this one's line)"""
    start = 0
    for found in re.finditer(r"TSR_FN\([^,]*,\s*(\w+)\)\s*\([^;]*;[^\n]*", body, re.S):
        yield found[1], body[start:found.end()]
        start = found.end()


def main():
    num_breaches = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.h")):
        for comment, table, body in STRUCT.findall(path.read_text()):
            of_all = without_margins(comment)
            for name, given in functions(body):
                said = without_margins(given)
                breaches = []
                if not TAG.search(said) and not ("All: " in of_all and TAG.search(of_all)):
                    breaches.append("has no tag of a thread")
                if "tsr_error*" in said and "Errors" not in said and "Errors of every function" not in of_all:
                    breaches.append("does not list its errors")
                if "TSR_NOEXCEPT" not in given:
                    breaches.append("is not TSR_NOEXCEPT")
                for breach in breaches:
                    num_breaches += 1
                    print(f"{path}: {table}.{name} {breach}")
    sys.exit(1 if num_breaches else 0)


main()
