"""PyTorch's results for random configurations, as files for parity.c.

    cases.py write FOLDER COUNT     COUNT cases of each kind
    cases.py loads FOLDER...        a line for each NAME.saved, a net that Stride made of case NAME, trained
                                    and saved: it loads into PyTorch's module and gives the output in NAME.run

A case is a file of safetensors. Everything is computed in double from numbers that a float holds exactly,
so that one file is the reference for both precisions and a disagreement is the library's alone. The
metadata name the kind and its options; of a net they hold the architecture as Stride writes it. Tensors:

    net        before/NAME, per batch x.0 y.0 dy.0 dx.0 x.1 …; then gradient/NAME (summed), after/NAME
    loss       y, target, value, dy
    optimizer  base [1], lr [steps], g [steps, n], w [steps + 1, n]
    schedule   factor [total]

A case is drawn from its name alone, so that it is the same in a short run and a full one."""
import copy
import json
import math
import os
import random
import struct
import sys

os.environ["OMP_NUM_THREADS"] = "1"
import torch
from torch import nn

torch.set_num_threads(1)

# ---- safetensors ---------------------------------------------------------------------------------

DTYPES = {"F64": ("d", torch.float64), "F32": ("f", torch.float32)}
BITS = {"F64": ("q", torch.float64, torch.int64), "F32": ("i", torch.float32, torch.int32),
        "F16": ("h", torch.float16, torch.int16), "BF16": ("h", torch.bfloat16, torch.int16)}


def write(path, tensors, metadata, dtype="F64"):
    """Integers stay I64, the rest is rounded to the dtype by PyTorch."""
    header, data = {"__metadata__": metadata}, b""
    for name, value in tensors.items():
        code, kind, bits = ("q", torch.int64, torch.int64) if value.dtype == torch.int64 else BITS[dtype]
        value = value.detach().to(kind).contiguous()
        packed = struct.pack(f"<{value.numel()}{code}", *value.view(bits).flatten().tolist())
        header[name] = {"dtype": "I64" if kind == torch.int64 else dtype, "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        code, dtype = DTYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        values = struct.unpack(f"<{math.prod(entry['shape'])}{code}", data[begin:end])
        tensors[name] = torch.tensor(values, dtype=dtype).reshape(entry["shape"])
    return tensors


# ---- numbers -------------------------------------------------------------------------------------

def normal(*shape):
    """In double, each exact in float."""
    return torch.randn(*shape, dtype=torch.float32).double()


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


def exact(value):
    return value.float().double()


def pair(rng, least, most):
    return [rng.randint(least, most), rng.randint(least, most)]


def flag(rng):
    return rng.random() < 0.5


def batch(rng):
    return rng.choice([1, 2, 3, 5, 9])


def real(rng, least, most):
    """Exact in float, and written the same on both sides."""
    return rng.randint(int(least * 256), int(most * 256)) / 256


# ---- layers: each draws a module, its layers as Stride writes them, and a shape of x ----------------

class Draw:
    def __init__(self, module, layers, shape, train=True, batches=None, x=None, sums=False):
        single = isinstance(layers, dict)
        self.module = nn.Sequential(module) if single else module
        self.layers = [layers] if single else layers
        self.shape, self.train, self.batches = shape, train, batches
        self.x = x or (lambda shape: 2 * normal(*shape))
        self.sums = sums  # of many terms: see `scale` in parity.c
        self.dtype = torch.float32  # that holds every parameter exactly


def image(rng, least=1, most=8):
    """N, C, H, W"""
    return [batch(rng), rng.randint(1, 5), rng.randint(least, most), rng.randint(least, most)]


def anything(rng):
    """Two to five axes."""
    return [batch(rng)] + [rng.randint(2, 5) for _ in range(rng.randint(1, 4))]


def convolution(rng):
    groups = rng.choice([1, 1, 2, 3])
    channels, filters = groups * rng.randint(1, 3), groups * rng.randint(1, 4)
    kernel, stride = pair(rng, 1, 4), pair(rng, 1, 3)
    padding, dilation = pair(rng, 0, 3), pair(rng, 1, 3)
    if rng.random() < 0.2:  # depthwise
        groups, filters = channels, channels * rng.randint(1, 2)
    sizes = [max(1, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 7)
             for k, p, d in zip(kernel, padding, dilation)]
    bias = rng.random() < 0.7
    options = {"out_channels": filters, "kernel": kernel, "stride": stride, "padding": padding,
               "dilation": dilation, "groups": groups, "no_bias": not bias}
    return options, [batch(rng), channels, *sizes]


def conv(rng):
    o, shape = convolution(rng)
    module = nn.Conv2d(shape[1], o["out_channels"], o["kernel"], o["stride"], o["padding"], o["dilation"], o["groups"],
                       not o["no_bias"])
    return Draw(module, {"type": "conv2d", **o}, shape, sums=True)


class OneSided(nn.Conv2d):
    """A convolution of an image padded by `sides`: left, right, top, bottom."""
    def forward(self, x):
        return super().forward(nn.functional.pad(x, self.sides))


def conv_one_sided(rng):
    o, shape = convolution(rng)
    height, width = pair(rng, 0, 3), pair(rng, 0, 3)
    module = OneSided(shape[1], o["out_channels"], o["kernel"], o["stride"], o["padding"], o["dilation"],
                      o["groups"], not o["no_bias"])
    module.sides = (*width, *height)
    return Draw(module, {"type": "conv2d", **o, "pad_height": height, "pad_width": width}, shape, sums=True)


def conv_transpose(rng):
    o, shape = convolution(rng)
    most = [max(s, d) - 1 for s, d in zip(o["stride"], o["dilation"])]
    o["output_padding"] = [rng.randint(0, m) for m in most]
    span = [d * (k - 1) + 1 + e for k, d, e in zip(o["kernel"], o["dilation"], o["output_padding"])]
    for i in (0, 1):  # so that the padding leaves something
        least = math.ceil((2 * o["padding"][i] + 1 - span[i]) / o["stride"][i]) + 1
        shape[2 + i] = max(1, least) + rng.randint(0, 4)
    module = nn.ConvTranspose2d(shape[1], o["out_channels"], o["kernel"], o["stride"], o["padding"],
                                o["output_padding"], o["groups"], not o["no_bias"], o["dilation"])
    return Draw(module, {"type": "conv_transpose2d", **o}, shape, sums=True)


def windows(rng, dilated, padded=True):
    """PyTorch wants a padding of at most half the kernel."""
    kernel, stride = pair(rng, 1, 4), pair(rng, 1, 3)
    dilation = pair(rng, 1, 3) if dilated else [1, 1]
    padding = [rng.randint(0, k // 2) if padded else 0 for k in kernel]
    sizes = [max(1, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 7)
             for k, p, d in zip(kernel, padding, dilation)]
    if rng.random() < 0.2:
        stride = list(kernel)
    options = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": flag(rng)}
    if dilated:
        options["dilation"] = dilation
    return options, [batch(rng), rng.randint(1, 4), *sizes]


def maxpool(rng):
    o, shape = windows(rng, dilated=True)
    module = nn.MaxPool2d(o["kernel"], o["stride"], o["padding"], o["dilation"], ceil_mode=o["ceil_mode"])
    ties = flag(rng)  # the first maximum has the gradient
    return Draw(module, {"type": "maxpool", **o}, shape,
                x=lambda shape: normal(*shape).round() if ties else 2 * normal(*shape))


def avgpool(rng):
    o, shape = windows(rng, dilated=False)
    exclude = flag(rng)
    module = nn.AvgPool2d(o["kernel"], o["stride"], o["padding"], o["ceil_mode"], not exclude)
    return Draw(module, {"type": "avgpool", **o, "count_exclude_pad": exclude}, shape)


def lppool(rng):
    """On positive numbers: PyTorch takes powers of x, not of |x|. Without ceil_mode, in which PyTorch
    scales a window that hangs over the edge up to a whole one's size."""
    o, shape = windows(rng, dilated=False, padded=False)
    o["ceil_mode"] = False
    p = rng.choice([1.0, 1.5, 2.0, 3.0])
    return Draw(nn.LPPool2d(p, o["kernel"], o["stride"]), {"type": "lppool", **o, "p": p}, shape,
                x=lambda shape: exact(normal(*shape).abs() + 0.125))


def adaptive_avgpool(rng):
    shape, size = image(rng, 1, 9), pair(rng, 1, 6)
    return Draw(nn.AdaptiveAvgPool2d(size), {"type": "adaptive_avgpool", "output_size": size}, shape)


def global_pool(rng):
    """A kernel of 0 is the whole image."""
    name, module = rng.choice([("maxpool", nn.AdaptiveMaxPool2d(1)), ("avgpool", nn.AdaptiveAvgPool2d(1))])
    return Draw(module, {"type": name, "kernel": [0, 0]}, image(rng))


def linear(rng):
    inputs, outputs, bias = rng.randint(1, 40), rng.randint(1, 30), flag(rng)
    o = {"type": "dense", "out_features": outputs, "no_bias": not bias}
    return Draw(nn.Linear(inputs, outputs, bias), o, [batch(rng), inputs], sums=True)


def epsilon(rng):
    return rng.choice([1e-5, 1e-3, 0.25])


def batchnorm(rng, make, shape, train):
    """Two batches, so that the running statistics after them have been averaged twice."""
    shape = [max(2, shape[0]), *shape[1:]]
    if math.prod(shape) // shape[1] < 4:
        shape[0] = 5
    o = {"type": "batchnorm", "epsilon": epsilon(rng), "momentum": real(rng, 0.0625, 1),
         "no_affine": flag(rng)}
    module = make(shape[1], o["epsilon"], o["momentum"], not o["no_affine"])
    return Draw(module, o, shape, train, batches=2, sums=True)


def batchnorm1d(rng, train=True):
    shape = [batch(rng), rng.randint(1, 6)] + ([rng.randint(1, 7)] if flag(rng) else [])
    return batchnorm(rng, nn.BatchNorm1d, shape, train)


def batchnorm2d(rng, train=True):
    return batchnorm(rng, nn.BatchNorm2d, image(rng), train)


def batchnorm_eval(rng):
    return rng.choice([batchnorm1d, batchnorm2d])(rng, train=False)


def layernorm(rng):
    shape = [batch(rng)] + [rng.randint(2, 5) for _ in range(rng.randint(1, 3))]
    shape[-1] = rng.randint(4, 9)
    axes = rng.randint(1, len(shape) - 1)
    o = {"type": "layernorm", "axes": axes, "epsilon": epsilon(rng), "no_affine": flag(rng)}
    if axes == len(shape) - 1 and flag(rng):
        o["axes"] = 0
    return Draw(nn.LayerNorm(shape[-axes:], o["epsilon"], not o["no_affine"]), o, shape, sums=True)


class RMSNorm(nn.Module):
    """torch.nn.RMSNorm, which came with PyTorch 2.4."""
    def __init__(self, shape, eps, affine):
        super().__init__()
        self.axes, self.eps = tuple(range(-len(shape), 0)), eps
        self.weight = nn.Parameter(torch.ones(shape)) if affine else None

    def forward(self, x):
        y = x * torch.rsqrt(x.square().mean(self.axes, keepdim=True) + self.eps)
        return y if self.weight is None else y * self.weight


def rmsnorm(rng):
    shape = [batch(rng)] + [rng.randint(2, 5) for _ in range(rng.randint(1, 3))]
    axes = rng.randint(1, len(shape) - 1)
    o = {"type": "rmsnorm", "axes": axes, "epsilon": epsilon(rng), "no_affine": flag(rng)}
    return Draw(RMSNorm(shape[-axes:], o["epsilon"], not o["no_affine"]), o, shape, sums=True)


def groupnorm(rng):
    groups = rng.randint(1, 4)
    shape = [batch(rng), groups * rng.randint(1, 3), rng.randint(2, 6), rng.randint(2, 6)]
    if flag(rng):
        shape = shape[:2] + [rng.randint(4, 9)]
    o = {"type": "groupnorm", "groups": groups, "epsilon": epsilon(rng), "no_affine": flag(rng)}
    return Draw(nn.GroupNorm(groups, shape[1], o["epsilon"], not o["no_affine"]), o, shape, sums=True)


def instancenorm(rng):
    shape = [batch(rng), rng.randint(1, 6), rng.randint(2, 6), rng.randint(2, 6)]
    o = {"type": "groupnorm", "groups": shape[1], "epsilon": epsilon(rng), "no_affine": flag(rng)}
    return Draw(nn.InstanceNorm2d(shape[1], o["epsilon"], affine=not o["no_affine"]), o, shape, sums=True)


# Exponentials of these overflow in float or in double, saturate or vanish. The kinks at +-3 of hardsigmoid and
# hardswish are left out: Stride takes the derivative of the left side, PyTorch either.
EXTREMES = [0.0, -0.0, 8.5, -8.5, 20.25, -20.25, 95.0, -95.0, 800.0, -800.0]


def activation(name, make, *numbers):
    """`numbers`: name, least and greatest of an option."""
    def draw(rng):
        options = {key: real(rng, least, most) for key, least, most in numbers}
        few = flag(rng)

        def x(shape):
            values = 2 * normal(*shape)
            if few:
                for value in EXTREMES:
                    values.view(-1)[rng.randrange(values.numel())] = value
            return values
        return Draw(make(*options.values()), {"type": name, **options}, anything(rng), x=x)
    return draw


class Nearest(nn.Upsample):
    """With scale_factor, PyTorch copies an axis that keeps its size and repeats one that doubles, whatever the factor:
    backward, and forward with channels last. Its other forward pass does not, and is not the adjoint of its backward."""

    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))


def resize(rng):
    shape, mode = image(rng, 2), rng.choice(["nearest", "bilinear"])
    corners = mode == "bilinear" and flag(rng)
    o = {"type": "upsample", "mode": mode, "align_corners": corners}
    more = {"align_corners": corners} if mode == "bilinear" else {}
    if flag(rng):
        o["size"] = pair(rng, 1, 9)
        return Draw(nn.Upsample(size=o["size"], mode=mode, **more), o, shape)
    o["scale_factor"] = rng.uniform(max(0.3, 1 / min(shape[2:])), 3.7)
    return Draw((Nearest if mode == "nearest" else nn.Upsample)(scale_factor=o["scale_factor"], mode=mode, **more), o, shape)


def unflatten(rng):
    shape, size = [batch(rng)], [rng.randint(1, 4) for _ in range(3)]
    return Draw(nn.Unflatten(1, size), {"type": "unflatten", "channels": size[0], "size": size[1:]},
                shape + [math.prod(size)])


def gelu_tanh(rng):
    return Draw(nn.GELU(approximate="tanh"), {"type": "gelu", "approximate": "tanh"}, anything(rng))


def prelu(rng):
    shape, init = anything(rng), real(rng, -1, 1)
    count = rng.choice([1, shape[1]])
    return Draw(nn.PReLU(count, init), {"type": "prelu", "num_parameters": count, "init": init}, shape, sums=True)


def softmax(name, make):
    def draw(rng):
        shape = anything(rng)
        axis = rng.randint(1, min(3, len(shape) - 1))
        return Draw(make(axis), {"type": name, "axis": axis}, shape,
                    x=lambda shape: rng.choice([1, 4, 16]) * normal(*shape))
    return draw


def dropout_eval(rng):
    name, make = rng.choice([("dropout", nn.Dropout), ("channel_dropout", nn.Dropout2d)])
    p = real(rng, 0.0625, 0.9375)
    return Draw(make(p), {"type": name, "p": p}, image(rng), train=False)


def pad(mode):
    def draw(rng):
        shape = image(rng, 2)
        most = [n - 1 if mode == "reflect" else 3 for n in shape[2:]]
        height = [rng.randint(0, most[0]), rng.randint(0, most[0])]
        width = [rng.randint(0, most[1]), rng.randint(0, most[1])]
        o = {"type": "pad2d", "height": height, "width": width, "mode": mode}
        around = (*width, *height)
        if mode == "constant":
            o["value"] = real(rng, -2, 2)
            return Draw(nn.ConstantPad2d(around, o["value"]), o, shape)
        return Draw((nn.ReflectionPad2d if mode == "reflect" else nn.ReplicationPad2d)(around), o, shape)
    return draw


def upsample(mode, corners=None):
    def draw(rng):
        shape, scale = image(rng, 1, 5), pair(rng, 1, 4)
        o = {"type": "upsample", "scale": scale, "mode": mode, "align_corners": bool(corners)}
        return Draw(nn.Upsample(scale_factor=tuple(scale), mode=mode, align_corners=corners), o, shape)
    return draw


# ---- nets ----------------------------------------------------------------------------------------

class Residual(nn.Module):
    def __init__(self, body, projection=None):
        super().__init__()
        self.body = body
        if projection is not None:
            self.projection = projection

    def forward(self, x):
        return self.body(x) + (self.projection(x) if hasattr(self, "projection") else x)


class Concat(nn.ModuleList):
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


class Chain:
    """A sequence that grows by modules and by Stride's layers at once."""

    def __init__(self, rng, channels, height, width):
        self.rng, self.channels, self.size = rng, channels, [height, width]
        self.modules, self.layers = [], []

    def add(self, module, **layer):
        self.modules.append(module)
        self.layers.append(layer)
        return self

    def sequence(self):
        return nn.Sequential(*self.modules), {"type": "sequence", "layers": self.layers}

    def branch(self):
        return Chain(self.rng, self.channels, *self.size)

    def conv(self, filters=None, kernel=None, stride=1):
        """Keeps the size where the stride is 1."""
        filters, kernel = filters or self.rng.randint(2, 6), kernel or self.rng.choice([1, 3, 5])
        self.add(nn.Conv2d(self.channels, filters, kernel, stride, kernel // 2), type="conv2d",
                 out_channels=filters, kernel=[kernel] * 2, stride=[stride] * 2, padding=[kernel // 2] * 2)
        self.channels, self.size = filters, [(n - 1) // stride + 1 for n in self.size]
        return self

    def batchnorm(self):
        return self.add(nn.BatchNorm2d(self.channels), type="batchnorm")

    def activation(self):
        name, make = self.rng.choice([("relu", nn.ReLU), ("silu", nn.SiLU), ("gelu", nn.GELU),
                                      ("tanh", nn.Tanh)])
        return self.add(make(), type=name)

    def pool(self):
        if min(self.size) < 2:
            return self
        self.size = [n // 2 for n in self.size]
        if flag(self.rng):
            return self.add(nn.MaxPool2d(2), type="maxpool", kernel=[2, 2])
        return self.add(nn.AvgPool2d(2), type="avgpool", kernel=[2, 2])

    def residual(self):
        """With or without a projection, of one layer or of a sequence."""
        if flag(self.rng):
            body = self.branch().conv(self.channels)
            if flag(self.rng):
                body.batchnorm().activation().conv(self.channels)
            module, layer = body.sequence() if len(body.layers) > 1 else (body.modules[0], body.layers[0])
            return self.add(Residual(module), type="residual", layers=[layer])
        filters, stride = self.rng.randint(2, 5), self.rng.randint(1, 2)
        body = self.branch().conv(filters, 3, stride).batchnorm().activation().conv(filters, 3)
        projection = self.branch().conv(filters, 1, stride)
        (b, b_layer), (p, p_layer) = body.sequence(), (projection.modules[0], projection.layers[0])
        self.channels, self.size = filters, body.size
        return self.add(Residual(b, p), type="residual", layers=[b_layer, p_layer])

    def concat(self):
        branches = [self.branch().conv(kernel=1), self.branch().conv(kernel=3).activation().conv(kernel=3)]
        if flag(self.rng):
            branches.append(self.branch().add(nn.Identity(), type="identity"))
        self.rng.shuffle(branches)
        pairs = [b.sequence() for b in branches]
        self.channels = sum(b.channels for b in branches)
        return self.add(Concat([m for m, _ in pairs]), type="concat", layers=[layer for _, layer in pairs])

    def head(self):
        inputs, outputs = self.channels * math.prod(self.size), self.rng.randint(2, 10)
        self.add(nn.Flatten(), type="flatten")
        return self.add(nn.Linear(inputs, outputs), type="dense", out_features=outputs)


def chain(*blocks):
    """A net of random blocks, by the names of Chain's methods."""
    def draw(rng):
        images, channels, size = rng.randint(4, 9), rng.randint(1, 4), pair(rng, 4, 9)
        c = Chain(rng, channels, *size)
        for block in blocks:
            for name in block.split():
                getattr(c, name)()
        return Draw(nn.Sequential(*c.modules), c.layers, [images, channels, *size],
                    train=rng.random() < 0.7, batches=2, sums=True)
    return draw


def rounded(dtype, draw):
    """With parameters that this dtype holds exactly too."""
    def again(rng):
        drawn = draw(rng)
        drawn.dtype = dtype
        return drawn
    return again


def sequence(rng):
    blocks = ["conv", "conv batchnorm activation", "conv activation pool", "residual activation", "concat"]
    return chain(*[rng.choice(blocks) for _ in range(rng.randint(1, 3))], "head")(rng)


NETS = {
    "conv2d_one_sided": conv_one_sided,
    "conv2d": conv,
    "conv_transpose2d": conv_transpose,
    "maxpool2d": maxpool,
    "avgpool2d": avgpool,
    "lppool2d": lppool,
    "adaptive_avgpool2d": adaptive_avgpool,
    "global_pool": global_pool,
    "linear": linear,
    "batchnorm1d": batchnorm1d,
    "batchnorm2d": batchnorm2d,
    "batchnorm_eval": batchnorm_eval,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "groupnorm": groupnorm,
    "instancenorm": instancenorm,
    "relu": activation("relu", nn.ReLU),
    "relu6": activation("relu6", nn.ReLU6),
    "leaky_relu": activation("leaky_relu", nn.LeakyReLU, ("slope", 0.0625, 0.75)),
    "elu": activation("elu", nn.ELU, ("alpha", 0.125, 2)),
    "selu": activation("selu", nn.SELU),
    "gelu": activation("gelu", nn.GELU),
    "gelu_tanh": gelu_tanh,
    "resize": resize,
    "unflatten": unflatten,
    "hardtanh": activation("hardtanh", nn.Hardtanh, ("min_val", -3, -0.125), ("max_val", 0.125, 3)),
    "prelu": prelu,
    "silu": activation("silu", nn.SiLU),
    "mish": activation("mish", nn.Mish),
    "sigmoid": activation("sigmoid", nn.Sigmoid),
    "tanh": activation("tanh", nn.Tanh),
    "softplus": activation("softplus", nn.Softplus),
    "softsign": activation("softsign", nn.Softsign),
    "hardsigmoid": activation("hardsigmoid", nn.Hardsigmoid),
    "hardswish": activation("hardswish", nn.Hardswish),
    "softmax": softmax("softmax", nn.Softmax),
    "log_softmax": softmax("log_softmax", nn.LogSoftmax),
    "dropout_eval": dropout_eval,
    "flatten": lambda rng: Draw(nn.Flatten(), {"type": "flatten"}, anything(rng)),
    "identity": lambda rng: Draw(nn.Identity(), {"type": "identity"}, anything(rng)),
    "constant_pad2d": pad("constant"),
    "reflection_pad2d": pad("reflect"),
    "replication_pad2d": pad("replicate"),
    "upsample_nearest": upsample("nearest"),
    "upsample_bilinear": upsample("bilinear", False),
    "upsample_bilinear_corners": upsample("bilinear", True),
    "residual": chain("residual"),
    "concat": chain("concat"),
    "sequence": sequence,
    "conv_batchnorm_dense": chain("conv batchnorm activation pool", "head"),
    "conv_batchnorm_dense_half": rounded(torch.float16, chain("conv batchnorm activation pool", "head")),
    "conv_batchnorm_dense_bfloat16": rounded(torch.bfloat16, chain("conv batchnorm activation pool", "head")),
}


def begin(draw):
    """Parameters and states that hide nothing: no scale of 1, no mean of 0."""
    draw.module.double().train(draw.train)
    with torch.no_grad():
        for p in draw.module.parameters():
            p.copy_(exact(normal(*p.shape) / math.sqrt(p.numel() / p.shape[0])))
        for name, state in draw.module.named_buffers():
            if name.endswith("running_mean"):
                state.copy_(normal(*state.shape))
            elif name.endswith("running_var"):
                state.copy_(exact(0.5 + torch.rand(*state.shape)))
        for value in [*draw.module.parameters(), *states(draw.module).values()]:
            value.copy_(value.to(draw.dtype))


def states(module):
    return {n: s for n, s in module.named_buffers() if not n.endswith("num_batches_tracked")}


def noise(draw, tensors):
    """How far rounding moves each tensor of a net's case: the condition of the case.

    PyTorch in float32, from inputs moved by up to a unit in the last place, against the tensors in double: the largest
    distance of an element. The median of five runs is taken, as one may cross a kink."""
    def moved(name):
        t = tensors[name].detach()
        return (t * (1 + 2.0**-23 * (2 * torch.rand(t.shape, dtype=torch.float64) - 1))).float()

    def once():
        module = copy.deepcopy(draw.module).float()
        with torch.no_grad():
            for name, value in [*module.named_parameters(), *states(module).items()]:
                value.copy_(moved("before/" + name))
                value.grad = None
        found = {}
        for i in range(2):
            if f"x.{i}" in tensors:
                x = moved(f"x.{i}").requires_grad_()
                y = module(x)
                y.backward(moved(f"dy.{i}"))
                found.update({f"y.{i}": y, f"dx.{i}": x.grad})
        found.update({"gradient/" + n: p.grad for n, p in module.named_parameters()})
        found.update({"after/" + n: s for n, s in states(module).items()})
        return {n: float((t.detach().double() - tensors[n].detach()).abs().max()) for n, t in found.items()}

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        runs = [once() for _ in range(5)]
    return {n: sorted(r[n] for r in runs)[2] for n in runs[0]}


def run(rng, draw):
    """All tensors of a case; None where it would prove nothing, or PyTorch's answer is not a number."""
    module, tensors = draw.module, {}
    for name, value in [*module.named_parameters(), *states(module).items()]:
        tensors["before/" + name] = value.detach().clone()
    for i in range(draw.batches or rng.randint(1, 2)):
        shape = list(draw.shape)
        if i > 0 and shape[0] > 4:
            shape[0] -= 1  # a smaller batch than the net was built for
        x = draw.x(shape).requires_grad_()
        y = module(x)
        dy = normal(*y.shape)
        y.backward(dy)
        tensors.update({f"x.{i}": x, f"y.{i}": y.clone(), f"dy.{i}": dy, f"dx.{i}": x.grad})
    tensors.update({"gradient/" + n: p.grad for n, p in module.named_parameters()})
    tensors.update({"after/" + n: s for n, s in states(module).items()})
    sound = all(t.isfinite().all() for t in tensors.values()) and all(
        t.any() for n, t in tensors.items() if n.startswith(("y.", "dx.", "gradient/")))
    return tensors if sound else None


def make_net(kind, rng):
    while True:
        draw = NETS[kind](rng)
        torch.manual_seed(rng.getrandbits(31))
        begin(draw)
        tensors = run(rng, draw)
        if tensors:
            break
    architecture = {"input": list(tensors["x.0"].shape[1:]), "layers": draw.layers}
    return draw, tensors, {"kind": "net", "architecture": json.dumps(architecture),
                           "noise": json.dumps(noise(draw, tensors)),
                           "mode": "train" if draw.train else "infer", "sums": "yes" if draw.sums else "no",
                           "layout": "nhwc" if tensors["x.0"].dim() == 4 and flag(rng) else "nchw"}


# ---- losses --------------------------------------------------------------------------------------

def cross_entropy(rng):
    images, classes = rng.randint(1, 12), rng.randint(2, 10)
    smoothing = rng.choice([0, real(rng, 0.0625, 0.9375)])
    y, target = rng.choice([1, 10, 100]) * normal(images, classes), torch.randint(classes, (images,))
    if smoothing == 0 and flag(rng):  # masked: a class that is not the target
        y[0, (target[0] + 1) % classes] = -math.inf
    return {"smoothing": smoothing}, nn.CrossEntropyLoss(label_smoothing=smoothing), y, target


def class_weights(rng, classes):
    return 0.25 + torch.rand(classes).double() if flag(rng) else None


def pixels(rng):
    """Outputs [N, K, ...] and classes [N, ...], of which those of one class may be ignored."""
    images, classes, area = rng.randint(1, 4), rng.randint(2, 6), rng.choice([[], [3], [2, 4], [2, 1, 3]])
    y, target = rng.choice([1, 10]) * normal(images, classes, *area), torch.randint(classes, (images, *area))
    ignored = rng.choice([-100, rng.randrange(classes)])
    target.view(-1)[0] = 0 if ignored != 0 else 1  # one counts
    return y, target, ignored, class_weights(rng, classes)


def cross_entropy_of_pixels(rng):
    y, target, ignored, weight = pixels(rng)
    smoothing = rng.choice([0, real(rng, 0.0625, 0.9375)])
    return ({"smoothing": smoothing, "ignore": ignored, "weight": weight},
            nn.CrossEntropyLoss(weight, ignore_index=ignored, label_smoothing=smoothing), y, target)


def nll(rng):
    y, target, ignored, weight = pixels(rng)
    return ({"ignore": ignored, "weight": weight}, nn.NLLLoss(weight, ignore_index=ignored),
            torch.log_softmax(y, 1), target)


def cross_entropy_of_probabilities(rng):
    y, _, _, weight = pixels(rng)
    smoothing = rng.choice([0, real(rng, 0.0625, 0.9375)])
    return ({"smoothing": smoothing, "weight": weight}, nn.CrossEntropyLoss(weight, label_smoothing=smoothing),
            y, torch.softmax(normal(*y.shape), 1))


def mse(rng):
    shape = anything(rng)
    return {}, nn.MSELoss(), normal(*shape), normal(*shape)


def huber(rng):
    shape, delta = anything(rng), real(rng, 0.125, 3)
    return {"delta": delta}, nn.HuberLoss(delta=delta), 2 * normal(*shape), normal(*shape)


def bce_with_logits(rng):
    shape = anything(rng)
    target = torch.rand(*shape).double() if flag(rng) else torch.randint(2, shape).double()
    weight = 0.25 + torch.rand(shape[-1]).double() if flag(rng) else None
    return ({"weight": weight}, nn.BCEWithLogitsLoss(pos_weight=weight), rng.choice([1, 10, 200]) * normal(*shape),
            target)


LOSSES = {"cross_entropy": cross_entropy, "cross_entropy_of_pixels": cross_entropy_of_pixels,
          "cross_entropy_of_probabilities": cross_entropy_of_probabilities, "nll": nll, "mse": mse, "huber": huber,
          "bce_with_logits": bce_with_logits}


def make_loss(kind, rng):
    torch.manual_seed(rng.getrandbits(31))
    options, loss, y, target = LOSSES[kind](rng)
    weight = options.pop("weight", None)
    y = y.detach().requires_grad_()
    value = loss(y, target)
    value.backward()
    return ({"y": y, "target": target.double(), "value": value.reshape(1), "dy": y.grad,
             **({} if weight is None else {"class_weight": weight})},
            {"kind": "loss", "name": kind, "options": json.dumps(options)})


# ---- optimizers ----------------------------------------------------------------------------------

STEPS = 20


def sgd(rng):
    o = {"lr": real(rng, 0.0625, 0.5), "momentum": rng.choice([0, real(rng, 0.5, 0.9375)]),
         "weight_decay": rng.choice([0, real(rng, 0.0625, 0.25)])}
    if o["momentum"]:
        o.update(rng.choice([{}, {"nesterov": True}, {"dampening": real(rng, 0.0625, 0.5)}]))
    return o, lambda w: torch.optim.SGD(w, **o)


def adam(make):
    def draw(rng):
        if rng.random() < 0.3:  # the defaults of both
            return {}, make
        o = {"lr": real(rng, 0.0625, 0.25), "beta1": real(rng, 0.5, 0.9375), "beta2": real(rng, 0.75, 0.996),
             "epsilon": rng.choice([1e-8, 0.0625]), "weight_decay": rng.choice([-0.0, real(rng, 0.0625, 0.25)])}
        decay = o["weight_decay"]  # -0.0 is ST_ZERO: no decay, where 0 would be the default
        return o, lambda w: make(w, o["lr"], (o["beta1"], o["beta2"]), o["epsilon"], decay)
    return draw


def rmsprop(rng):
    if rng.random() < 0.2:
        return {}, torch.optim.RMSprop
    o = {"lr": real(rng, 0.0625, 0.25), "alpha": real(rng, 0.75, 0.9375),
         "epsilon": rng.choice([1e-8, 0.0625]), "momentum": rng.choice([0, real(rng, 0.25, 0.75)]),
         "weight_decay": rng.choice([0, real(rng, 0.0625, 0.25)]), "centered": flag(rng)}
    given = {key: value for key, value in o.items() if key != "epsilon"}
    return o, lambda w: torch.optim.RMSprop(w, eps=o["epsilon"], **given)


OPTIMIZERS = {"sgd": sgd, "adam": adam(torch.optim.Adam), "adamw": adam(torch.optim.AdamW),
              "rmsprop": rmsprop}


def make_optimizer(kind, rng):
    torch.manual_seed(rng.getrandbits(31))
    options, make = OPTIMIZERS[kind](rng)
    w = normal(rng.randint(1, 12)).requires_grad_()
    optimizer, rates, changes = make([w]), [], flag(rng)
    base = optimizer.param_groups[0]["lr"]
    gradients, path = normal(STEPS, w.numel()), [w.detach().clone()]
    for g in gradients:
        rates.append(base * (real(rng, 0.25, 1) if changes else 1))
        optimizer.param_groups[0]["lr"] = rates[-1]
        w.grad = g.clone()
        optimizer.step()
        path.append(w.detach().clone())
    return ({"base": numbers([base]), "lr": numbers(rates), "g": gradients, "w": torch.stack(path)},
            {"kind": "optimizer", "name": kind, "options": json.dumps(options)})


# ---- schedules -----------------------------------------------------------------------------------

SCHEDULERS = torch.optim.lr_scheduler


def factors(steps, make):
    """A scheduler's factor at each step: the learning rate of an optimizer that begins with 1."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1)
    scheduler, found = make(optimizer), []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()
    return found


def step_schedule(rng, o, steps):
    o.update(every=rng.randint(1, 4), gamma=real(rng, 0.125, 0.9375))
    return factors(steps, lambda opt: SCHEDULERS.StepLR(opt, o["every"] * o["per_epoch"], o["gamma"]))


def cosine_schedule(rng, o, steps):
    o.update(least=rng.choice([0, real(rng, 0.0625, 0.5)]))
    return factors(steps, lambda opt: SCHEDULERS.CosineAnnealingLR(opt, steps, o["least"]))


def one_cycle_schedule(rng, o, steps):
    o.update(rise=real(rng, 0.125, 0.875), divisor=real(rng, 2, 30), final_divisor=real(rng, 2, 100))
    if flag(rng):
        o.update(rise=0, divisor=0, final_divisor=0)
    return factors(steps, lambda opt: SCHEDULERS.OneCycleLR(
        opt, 1, steps, pct_start=o["rise"] or 0.3, div_factor=o["divisor"] or 25,
        final_div_factor=o["final_divisor"] or 1e4, cycle_momentum=False))


def constant_schedule(rng, o, steps):
    return [1.0] * steps


SCHEDULES = {"step": step_schedule, "cosine": cosine_schedule, "one_cycle": one_cycle_schedule,
             "constant": constant_schedule}


def make_schedule(kind, rng):
    """kind: a schedule, or one after a warm-up. Each part is PyTorch's own, the second begun when the first
    has ended."""
    warm = kind.startswith("warmup")
    name = rng.choice([*SCHEDULES]) if warm else kind
    o = {"warmup": rng.randint(1, 15) if warm else 0, "per_epoch": rng.randint(1, 7)}
    after = SCHEDULES[name](rng, o, rng.randint(12, 80))
    first = factors(o["warmup"], lambda opt: SCHEDULERS.LinearLR(opt, 1 / (o["warmup"] + 1), 1, o["warmup"]))
    return ({"factor": numbers(first + after)},
            {"kind": "schedule", "name": name, "options": json.dumps(o)})


# ---- files ---------------------------------------------------------------------------------------

KINDS = {
    **{kind: lambda k, rng: make_net(k, rng)[1:] for kind in NETS},
    **{"loss_" + kind: lambda k, rng: make_loss(k[len("loss_"):], rng) for kind in LOSSES},
    **{"optim_" + kind: lambda k, rng: make_optimizer(k[len("optim_"):], rng) for kind in OPTIMIZERS},
    **{"schedule_" + kind: lambda k, rng: make_schedule(k[len("schedule_"):], rng)
       for kind in ["step", "cosine", "one_cycle", "warmup"]},
}


def seeded(name):
    return random.Random("stride " + name)


# Nets and the dtypes in which their parameters are written.
STATE_DICTS = {"conv_batchnorm_dense": ["F64", "F32"], "residual": ["F64", "F32"],
               "conv_batchnorm_dense_half": ["F64", "F32", "F16"],
               "conv_batchnorm_dense_bfloat16": ["F64", "F32", "BF16"]}


def state_dict(tensors):
    """By PyTorch's own names, with all that it saves, and nothing of Stride's."""
    own = {n[len("before/"):]: t for n, t in tensors.items() if n.startswith("before/")}
    counts = {n[:-len("running_mean")] + "num_batches_tracked": torch.tensor(17)
              for n in own if n.endswith("running_mean")}
    return {**own, **counts}


def write_all(folder, count):
    for kind, make in KINDS.items():
        for i in range(count):
            name = f"{kind}-{i:02}"
            tensors, metadata = make(kind, seeded(name))
            write(os.path.join(folder, name + ".safetensors"), tensors, metadata)
            for dtype in STATE_DICTS.get(kind, []):
                write(os.path.join(folder, f"{name}.{dtype}.state_dict"), state_dict(tensors), {"format": "pt"}, dtype)


# ---- the other way -------------------------------------------------------------------------------

def outputs(module, tensors, x):
    """Does what a user of PyTorch does with Stride's file: build the module, load the tensors by their names."""
    with torch.no_grad():
        for value in [*module.parameters(), *states(module).values()]:
            value.fill_(math.nan)
        module.load_state_dict(tensors)
        return module.eval()(x)


def loads(name, folder):
    tensors, run_by_stride = (read(os.path.join(folder, name + end)) for end in (".saved", ".run"))
    module = make_net(name.rsplit("-", 1)[0], seeded(name))[0].module
    x, y = run_by_stride["x"].double(), run_by_stride["y"]
    relative, absolute = (1e-7, 1e-10) if y.dtype == torch.float64 else (1.3e-6, 1e-5)

    def close():
        scale = max(1, y.abs().max())
        return torch.allclose(outputs(module, tensors, x), y.double(), relative, absolute * scale)

    if not close():
        return "the output differs"
    for value in tensors.values():  # the first; a norm may have none
        value += 0.125
        return "a changed parameter is not noticed" if close() else ""
    return ""


def load_all(folder):
    failed, precision = False, os.path.basename(folder)
    for name in sorted(file[:-len(".saved")] for file in os.listdir(folder) if file.endswith(".saved")):
        try:
            why = loads(name, folder)
        except (KeyError, OSError, RuntimeError) as error:
            why = " ".join(str(error).split())
        print(f"not ok {name}~saved {precision}: {why}" if why else f"ok {name}~saved {precision}")
        failed = failed or bool(why)
    return failed


def main(step=None, *words):
    if step == "write":
        return write_all(words[0], int(words[1]))
    if step == "loads":
        return any([load_all(folder) for folder in words])
    return __doc__


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
