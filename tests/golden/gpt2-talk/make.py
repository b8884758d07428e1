#!/usr/bin/env python3
"""A small random GPT-2 whose continuations vary, and what Hugging Face's transformers makes of it in float64, each token by a
forward of all tokens before it: logits after some prompts, and greedy continuations, also beyond the context, of which the older
half is then forgotten.

usage: make.py (in this folder, which it fills); needs PyTorch and tests/judge/requirements.txt
"""
import json
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).resolve().parent
CONTEXT = 24
CONFIG = dict(vocab_size=61, n_positions=CONTEXT, n_embd=20, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
              bos_token_id=0, eos_token_id=0)
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], list(range(30, 54)), [60, 0, 60, 0, 60], list(range(40))]
NUM_TOKENS = 60


def logits_after(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0, -1]


def greedy(model, prompt):
    held, made, gap = prompt[-CONTEXT:], [], float("inf")
    for _ in range(NUM_TOKENS):
        best = torch.topk(logits_after(model, held), 2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        made.append(best.indices[0].item())
        if len(held) == CONTEXT:
            held = held[CONTEXT // 2:]
        held = held + [made[-1]]
    return made, gap


def main():
    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(**CONFIG))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.35 * torch.randn(parameter.shape))
        model.transformer.wpe.weight.mul_(4)  # else it repeats one token
    model.save_pretrained(HERE, safe_serialization=True)
    (HERE / "generation_config.json").unlink()
    model = model.double().eval()
    cases = []
    for prompt in PROMPTS:
        made, gap = greedy(model, prompt)
        print(len(set(made)), "different tokens, smallest gap of the two largest logits", gap)
        cases.append({"prompt": prompt, "logits": logits_after(model, prompt[-CONTEXT:]).tolist(), "greedy": made})
    (HERE / "cases.json").write_text(json.dumps({"cases": cases}) + "\n")


if __name__ == "__main__":
    main()
