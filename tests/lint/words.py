#!/usr/bin/env python3
"""Fails on habits that give a translation away, in comments, messages and docs. Prints file, line and what to write.

Usage: words.py [FOLDER...]    folders or files, relative to the repository's root; default: all that is checked
"""
import re
import subprocess
import sys

COMPARATIVES = "longer|more|less|fewer|later|earlier|smaller|larger|worse|better|higher|lower|older|newer|wider|deeper|slower|faster"

# (pattern, what to write). Case does not matter. "there is no X" is English; "X is no Y" is not.
HABITS = [
    (rf"(?<!\bthere )\b(is|are|was|were|be) no (?!(?:{COMPARATIVES}|matter|one)\b)[a-z]", "X is not a Y; there is no Y"),
    (r"\b(is|are) none of (its|their|the)\b", "is not one of"),
    (r"\b(stands?|stood|standing)\b(?! for\b| alone\b)", "is, is in, holds, lies in"),
    # What hides and what is queued may be behind something.
    (r"(?<!left )(?<!lag )(?<!falls )\bbehind\b(?! (?:an?|the|its|that) (?:\w+ )*?(?:semaphore|table|ABI|interface|handle|flag)\b)",
     "after (in time or in a list), past (an end)"),
    (r"\b(whoever|whomever|whom)\b", "name the thing: the caller, the rank that ..."),
    (r"\bwho waits for\b", "which action (rank) waits for which"),
    (r"(?<!`)\bnobody\b(?!\()", "nothing; no rank; no caller"),
    (r"\bof (ours|theirs|its own kind)\b", "our ...; their ..."),
    (r"\bsays? (yes|no)\b", "agrees; answers yes"),
    (r"\b(all|both|they) (say|tell)\b", "report, state"),
    (r"\bis said\b|\bsaid (once|of)\b", "is reported, is logged"),
    (r"\blook(s|ed)? on\b", "observe"),
    (r"\bhas to do with\b", "concerns"),
    (r"\bis told (once|to all|to both)\b", "is reported"),
    (r"\bas (?:[a-z-]+ )?(?:has|have) it\b(?! in)", "according to"),
    (r"\bin a circle\b", "in a cycle"),
    (r"\b(a wish for|wish(es|ed)? for)\b", "asks for, requires"),
    (r"\bof an own\b", "of its own"),
    (r"\b(stretch(es)?) of\b", "range: the one word for a contiguous run of elements"),
    (r"\bit is (?:a )?matter of\b", "concerns"),
    # As the standard library and the field spell: optimizer, synchronize, color.
    (r"\b\w*(?:(?:initial|optim|synchron|recogn|normal|serial|summar)is(?:e|ed|es|er|ing|ation)|colour|neighbour|behaviour)\w*",
     "the American spelling"),
    (r"\bk(?:Most|Least)[A-Z]", "kMax, kMin"),
    # In a message only: prose may say it.
    (r'"(?:[^"\\]|\\.)*\bthere (?:is|are) no\b', "unknown X; no such file; X does not exist; X holds no Y"),
    (r"\bthat there (?:is|are)(?=[.,;:\"]|$)", "all; every X; the X that exist"),
    (r"(?:^\W*|[.;:] )who (?!else\b)[a-z]+s\b(?![^.]*\?)", "the rank (thread, caller) that ..."),
]
CHECKED = ["README.md", "CONTRIBUTING.md", "dev", ".ci", "cmake", "docs", "runtime", "plugins", "plugin-api", "examples", "tests"]
SKIPPED = ("docs/decisions/", "tests/golden/", "tests/lint/words.py", "tests/lint/lint_test.sh", "tests/data/", "examples/digits/", "examples/text/train.txt",
           "examples/text/held-out.txt")
TEXT = (".h", ".hpp", ".c", ".cc", ".cu", ".cuh", ".inc", ".md", ".txt", ".cmake", ".sh", ".py", "dev", "run")
PATTERNS = [(re.compile(p, re.I), hint) for p, hint in HABITS]


def main():
    listed = subprocess.check_output(["git", "ls-files", "--", *(sys.argv[1:] or CHECKED)], text=True).split("\n")
    found = 0
    for name in listed:
        if not name.endswith(TEXT) or name.startswith(SKIPPED):
            continue
        for number, line in enumerate(open(name, encoding="utf-8"), 1):
            for pattern, hint in PATTERNS:
                match = pattern.search(line)
                if match:
                    found += 1
                    print(f"{name}:{number}: '{match.group(0)}': write {hint}")
    return 1 if found else 0


sys.exit(main())
