"""torch_peer.py: PyTorch's side of a benchmark; stride_peer.c says in which words.

--channels-last  images are stored N, H, W, C, which some of its convolutions prefer
--fused          one kernel steps all parameters, or all of a kind, where this version has it
--compiled       torch.compile where this version has it; else traced and optimised networks for inference
"""
import functools
import math
import os
import sys

from peer import Skip, THREADS, pattern, refuse, serve

try:
    import torch
except ImportError:
    refuse("PyTorch is not installed (make deps-bench)")
from torch import nn

CHANNELS_LAST, FUSED, COMPILED = (f"--{mode}" in sys.argv for mode in ("channels-last", "fused", "compiled"))


# ---- networks, as in networks.c -----------------------------------------------------------------------


def relu():
    return nn.ReLU(inplace=True)


def conv3x3(c_in, c_out):
    return nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), relu()


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), relu(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), relu(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), relu(), nn.Linear(120, 84), relu(), nn.Linear(84, 10))


def example():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), relu(), nn.Conv2d(32, 64, 3), relu(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), relu(), nn.Dropout(0.5), nn.Linear(128, 10))


def bnnet():
    return nn.Sequential(
        *conv3x3(1, 32), *conv3x3(32, 32), nn.MaxPool2d(3, 2, 1), *conv3x3(32, 64), *conv3x3(64, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), relu(), nn.Linear(512, 512), relu(), nn.Linear(512, 10))


NETWORKS = {"lenet5": lenet5, "example": example, "bnnet": bnnet, "mlp": mlp}


# ---- layers -------------------------------------------------------------------------------------------


def window(kind, h, w, kernel, stride, padding):
    return nn.AdaptiveAvgPool2d(1) if kernel == 0 else kind(kernel, stride, padding)


LAYERS = {  # name: rank of x, and the module made of all numbers
    "conv": (4, lambda n, c, h, w, o, k, s, p: nn.Conv2d(c, o, k, s, p)),
    "maxpool": (4, lambda n, c, h, w, k, s, p: window(nn.MaxPool2d, h, w, k, s, p)),
    "avgpool": (4, lambda n, c, h, w, k, s, p: window(nn.AvgPool2d, h, w, k, s, p)),
    "dense": (2, lambda n, i, o: nn.Linear(i, o)),
    "batchnorm": (4, lambda n, c, h, w: nn.BatchNorm2d(c)),
    "layernorm": (2, lambda n, c: nn.LayerNorm(c)),
    "relu": (4, lambda *size: nn.ReLU()),
    "gelu": (4, lambda *size: nn.GELU()),
    "sigmoid": (4, lambda *size: nn.Sigmoid()),
    "softmax": (2, lambda *size: nn.Softmax(1)),
    "dropout": (4, lambda *size: nn.Dropout(0.5)),
}


# ---- work: a table of what can be run, by pass ----------------------------------------------------------


def in_layout(t):
    if not CHANNELS_LAST:
        return t
    if t.dim() != 4:
        raise Skip()  # channels come last in images only
    return t.contiguous(memory_format=torch.channels_last)


def placed(module):
    return module.to(memory_format=torch.channels_last) if CHANNELS_LAST else module


def sgd(parameters, rate):
    """In the fastest way that this version has, fused before foreach; or as it does by itself."""
    for way in ("fused", "foreach") if FUSED else ():
        try:
            return torch.optim.SGD(parameters, lr=rate, momentum=0.9, **{way: True})
        except (TypeError, RuntimeError):
            pass
    if FUSED:
        raise Skip(f"PyTorch {torch.__version__} has no fused optimizer")
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9)


def compiled_for_training(net):
    if not hasattr(torch, "compile"):
        raise Skip(f"PyTorch {torch.__version__} has no torch.compile")
    return torch.compile(net)


def compiled_for_inference(net, x):
    if hasattr(torch, "compile"):
        return torch.compile(net)
    with torch.no_grad():
        return torch.jit.optimize_for_inference(torch.jit.trace(net, x))


def numbers(count):
    return torch.arange(count, dtype=torch.float64)


def filled(shape, k, scale=1.0, shift=0.0):
    """In outline.h's pattern."""
    return (pattern(numbers(math.prod(shape)), k) * scale + shift).reshape(shape).float()


def fill_weights(module):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(filled(p.shape, k, 2 / math.sqrt(p.numel() // p.shape[0])))


def network(name, batch, which, known=False):
    """A function that makes a step; `known`: of known numbers, and what it makes of them."""
    if name == "mlp" and CHANNELS_LAST:
        raise Skip()
    net = NETWORKS[name]()
    if known:
        fill_weights(net)
    random = any(isinstance(m, nn.Dropout) for m in net)
    net = placed(net).train(which == "train" and not (known and random))
    x = in_layout(filled((batch, 1, 28, 28), 0, shift=0.5) if known else torch.rand(batch, 1, 28, 28))
    target = torch.arange(batch) % 10
    loss = nn.CrossEntropyLoss()
    if which == "train":
        run = compiled_for_training(net) if COMPILED else net
        optimizer = sgd(list(net.parameters()), 16 if known else 1e-3)
    else:
        run = compiled_for_inference(net, x) if COMPILED else net

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss(run(x), target).backward()
        optimizer.step()

    def infer():
        with torch.inference_mode():
            return run(x)

    def flat():
        return torch.cat([p.detach().contiguous().reshape(-1) for p in net.parameters()])

    def change():
        before = flat()
        train()
        return flat() - before

    steps = {"train": change, "infer": infer} if known else {"train": train, "infer": infer}
    return steps[which]


def layer(kind, *size, known=False):
    if FUSED or COMPILED:
        raise Skip()
    rank, make = LAYERS[kind]
    module = make(*size).train()
    if known and any(p.dim() > 1 for p in module.parameters()):
        fill_weights(module)
    module = placed(module)
    x = in_layout(filled(size[:rank], 0, 2) if known else torch.rand(size[:rank]) * 2 - 1).requires_grad_()
    parameters = list(module.parameters())
    y = module(x)
    dy = torch.empty_like(y).copy_(filled(y.shape, 2, 2)) if known else torch.rand_like(y)

    def forward():
        with torch.no_grad():
            return module(x)

    def adjoint(by):  # one derivative only; the graph of y is kept
        return lambda: torch.autograd.grad(y, by, dy, retain_graph=True)

    return {"forward": forward, "backward": adjoint([x]), "gradient": adjoint(parameters)}


kept_network = functools.lru_cache(maxsize=None)(network)
kept_layer = functools.lru_cache(maxsize=1)(layer)


def result(words):
    """What a pass makes of known numbers: a tensor; all gradients are one."""
    kind, *size, which = words
    if kind == "net":
        return network(size[0], int(size[1]), which, known=True)().detach()
    made = layer(kind, *map(int, size), known=True)[which]()
    parts = [made] if which == "forward" else made
    parts = [p.detach().contiguous() for p in parts]
    return parts[0] if which != "gradient" else torch.cat([p.reshape(-1) for p in parts])


def work(words):
    kind, *size, which = words
    if kind != "net" and kind not in LAYERS:
        raise Skip()
    if which == "output":
        return result(words[:-1])
    if kind == "net":
        return kept_network(size[0], int(size[1]), which)
    return kept_layer(kind, *map(int, size))[which]


# ---- what it is -----------------------------------------------------------------------------------------


def blas():
    """The files of the BLAS that is loaded; it does without one where it has its own."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            files = {os.path.realpath(line.split()[-1]) for line in maps if "blas" in line or "libmkl" in line}
    except OSError:
        return "BLAS unknown"
    return "BLAS " + (" ".join(sorted(files)) or "of its own")


used = blas()
if "/blas/libblas" in used and "openblas" not in used:
    refuse(f"it has the reference BLAS, up to 47 times as slow as OpenBLAS: {used}")
torch.set_num_threads(THREADS)
torch.set_flush_denormal(True)
torch.manual_seed(1)
serve(f"PyTorch {torch.__version__}, {used}, threads by set_num_threads", work, numbers)
