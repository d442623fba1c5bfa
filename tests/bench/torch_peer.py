"""torch_peer.py: PyTorch's side of a benchmark; stride_peer.c says in which words.

--channels-last  images are stored N, H, W, C, which some of its convolutions prefer
--fused          one kernel steps all parameters, or all of a kind, where this version has it
--compiled       torch.compile where this version has it; else traced and optimised networks for inference
"""
import contextlib
import functools
import os
import sys

from peer import Skip, THREADS, given, refuse, serve

try:
    import torch
except ImportError:
    refuse("PyTorch is not installed (make deps-bench)")
from torch import nn

from twin import Absent, Border, twin

RATE = 1e-3  # small: however long a network trains on its one batch, the numbers stay as they are in earnest
CHANNELS_LAST, FUSED, COMPILED = (f"--{mode}" in sys.argv for mode in ("channels-last", "fused", "compiled"))


def in_layout(t):
    if not CHANNELS_LAST:
        return t
    if t.dim() != 4:
        raise Skip()  # channels come last in images only
    return t.contiguous(memory_format=torch.channels_last)


def placed(module):
    return module.to(memory_format=torch.channels_last) if CHANNELS_LAST else module


def adopt(module, values):
    """Makes parameters and states what Stride's are."""
    states = [b for name, b in module.named_buffers() if "num_batches" not in name]
    with torch.no_grad():
        for own, value in zip([*module.parameters(), *states], values, strict=True):
            own.copy_(torch.from_numpy(value))


@contextlib.contextmanager
def without_dropout(module):
    """Masks are everyone's own."""
    kept = [(m, m.p) for m in module.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    for m, _ in kept:
        m.p = 0.0
    yield
    for m, p in kept:
        m.p = p


# ---- layers -------------------------------------------------------------------------------------------


class Layer:
    """A layer as it is in training. A border that PyTorch's layer does not take is put around x before anything is
    measured."""

    def __init__(self, size, text):
        if FUSED or COMPILED:
            raise Skip()
        module = twin(text, size[1:])[0][0]
        self.border = module[0] if isinstance(module, nn.Sequential) and isinstance(module[0], Border) else None
        self.module = placed((module if self.border is None else module[1]).train())
        self.prepare(torch.rand(size) * 2 - 1)
        if self.y.data_ptr() == self.x.data_ptr():
            raise Skip("PyTorch returns x itself")

    def prepare(self, x, dy=None):
        self.x = in_layout(x if self.border is None else self.border(x)).requires_grad_()
        self.y = self.module(self.x)
        self.dy = torch.rand_like(self.y) if dy is None else in_layout(dy)

    def derivatives(self, by):  # the graph of y is kept
        return torch.autograd.grad(self.y, by, self.dy, retain_graph=True)

    def forward(self):
        with torch.no_grad():
            return self.module(self.x)

    def run(self, which):
        parameters = list(self.module.parameters())
        by = {"backward": [self.x], "gradient": parameters, "both": [self.x, *parameters]}
        return self.forward if which == "forward" else lambda: self.derivatives(by[which])

    def result(self, which):
        x, dy, *values = given()
        adopt(self.module, values)
        with without_dropout(self.module):
            self.prepare(torch.from_numpy(x), torch.from_numpy(dy))
            made = self.run(which)()
        self.prepare(torch.from_numpy(x), torch.from_numpy(dy))
        if which == "forward":
            return [made]
        dx = made[0] if self.border is None or which == "gradient" else self.border.inside(made[0])
        return [dx, *made[1:]]


@functools.lru_cache(maxsize=1)
def layer(size, *text):
    return Layer(tuple(int(n) for n in size.split("x")), " ".join(text))


# ---- networks -----------------------------------------------------------------------------------------


def read(name):
    for folder in ("tests/bench/networks", "examples/networks"):
        path = os.path.join(folder, name + ".net")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return twin(file.read())
    raise ValueError(f"there is no network {name}")


def sgd(parameters):
    """In the fastest way that this version has, fused before foreach; or as it does by itself."""
    for way in ("fused", "foreach") if FUSED else ():
        try:
            return torch.optim.SGD(parameters, lr=RATE, momentum=0.9, **{way: True})
        except (TypeError, RuntimeError):
            pass
    if FUSED:
        raise Skip(f"PyTorch {torch.__version__} has no fused optimizer")
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def compiled_for_training(net):
    if not hasattr(torch, "compile"):
        raise Skip(f"PyTorch {torch.__version__} has no torch.compile")
    return torch.compile(net)


def compiled_for_inference(net, x):
    if hasattr(torch, "compile"):
        return torch.compile(net)
    with torch.no_grad():
        return torch.jit.optimize_for_inference(torch.jit.trace(net, x))


class Network:
    """A step of training, or inference, on one batch: targets of y's shape are what pixels are to be, others classes."""

    def __init__(self, name, batch, training):
        net, size = read(name)
        self.net, self.training = placed(net).train(training), training
        self.x = in_layout(torch.rand(batch, *size))
        self.target = torch.zeros(batch, dtype=torch.long)
        self.optimizer = sgd(list(net.parameters())) if training else None
        self.build()

    def build(self):
        if not COMPILED:
            self.compiled = self.net
        else:
            self.compiled = compiled_for_training(self.net) if self.training else compiled_for_inference(self.net, self.x)

    def compute_gradients(self):
        self.optimizer.zero_grad(set_to_none=True)
        y = self.compiled(self.x)
        kind = nn.functional.mse_loss if self.target.is_floating_point() else nn.functional.cross_entropy
        kind(y, self.target).backward()
        return y.detach()

    def train(self):
        self.compute_gradients()
        self.optimizer.step()

    def infer(self):
        with torch.inference_mode():
            return self.compiled(self.x)

    def result(self):
        x, target, *values = given()
        adopt(self.net, values)
        self.x, self.target = in_layout(torch.from_numpy(x)), torch.from_numpy(target)
        if not self.training:
            self.build()  # what traces a network keeps its parameters
            return [self.infer()]
        with without_dropout(self.net):
            with torch.no_grad():
                if self.net(self.x).shape != self.target.shape:
                    self.target = self.target.long()
            adopt(self.net, values)  # the states, too
            y = self.compute_gradients()
        return [y, *self.changes()]

    def changes(self):
        """What a step at a rate of 16 adds to the parameters; the optimizer is as new."""
        before = [p.detach().clone() for p in self.net.parameters()]
        self.optimizer.state.clear()
        for group in self.optimizer.param_groups:
            group["lr"] = 16.0
        self.optimizer.step()
        for group in self.optimizer.param_groups:
            group["lr"] = RATE
        self.optimizer.state.clear()
        with torch.no_grad():
            made = [p - b for p, b in zip(self.net.parameters(), before)]
            for p, b in zip(self.net.parameters(), before):
                p.copy_(b)
        return made


@functools.lru_cache(maxsize=8)
def network(name, batch, which):
    return Network(name, batch, which == "train")


# ---- requests -----------------------------------------------------------------------------------------


def prepared(words):
    kind, *rest, which = words
    try:
        return layer(*rest) if kind == "layer" else network(rest[0], int(rest[1]), which)
    except Absent as reason:
        raise Skip(f"not in PyTorch: {reason}") from reason


def work(words):
    if words[0] not in ("layer", "net"):
        raise Skip()
    found = prepared(words)
    return found.run(words[-1]) if words[0] == "layer" else getattr(found, words[-1])


def result(words):
    found = prepared(words)
    made = found.result(words[-1]) if words[0] == "layer" else found.result()
    return [a.detach().contiguous().numpy() for a in made]


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
serve(f"PyTorch {torch.__version__}, {used}, threads by set_num_threads", work, result)
