#!/usr/bin/env python3
"""next_headers.py INCLUDE_FOLDER OUTPUT_FOLDER: the headers of a minor that comes after these, in OUTPUT_FOLDER/tessera.

Appended, as the rules of core.h allow it: a function to each table, a field to each other APPENDABLE struct, a number to
each family of numbers; all of it hidden from plugins for earlier minors.
"""
import pathlib
import re
import sys

FAMILIES = """E OPTION ROLE MODE PHASE ATTR ACTIVATION SCALAR MEMORY COLL REDUCE COMM SPLITS VALUE PLACEMENT LAYOUT BUFFER
    STREAM_KIND ACTION PURPOSE EVERY STRATEGY VISIT OFFLOAD DIM HOME SEGMENT PARAMETER LOG SLOT WORD
    ON_CHANGE""".split()
MASKS = ["COMM", "SPLITS", "OFFLOAD", "SEGMENT", "PARAMETER", "SLOT"]
STRUCT = re.compile(r"typedef struct (\w+) \{\n  uint32_t struct_size;\n.*?\n\} \1;", re.S)


def grown(struct, minor):
    is_table = "TSR_FN(" in struct
    member = "TSR_FN(uint64_t, next_function)(uint64_t) TSR_NOEXCEPT;" if is_table else "uint64_t next_field;"
    body, end = struct.rsplit("\n}", 1)
    return f"{body}\n#if TSR_TARGET_MINOR >= {minor}u\n  {member}\n#endif\n}}{end}"


def with_a_number(text, family, minor):
    lines = list(re.finditer(rf"^#define TSR_{family}_\w+ \(?(-?\d+)u?\)?(?= |$).*$", text, re.M))
    if not lines:
        return text, 0
    values = [int(line[1]) for line in lines]
    number = f"({min(values) - 1})" if family == "E" else f"{max(values) * 2 if family in MASKS else max(values) + 1}u"
    at = text.rfind("\n#ifdef __cplusplus\n}")  # not between a value and the rest of its comment
    line = f"\n#if TSR_TARGET_MINOR >= {minor}u\n#define TSR_{family}_NEXT {number}\n#endif"
    return text[:at] + line + text[at:], 1


def main():
    source, target = pathlib.Path(sys.argv[1]) / "tessera", pathlib.Path(sys.argv[2]) / "tessera"
    target.mkdir(parents=True, exist_ok=True)
    core = (source / "core.h").read_text()
    old = int(re.search(r"#define TSR_ABI_MINOR (\d+)u", core)[1])
    num_structs = num_families = 0
    for header in sorted(source.iterdir()):
        text = header.read_text().replace(f"#define TSR_ABI_MINOR {old}u", f"#define TSR_ABI_MINOR {old + 1}u")
        text, num = STRUCT.subn(lambda found: grown(found[0], old + 1), text)
        num_structs += num
        for family in FAMILIES if header.suffix == ".h" and header.name != "helpers.h" else []:
            text, num = with_a_number(text, family, old + 1)
            num_families += num
        (target / header.name).write_text(text)
    print(f"{old + 1}: {num_structs} structs and tables grew, {num_families} numbers came")
    if num_structs < 20 or num_families < len(FAMILIES):
        sys.exit("next_headers.py: the headers are written in another way than this program expects")


main()
