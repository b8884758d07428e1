#!/usr/bin/env python3
"""Trains the small tokenizer of this folder, with the `tokenizers` package, and writes what it makes of some texts.

usage: make.py (in this folder, which it fills); needs tokenizers (tests/judge/requirements.txt)
"""
import json
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer, Tokenizer

HERE = Path(__file__).resolve().parent
TRAINED_ON = ["docs/architecture.md", "docs/strategies.md", "docs/data.md", "README.md"]
VOCABULARY = 600
END = "<|endoftext|>"

TEXTS = [
    "", " ", "a", "the ranks of a mesh", "I'm sure they'll say it's what we'd've done, don't they?", "I'M SURE THEY'LL",
    "  two  and   three    spaces ", "\n", "\n\n\n", "tabs\t\tand\nlines \n and  \n\n  more\r\n\r\n", "x" * 70, " " * 33,
    "1234567890 3.14159e-10 0x1F x86_64 \u00bd \u0663\u0664 \u2167 \u4e09", "naïve café ÅNGSTRÖM Straße \u0130\u0131",
    "\u4e2d\u6587\u6d4b\u8bd5\u3002 \u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8 \ud55c\uad6d\uc5b4",
    "\U0001f600 \U0001f469\u200d\U0001f4bb\U0001f3fd e\u0301 \u0301 \u0915\u094d\u0937\u093f",
    "a\u00a0b \u00a0 c\u2003d\u3000e\u2028f\u2029g\u0085h \u0085 i\u0085\u0085", "  \u180e", "\u180e's", "\u180e \u200b x\u200b \ufeff",
    "\u001c\u001d\u001e\u001f a\u001cb \u000b\u000c", "(a+b)*[c]{d} #!/bin/sh $x && y || z; // -- == !!! ...", "\u0000\u0001\u007f",
    END, "before" + END + "after " + END + END + " end<|endoftext|", "'s't 'S ''s ' s'", "_under_score_ --flag=value <|x|>",
    "The quick brown fox jumps over the lazy dog. " * 3,
]


def main():
    root = HERE.parent.parent.parent
    trainer = ByteLevelBPETokenizer()
    trainer.train([str(root / name) for name in TRAINED_ON], vocab_size=VOCABULARY, min_frequency=2,
                  special_tokens=[END], show_progress=False)
    trainer.save_model(str(HERE))
    trainer.save(str(HERE / "tokenizer.json"), pretty=False)
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    cases = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in TEXTS]
    (HERE / "cases.json").write_text(json.dumps({"cases": cases}, ensure_ascii=True, indent=0) + "\n")


if __name__ == "__main__":
    main()
