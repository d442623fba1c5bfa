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


def sgd(parameters):
    """In the fastest way that this version has, fused before foreach; or as it does by itself."""
    for way in ("fused", "foreach") if FUSED else ():
        try:
            return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **{way: True})
        except (TypeError, RuntimeError):
            pass
    if FUSED:
        raise Skip(f"PyTorch {torch.__version__} has no fused optimizer")
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def compiled_for_training(net):
    if not hasattr(torch, "compile"):
        raise Skip(f"PyTorch {torch.__version__} has no torch.compile")
    return torch.compile(net)


def compiled_for_inference(net, x):
    if hasattr(torch, "compile"):
        return torch.compile(net)
    with torch.no_grad():
        return torch.jit.optimize_for_inference(torch.jit.trace(net, x))


@functools.lru_cache(maxsize=None)
def network(name, batch, which):
    if name == "mlp" and CHANNELS_LAST:
        raise Skip()
    net = placed(NETWORKS[name]()).train(which == "train")
    x = in_layout(torch.rand(batch, 1, 28, 28))
    target = torch.arange(batch) % 10
    if which == "output":
        x = in_layout(torch.empty(batch, 1, 28, 28))
        x.copy_((0.5 + torch.tensor(pattern(batch * 784, 0), dtype=torch.float64)).reshape(batch, 1, 28, 28))
        with torch.no_grad():
            for k, p in enumerate(net.parameters()):
                values = torch.tensor(pattern(p.numel(), k), dtype=torch.float64)
                p.copy_((values * (2 / math.sqrt(p.numel() // p.shape[0]))).reshape(p.shape))
        run = compiled_for_inference(net, x) if COMPILED else net
        with torch.no_grad():
            return run(x)
    loss = nn.CrossEntropyLoss()
    if which == "train":
        run = compiled_for_training(net) if COMPILED else net
        optimizer = sgd(list(net.parameters()))
    else:
        run = compiled_for_inference(net, x) if COMPILED else net

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss(run(x), target).backward()
        optimizer.step()

    def infer():
        with torch.inference_mode():
            run(x)

    return {"train": train, "infer": infer}[which]


@functools.lru_cache(maxsize=1)
def layer(kind, *size):
    if FUSED or COMPILED:
        raise Skip()
    rank, make = LAYERS[kind]
    module = placed(make(*size).train())
    x = in_layout(torch.rand(size[:rank]) * 2 - 1).requires_grad_()
    parameters = list(module.parameters())
    y = module(x)
    dy = torch.rand_like(y)

    def forward():
        with torch.no_grad():
            module(x)

    def adjoint(by):  # one derivative only; the graph of y is kept
        return lambda: torch.autograd.grad(y, by, dy, retain_graph=True)

    return {"forward": forward, "backward": adjoint([x]), "gradient": adjoint(parameters)}


def work(words):
    kind, *numbers, which = words
    if kind == "net" and which == "output":
        return network.__wrapped__(numbers[0], int(numbers[1]), which)
    if kind == "net":
        return network(numbers[0], int(numbers[1]), which)
    if kind in LAYERS:
        return layer(kind, *map(int, numbers))[which]
    raise Skip()


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
serve(f"PyTorch {torch.__version__}, {used}, threads by set_num_threads", work)
