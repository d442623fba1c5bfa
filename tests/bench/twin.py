"""twin.py: PyTorch's twin of a network's text, whose grammar examples/stride/network.h has.

    python twin.py SIZE TEXT            prints the twin: python twin.py 3x32x32 'conv 8 3, relu, dense 10'

A twin has the parameters of the text's layers, in their order. Where PyTorch has no such layer, or not with these
options, Absent says so. A border that PyTorch's layer does not take by itself is a module of its own before it.
"""
import re
import sys

import torch
from torch import nn


class Absent(Exception):
    """PyTorch has no such layer."""


# ---- modules that PyTorch has as functions ---------------------------------------------------------------


class Border(nn.Module):
    """x with `sides` (left, right, top, bottom) of a value around it."""

    def __init__(self, height, width, value=0.0):
        super().__init__()
        self.sides, self.value = (*width, *height), value

    def forward(self, x):
        return nn.functional.pad(x, self.sides, value=self.value)

    def inside(self, x):
        """The adjoint of `forward`."""
        left, right, top, bottom = self.sides
        return x[:, :, top:x.shape[2] - bottom, left:x.shape[3] - right]


class Residual(nn.Module):
    def __init__(self, body, projection=None):
        super().__init__()
        self.body, self.projection = body, projection

    def forward(self, x):
        return self.body(x) + (x if self.projection is None else self.projection(x))


class Concat(nn.ModuleList):
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


class Multiply(nn.ModuleList):
    def forward(self, x):
        y = self[0](x)
        for branch in self[1:]:
            y = y * branch(x)
        return y


# ---- options ---------------------------------------------------------------------------------------------

# What values without a name are, where that is more than the first option; the first option of the others.
UNNAMED = {"conv2d": ("out_channels", "kernel"), "conv_transpose2d": ("out_channels", "kernel"), "maxpool": ("kernel",),
           "avgpool": ("kernel",), "lppool": ("kernel",), "adaptive_avgpool": ("output_size",), "adaptive_maxpool": ("output_size",),
           "dense": ("out_features",),
           "batchnorm": ("epsilon",), "layernorm": ("axes",), "rmsnorm": ("axes",), "groupnorm": ("groups",),
           "hardtanh": ("min_val",), "leaky_relu": ("slope",), "prelu": ("num_parameters",), "elu": ("alpha",),
           "softmax": ("axis",), "log_softmax": ("axis",), "dropout": ("p",), "channel_dropout": ("p",),
           "upsample": ("scale",), "unflatten": ("channels",)}
ALIASES = {"conv": "conv2d", "conv_transpose": "conv_transpose2d", "pad": "pad2d", "linear": "dense",
           "global_avgpool": "avgpool", "global_maxpool": "maxpool"}


class Options(dict):
    """Words by name; numbers are read when they are asked for."""

    def integer(self, name, default=0):
        return int(self.get(name, default))

    def real(self, name, default):
        return float(self.get(name, default))

    def pair(self, name, default=0):
        numbers = [int(n) for n in str(self.get(name, default)).split("x")]
        return tuple(numbers * 2) if len(numbers) == 1 else tuple(numbers)

    def flag(self, name):
        return self.get(name, "false") == "true"

    def sides(self):
        """(top, bottom), (left, right)."""
        both, height, width = self.pair("padding"), self.pair("pad_height"), self.pair("pad_width")
        return tuple(tuple(p + q for q in side) for p, side in zip(both, (height, width)))

    def keep_size(self):
        """padding=same: of an odd number the bottom and the right get one more."""
        more = [d * (k - 1) for k, d in zip(self.pair("kernel"), self.pair("dilation", 1))]
        self["padding"] = "x".join(str(m // 2) for m in more)
        self["pad_height"], self["pad_width"] = (f"0x{m % 2}" for m in more)


# ---- layers ----------------------------------------------------------------------------------------------


def after(border, module):
    return module if border is None else nn.Sequential(border, module)


def conv2d(o, x):
    height, width = o.sides()
    even = min(height), min(width)
    rest = [tuple(n - min(side) for n in side) for side in (height, width)]
    return after(Border(*rest) if any(map(any, rest)) else None,
                 nn.Conv2d(x.shape[1], o.integer("out_channels"), o.pair("kernel"), o.pair("stride", 1), even,
                           o.pair("dilation", 1), o.integer("groups", 1), not o.flag("no_bias")))


def conv_transpose2d(o, x):
    return nn.ConvTranspose2d(x.shape[1], o.integer("out_channels"), o.pair("kernel"), o.pair("stride", 1),
                              o.pair("padding"), o.pair("output_padding"), o.integer("groups", 1),
                              not o.flag("no_bias"), o.pair("dilation", 1))


class Windows:
    """A pooling's options. PyTorch takes an even padding of at most half the kernel; others are a border."""

    def __init__(self, o, x, value, padded=True):
        self.whole = o.pair("kernel") == (0, 0) and not any(map(any, o.sides()))
        self.kernel = tuple(k or n for k, n in zip(o.pair("kernel"), x.shape[2:]))
        self.stride = tuple(s or k for s, k in zip(o.pair("stride"), self.kernel))
        self.dilation, self.ceil_mode = o.pair("dilation", 1), o.flag("ceil_mode")
        self.padding, self.border, sides = (0, 0), None, o.sides()
        if padded and all(a == b <= k // 2 for (a, b), k in zip(sides, self.kernel)):
            self.padding = tuple(a for a, _ in sides)
        elif any(map(any, sides)):
            self.border = Border(*sides, value)
        if self.border or not padded:
            self.check_ends(x.shape[2:], sides, value)

    def check_ends(self, sizes, sides, value):
        """In ceil_mode PyTorch takes windows that begin in a border, and nothing beyond it counts as zero."""
        for n, (before, behind), k, s, d in zip(sizes, sides, self.kernel, self.stride, self.dilation):
            whole, reach = before + n + behind, d * (k - 1) + 1
            last = -(-(whole - reach) // s) * s
            if self.ceil_mode and (last >= before + n or (value == 0 and last + reach > whole)):
                raise Absent("ceil_mode with such a border")

    def undilated(self):
        if any(d > 1 and k > 1 for d, k in zip(self.dilation, self.kernel)):
            raise Absent("a dilation of this pooling")
        return self


def maxpool(o, x):
    value = 0.0 if o.get("pad_value") == "zero" else -float("inf")
    w = Windows(o, x, value, padded=value != 0)
    if w.whole:
        return nn.AdaptiveMaxPool2d(1)
    return after(w.border, nn.MaxPool2d(w.kernel, w.stride, w.padding, w.dilation, ceil_mode=w.ceil_mode))


def avgpool(o, x):
    w = Windows(o, x, 0.0).undilated()
    if w.whole:
        return nn.AdaptiveAvgPool2d(1)
    if w.border and o.flag("count_exclude_pad"):
        raise Absent("count_include_pad=False with such a border")
    return after(w.border, nn.AvgPool2d(w.kernel, w.stride, w.padding, w.ceil_mode, not o.flag("count_exclude_pad")))


def lppool(o, x):
    w = Windows(o, x, 0.0, padded=False).undilated()
    if w.ceil_mode:
        raise Absent("ceil_mode without scaling the last windows")
    return after(w.border, nn.LPPool2d(o.real("p", 2), w.kernel, w.stride))


def norm_of_axes(kind):
    def make(o, x):
        shape = x.shape[x.dim() - (o.integer("axes") or x.dim() - 1):]
        if not hasattr(nn, kind):
            raise Absent(f"{kind} in version {torch.__version__}")
        return getattr(nn, kind)(shape, o.real("epsilon", 1e-5 if kind == "LayerNorm" else torch.finfo().eps),
                                 not o.flag("no_affine"))
    return make


def batchnorm(o, x):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[x.dim()]
    return kind(x.shape[1], o.real("epsilon", 1e-5), o.real("momentum", 0.1), not o.flag("no_affine"))


def channel_dropout(o, x):
    kind = {2: nn.Dropout, 3: nn.Dropout1d, 4: nn.Dropout2d, 5: nn.Dropout3d}[x.dim()]
    return kind(o.real("p", 0))


def pad2d(o, _):
    height, width = o.pair("height"), o.pair("width")
    kinds = {"reflect": nn.ReflectionPad2d, "replicate": nn.ReplicationPad2d}
    if o.get("mode") in kinds:
        return kinds[o["mode"]]((*width, *height))
    return nn.ConstantPad2d((*width, *height), o.real("value", 0))


def upsample(o, x):
    mode = o.get("mode", "nearest")
    corners = {"align_corners": o.flag("align_corners")} if mode == "bilinear" else {}
    if "size" in o:
        return nn.Upsample(size=o.pair("size"), mode=mode, **corners)
    if "scale" in o:
        return nn.Upsample(scale_factor=tuple(float(s) for s in o.pair("scale")), mode=mode, **corners)
    factor = o.real("scale_factor", 1)
    for n in x.shape[2:]:
        if mode == "nearest" and factor != int(n * factor) / n in (1, 2):
            raise Absent("with this scale_factor, a backward pass that is the adjoint of the forward pass")
    return nn.Upsample(scale_factor=factor, mode=mode, **corners)


def unflatten(o, x):
    channels, size = o.integer("channels"), o.pair("size")
    return nn.Sequential(nn.Flatten(), nn.Unflatten(1, (channels, *(size if any(size) else (-1,)))))


LAYERS = {
    "conv2d": conv2d, "conv_transpose2d": conv_transpose2d, "maxpool": maxpool, "avgpool": avgpool, "lppool": lppool,
    "adaptive_avgpool": lambda o, x: nn.AdaptiveAvgPool2d(tuple(n or 1 for n in o.pair("output_size", 1))),
    "adaptive_maxpool": lambda o, x: nn.AdaptiveMaxPool2d(tuple(n or 1 for n in o.pair("output_size", 1))),
    "dense": lambda o, x: nn.Linear(x.shape[-1], o.integer("out_features"), not o.flag("no_bias")),
    "batchnorm": batchnorm, "layernorm": norm_of_axes("LayerNorm"), "rmsnorm": norm_of_axes("RMSNorm"),
    "groupnorm": lambda o, x: nn.GroupNorm(o.integer("groups"), x.shape[1], o.real("epsilon", 1e-5), not o.flag("no_affine")),
    "relu": lambda o, x: nn.ReLU(), "relu6": lambda o, x: nn.ReLU6(), "selu": lambda o, x: nn.SELU(),
    "hardtanh": lambda o, x: nn.Hardtanh(o.real("min_val", -1), o.real("max_val", 1)),
    "leaky_relu": lambda o, x: nn.LeakyReLU(o.real("slope", 0.01)),
    "prelu": lambda o, x: nn.PReLU(o.integer("num_parameters", 1)), "elu": lambda o, x: nn.ELU(o.real("alpha", 1)),
    "gelu": lambda o, x: nn.GELU(o.get("approximate", "none")), "silu": lambda o, x: nn.SiLU(), "mish": lambda o, x: nn.Mish(),
    "sigmoid": lambda o, x: nn.Sigmoid(), "tanh": lambda o, x: nn.Tanh(), "softplus": lambda o, x: nn.Softplus(),
    "softsign": lambda o, x: nn.Softsign(), "hardsigmoid": lambda o, x: nn.Hardsigmoid(), "hardswish": lambda o, x: nn.Hardswish(),
    "softmax": lambda o, x: nn.Softmax(o.integer("axis") or 1), "log_softmax": lambda o, x: nn.LogSoftmax(o.integer("axis") or 1),
    "dropout": lambda o, x: nn.Dropout(o.real("p", 0)), "channel_dropout": channel_dropout, "pad2d": pad2d,
    "upsample": upsample, "flatten": lambda o, x: nn.Flatten(), "unflatten": unflatten, "identity": lambda o, x: nn.Identity(),
}
HOLDERS = {"sequence": lambda *branches: branches[0], "residual": Residual, "concat": lambda *branches: Concat(branches),
           "multiply": lambda *branches: Multiply(branches)}
OVERWRITES = (nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Hardswish, nn.SiLU, nn.ELU, nn.LeakyReLU)
KEEPS_ITS_INPUT = (nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)  # not its output


# ---- the text --------------------------------------------------------------------------------------------


class Parser:
    def __init__(self, text):
        lines = [line.split("#")[0] for line in text.split("\n")]
        self.words = re.findall(r"[,()|=]|[^\s,()|=]+", " , ".join(lines)) + [""]
        self.at = 0

    def next(self):
        self.at += 1
        return self.words[self.at - 1]

    def sees(self, *words):
        return self.words[self.at] in words

    def size(self):
        """Of "input 3x32x32", if the text begins with that."""
        while self.sees(","):
            self.next()
        if not self.sees("input"):
            return None
        self.next()
        return [int(n) for n in self.next().split("x")]

    def options(self, name):
        o, unnamed = Options(), list(UNNAMED.get(name, ()))
        while not self.sees(",", "(", ")", "|", ""):
            word = self.next()
            if self.sees("="):
                self.next()
                o[word] = self.next()
            elif word[0] in "+-.0123456789":
                o[unnamed.pop(0)] = word
            else:
                o[word] = "true"
        if o.get("padding") == "same":
            o.keep_size()
        return o

    def branches(self, x):
        modules = []
        while self.next() in ("(", "|"):
            chain = self.chain(x)
            modules.append(chain[0] if len(chain) == 1 else nn.Sequential(*chain))
            if self.sees(")"):
                self.next()
                return modules
        raise ValueError(f"expected ( | or ) before {self.words[self.at]!r}")

    def layer(self, x):
        """One or two modules."""
        name = self.next()
        name = ALIASES.get(name, name)
        if name in HOLDERS:
            return [HOLDERS[name](*self.branches(x))]
        if name not in LAYERS:
            raise Absent(name)
        o = self.options(name)
        if name == "dense" and x.dim() > 3:
            return [nn.Flatten(), LAYERS[name](o, x.flatten(1))]
        return [LAYERS[name](o, x)]

    def chain(self, x):
        """The modules up to the end, a ) or a |; x is an example of their input."""
        modules, begin = [], self.at
        while not self.sees(")", "|", ""):
            if self.sees(","):
                self.next()
            elif re.fullmatch(r"\d+x", self.words[self.at]) and self.words[self.at + 1] == "(":
                times, begin = int(self.next()[:-1]), self.at + 1
                for _ in range(times):
                    self.at = begin
                    more = self.chain(x)
                    x = run(more, x)
                    modules += more
                self.next()
            else:
                more = self.layer(x)
                if modules and isinstance(more[0], OVERWRITES) and isinstance(modules[-1], KEEPS_ITS_INPUT):
                    more[0].inplace = True
                x = run(more, x)
                modules += more
        return modules


@torch.no_grad()
def run(modules, x):
    for module in modules:
        x = module.eval()(x)
    return x


def twin(text, size=None):
    """The module, and the shape of one image; of a text without "input" the size says that."""
    parser = Parser(text)
    size = parser.size() or size
    return nn.Sequential(*parser.chain(torch.zeros(1, *size))), size


if __name__ == "__main__":
    print(twin(sys.argv[2], [int(n) for n in sys.argv[1].split("x")])[0])
