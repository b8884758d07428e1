#!/usr/bin/env python3
"""An outside judge: Hugging Face's GPT-2 and PyTorch's AdamW against `tessera train`, under five meshes.

A random GPT-2 is made and saved by transformers. The loss and all gradients of one step, and the losses and gradient norms of
20 steps of AdamW with clipping, are computed by PyTorch in float64 and by Tessera in float32. Then what Tessera gives to other
programs: the safetensors package reads every file of a checkpoint, folders that `tessera convert` wrote are loaded by transformers,
`tessera generate` is compared with greedy decoding, and `tessera tokenize` with the tokenizers package.

usage: judge.py TESSERA FINAL_WEIGHTS PLUGIN_DIR
"""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

TOKENIZER = Path(__file__).resolve().parent.parent / "golden" / "tokenizer" / "tokenizer.json"

# Odd where it may be: tensor=2 needs an even number of heads and an MLP of even width, and nothing else.
MODEL = dict(vocab_size=211, n_positions=37, n_embd=66, n_layer=3, n_head=6, n_inner=130,
             resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
BATCH, SEQ, MICRO_BATCHES, STEPS = 2, 29, 4, 20  # a step has 4 micro-batches, divided by the data ranks
# A gradient is read as the difference of a float32 weight before and after; the larger the step, the less is rounded away.
SGD_RATE = 64
ADAMW = dict(lr=2e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0)

MESHES = [  # flags, ranks, data ranks
    ([], 1, 1),
    (["--mesh=dp=2", "--strategy=dp=fsdp"], 2, 2),
    (["--mesh=pp=2", "--strategy=pp=pipeline"], 2, 1),
    (["--mesh=tp=2", "--strategy=tp=tensor"], 2, 1),
    (["--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"], 8, 2),
]

# float32 against float64. The rounding of one operation is 6e-8; sums of hundreds of terms, and their order, which meshes
# change, cost tens of it; a tensor's small gradients are sums of terms as large as its largest. An error of the mathematics
# (a factor, a mask, a missing sum) shows in the first digits.
LOSS_TOLERANCE = 1e-5        # relative
NORM_TOLERANCE = 1e-5        # relative
GRADIENT_TOLERANCE = 1e-4    # of the largest of its tensor
TRAJECTORY_TOLERANCE = 1e-4  # relative, losses and norms of all steps: what Tessera promises between meshes


def make_model(folder):
    """A random model, saved in float32; biases and norms too, which transformers starts at 0 and 1."""
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(**MODEL))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    model.save_pretrained(folder, safe_serialization=True)
    return model.double()


def make_tokens(path):
    tokens = np.random.default_rng(2).integers(0, MODEL["vocab_size"], STEPS * MICRO_BATCHES * BATCH * SEQ + 1)
    tokens.astype(np.uint16).tofile(path)
    return torch.from_numpy(tokens)


def backward(model, tokens, step):
    """The mean loss over all tokens of a step, and its gradients."""
    num_tokens = MICRO_BATCHES * BATCH * SEQ
    inputs = tokens[step * num_tokens:(step + 1) * num_tokens]
    targets = tokens[step * num_tokens + 1:(step + 1) * num_tokens + 1]
    model.zero_grad()
    logits = model(inputs.view(-1, SEQ)).logits
    loss = torch.nn.functional.cross_entropy(logits.view(num_tokens, -1), targets)
    loss.backward()
    return loss.item()


def norm_of_gradients(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()


def train(model, tokens):
    """Losses and gradient norms of AdamW's steps."""
    parameters = list(model.parameters())
    decays = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": ADAMW["weight_decay"]},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(decays, lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"])
    losses, norms = [], []
    for step in range(STEPS):
        losses.append(backward(model, tokens, step))
        norms.append(norm_of_gradients(model))
        torch.nn.utils.clip_grad_norm_(parameters, ADAMW["clip"])
        optimizer.step()
    return losses, norms


class Tessera:
    def __init__(self, program, final_weights, plugin_dir, folder):
        self.program, self.final_weights, self.plugin_dir, self.folder = program, final_weights, plugin_dir, folder

    def flags(self, data_ranks, mesh, **more):
        flags = dict(model=self.folder / "model", data=self.folder / "tokens.bin", batch_size=BATCH, seq_len=SEQ,
                     grad_accum=MICRO_BATCHES // data_ranks, **more)
        return [f"--{name}={value}" for name, value in flags.items()] + mesh

    def train(self, mesh, ranks, data_ranks):
        """Losses and gradient norms, from the program as it is typed."""
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        subprocess.run([self.program, "train", f"--nproc={ranks}", "--comm=local", f"--plugin-dir={self.plugin_dir}",
                        "--threads=1", f"--metrics={metrics}", *self.flags(data_ranks, mesh, steps=STEPS, **ADAMW)],
                       check=True, stderr=subprocess.PIPE)
        steps = [json.loads(line) for line in metrics.read_text().splitlines()[1:]]  # the first describes the run
        return [s["loss"] for s in steps], [s["grad_norm"] for s in steps]

    def gradients(self, mesh, ranks, data_ranks, before):
        """By parameter, flat: what a step of SGD takes away, over its learning rate."""
        path = self.folder / "after.safetensors"
        sgd = dict(optimizer="sgd", beta1=0, lr=SGD_RATE, weight_decay=0, clip=0, steps=1)
        subprocess.run([self.final_weights, path, str(ranks), *self.flags(data_ranks, mesh, **sgd)], check=True)
        return {name: (before[name] - values.astype(np.float64)) / SGD_RATE for name, values in load_file(path).items()}


    def run(self, command, *arguments):
        made = subprocess.run([self.program, command, *map(str, arguments)], check=True, capture_output=True)
        return made.stdout.decode()


def relative(values, expected):
    assert len(values) == len(expected), f"{len(values)} values for {len(expected)}"
    return max(abs(a - b) / abs(b) for a, b in zip(values, expected))


def worst_gradient(gradients, expected):
    """The largest difference, as a share of its tensor's largest gradient, and where it is."""
    assert gradients.keys() == expected.keys(), gradients.keys() ^ expected.keys()
    shares = {name: np.abs(gradients[name] - g).max() / np.abs(g).max() for name, g in expected.items()}
    name = max(shares, key=shares.get)
    return shares[name], name


def judge(tessera, model, tokens):
    named = {name.removeprefix("transformer."): p for name, p in model.named_parameters()}
    before = {name: p.detach().numpy().ravel().copy() for name, p in named.items()}
    backward(model, tokens, 0)
    expected = {name: p.grad.numpy().ravel().copy() for name, p in named.items()}
    losses, norms = train(model, tokens)
    print(f"transformers: loss {losses[0]:.6f} to {losses[-1]:.6f}, gradient norm {norms[0]:.6f}; "
          f"{len(expected)} tensors, {sum(g.size for g in expected.values())} gradients")
    print(f"{'mesh':62} {'loss':>9} {'norm':>9} {'gradients':>9} {'20 steps':>9}  worst gradient in")
    good = True
    for mesh, ranks, data_ranks in MESHES:
        own_losses, own_norms = tessera.train(mesh, ranks, data_ranks)
        share, name = worst_gradient(tessera.gradients(mesh, ranks, data_ranks, before), expected)
        found = [relative(own_losses[:1], losses[:1]), relative(own_norms[:1], norms[:1]), share,
                 max(relative(own_losses, losses), relative(own_norms, norms))]
        allowed = [LOSS_TOLERANCE, NORM_TOLERANCE, GRADIENT_TOLERANCE, TRAJECTORY_TOLERANCE]
        right = all(f <= a for f, a in zip(found, allowed))  # false for NaN, too
        good = good and right
        print(f"{' '.join(mesh) or 'one rank':62} " + " ".join(f"{f:9.1e}" for f in found) +
              f"  {name}{'' if right else '  WRONG'}")
    print(f"{'allowed':62} {LOSS_TOLERANCE:9.0e} {NORM_TOLERANCE:9.0e} {GRADIENT_TOLERANCE:9.0e} "
          f"{TRAJECTORY_TOLERANCE:9.0e}")
    return good


def same_after_conversion(tessera, folder):
    """transformers loads what convert wrote, every tensor of it, with equal logits."""
    tokens = torch.arange(MODEL["n_positions"])[None]
    expected = GPT2LMHeadModel.from_pretrained(folder / "model")(tokens).logits
    good = True
    for size in ("5GB", "100kB"):
        out = folder / f"converted-{size}"
        tessera.run("convert", folder / "model", out, f"--max-shard-size={size}")
        loaded, report = GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
        good = good and not any(report.values()) and torch.equal(loaded(tokens).logits, expected)
    return good


def whole_tensor(folder, index, name):
    """A tensor of a checkpoint, from the parts that its ranks wrote."""
    tensor = index["tensors"][name]
    whole = np.full(int(np.prod(tensor["shape"])), np.nan, np.float32)
    for part in tensor["parts"]:
        with safe_open(folder / index["files"][part["file"]]["name"], "np") as file:
            elements = file.get_tensor(name).reshape(-1)
        for offset, n, count, stride in ((*r, 1, 0)[:4] for r in part["ranges"]):
            for i in range(count):
                whole[offset + i * stride:offset + i * stride + n], elements = elements[:n], elements[n:]
        assert elements.size == 0, f"{name} has {elements.size} elements more than its ranges"
    return whole.reshape(tensor["shape"])


def same_checkpoint(tessera, folder):
    """What every mesh saves: each file holds what the index says, and the model put together from them has the logits of the
    converted one."""
    tokens = torch.arange(MODEL["n_positions"])[None]
    good = True
    for number, (mesh, ranks, data_ranks) in enumerate(MESHES):
        saved, out = folder / f"saved-{number}", folder / f"of-checkpoint-{number}"
        tessera.run("train", f"--nproc={ranks}", "--comm=local", f"--plugin-dir={tessera.plugin_dir}", "--threads=1",
                    f"--save={saved}", *tessera.flags(data_ranks, mesh, steps=2, **ADAMW))
        step = saved / "step-00000002"
        index = json.loads((step / "index.json").read_text())
        files = [file["name"] for file in index["files"]]
        named = {file: {name for name, tensor in index["tensors"].items()
                        if any(files[part["file"]] == file for part in tensor["parts"])} for file in files}
        good = good and all(load_file(step / file).keys() == named[file] for file in files if file != "config.json")
        model = GPT2LMHeadModel.from_pretrained(folder / "model")
        before = model(tokens).logits
        with torch.no_grad():
            for name, parameter in model.transformer.named_parameters():
                parameter.copy_(torch.from_numpy(whole_tensor(step, index, name)))
        expected = model(tokens).logits
        tessera.run("convert", step, out)
        loaded, report = GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
        good = good and not any(report.values()) and torch.equal(loaded(tokens).logits, expected)
        good = good and not torch.equal(before, expected) and bool(torch.isfinite(expected).all())
    return good


def same_continuation(tessera, model, folder):
    """Greedy decoding up to the context, by a forward of all tokens each time."""
    prompt = [3, 1, 4, 1, 5]
    tokens = list(prompt)
    while len(tokens) < MODEL["n_positions"]:
        tokens.append(model(torch.tensor([tokens])).logits[0, -1].argmax().item())
    made = tessera.run("generate", folder / "model", "--prompt", " ".join(map(str, prompt)), "--temperature=0",
                       f"--max-tokens={len(tokens) - len(prompt)}", "--threads=1", f"--plugin-dir={tessera.plugin_dir}")
    return list(map(int, made.split())) == tokens


def same_tokens(tessera, folder):
    """Random texts, of all kinds of white space, letters, numbers and marks."""
    tokenizer, draw = Tokenizer.from_file(str(TOKENIZER)), random.Random(5)
    characters = [chr(c) for c in [*range(1, 0x250), 0x301, 0x660, 0x915, 0x94d, 0x1680, 0x180e, *range(0x2000, 0x2030), 0x205f,
                                   0x2167, 0x3000, 0x4e00, 0xac00, 0xfeff, 0x1f600]]
    for _ in range(20):
        text = "".join(draw.choice(characters if draw.random() < 0.5 else " \n'stare  1.") for _ in range(4000))
        (folder / "a.txt").write_bytes(text.encode())
        tessera.run("tokenize", "--tokenizer", TOKENIZER, folder / "a.txt", folder / "a.bin")
        tokens = np.fromfile(folder / "a.bin", dtype=np.uint16)[512:]  # after the header
        if tokens.tolist() != tokenizer.encode(text).ids:
            return False
    return True


def judge_outputs(tessera, model, folder):
    found = {"converted folders load with equal logits": same_after_conversion(tessera, folder),
             "checkpoints are read, and converted ones have equal logits": same_checkpoint(tessera, folder),
             "greedy continuations are equal": same_continuation(tessera, model, folder),
             "tokens are those of the tokenizers package": same_tokens(tessera, folder)}
    for what, good in found.items():
        print(f"{what}: {'yes' if good else 'NO'}")
    return all(found.values())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder / "model")
        tokens = make_tokens(folder / "tokens.bin")
        tessera = Tessera(*sys.argv[1:4], folder)
        good = judge_outputs(tessera, model, folder)  # before model is trained
        good = judge(tessera, model, tokens) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
