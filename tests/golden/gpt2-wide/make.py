#!/usr/bin/env python3
"""Writes trajectory.json: losses and gradient norms of two steps of a model of GPT-2's width and vocabulary, computed by
PyTorch in float64 from weights and tokens that are a formula, which tests/support/wide_model.cc has too.

usage: make.py > trajectory.json   (needs numpy and torch; half a minute, 2 GB)
"""
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

RUN = dict(batch_size=1, seq_len=64, grad_accum=1, dp=2, steps=2, lr=1e-3, weight_decay=0.1, beta1=0.9, beta2=0.95,
           eps=1e-8, clip=1.0)
MODEL = json.loads((Path(__file__).parent / "config.json").read_text())
C, V, LAYERS, HEADS, T = MODEL["n_embd"], MODEL["vocab_size"], MODEL["n_layer"], MODEL["n_head"], RUN["seq_len"]


def mixed(n, seed):
    """n pseudo-random numbers of 32 bits."""
    x = np.arange(n, dtype=np.uint32) + np.uint32(seed * 0x9e3779b9 & 0xffffffff)
    for shift, factor in ((16, 0x85ebca6b), (13, 0xc2b2ae35)):
        x = (x ^ x >> np.uint32(shift)) * np.uint32(factor)
    return x ^ x >> np.uint32(16)


def uniform(shape, seed):
    """In [-1, 1), multiples of 2^-15."""
    return torch.from_numpy((mixed(math.prod(shape), seed) >> np.uint32(16)).astype(np.float64) / 32768 - 1).view(shape)


def shapes():
    """All parameters, in the order of their seeds."""
    yield "wte.weight", (V, C)
    yield "wpe.weight", (MODEL["n_positions"], C)
    for layer in range(LAYERS):
        for name, rows, columns in (("ln_1", 0, C), ("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("ln_2", 0, C),
                                    ("mlp.c_fc", C, 4 * C), ("mlp.c_proj", 4 * C, C)):
            yield f"h.{layer}.{name}.weight", (rows, columns) if rows else (columns,)
            yield f"h.{layer}.{name}.bias", (columns,)
    yield "ln_f.weight", (C,)
    yield "ln_f.bias", (C,)


def parameters():
    """Matrices and biases in [-1/32, 1/32), weights of norms in [3/4, 5/4): exact in float32."""
    result = {}
    for seed, (name, shape) in enumerate(shapes(), 1):
        value = uniform(shape, seed)
        value = 1 + value / 4 if ".ln_" in "." + name and name.endswith("weight") else value / 32
        result[name] = value.requires_grad_()
    return result


def tokens():
    """Of the whole vocabulary; each third is the same; the last there is comes too."""
    count = RUN["steps"] * RUN["dp"] * T + 1
    result = mixed(count, 1000).astype(np.int64) % V
    result[::3] = 198
    result[5] = V - 1
    return torch.from_numpy(result)


def loss_of(p, inputs, targets):
    x = p["wte.weight"][inputs] + p["wpe.weight"][:T]
    mask = torch.ones(T, T, dtype=torch.bool).tril()

    def norm(name, x):
        return F.layer_norm(x, (C,), p[name + ".weight"], p[name + ".bias"], MODEL["layer_norm_epsilon"])

    def linear(name, x):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    for layer in range(LAYERS):
        h = f"h.{layer}."
        q, k, v = (y.view(-1, T, HEADS, C // HEADS).transpose(1, 2)
                   for y in linear(h + "attn.c_attn", norm(h + "ln_1", x)).split(C, dim=-1))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(C // HEADS)).masked_fill(~mask, -math.inf)
        x = x + linear(h + "attn.c_proj", (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        y = linear(h + "mlp.c_fc", norm(h + "ln_2", x))
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        x = x + linear(h + "mlp.c_proj", y)
    logits = norm("ln_f", x) @ p["wte.weight"].T
    return F.cross_entropy(logits.view(-1, V), targets.reshape(-1))


def main():
    p, data = parameters(), tokens()
    groups = [{"params": [x for x in p.values() if x.dim() >= 2], "weight_decay": RUN["weight_decay"]},
              {"params": [x for x in p.values() if x.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RUN["lr"], betas=(RUN["beta1"], RUN["beta2"]), eps=RUN["eps"])
    losses, norms, count = [], [], RUN["dp"] * T
    for step in range(RUN["steps"]):
        window = data[step * count:(step + 1) * count + 1]
        optimizer.zero_grad()
        loss = loss_of(p, window[:-1].view(-1, T), window[1:].view(-1, T))
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), RUN["clip"]).item())
        optimizer.step()
    print(json.dumps({**RUN, "loss": losses, "grad_norm": norms}, indent=1))


if __name__ == "__main__":
    main()
