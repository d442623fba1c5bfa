"""ONNX's own cases of the operators that are Stride's layers and losses, as files for parity.c; those of tensors and
optimizers are in onnx_tensors.py.

    onnx_cases.py DATA FOLDER     the cases under DATA (Debian's libonnx-testdata) in FOLDER; "skip NAME: why" for others

Nothing can be overlooked: a case with an attribute or an input that was not asked for, or with an output that is not
compared, is skipped. A case along one axis is an image one row high."""
import glob
import json
import math
import os
import sys

import onnx
import torch
from onnx import helper, numpy_helper

import onnx_tensors
from cases import numbers, write
from onnx_skip import Skip, needs


def load(path):
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


class Case:
    def __init__(self, model, data):
        graph, node = model.graph, model.graph.node[0]
        self.operator = node.op_type
        self.version = next((o.version for o in model.opset_import if not o.domain), 1)
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        open_inputs = [i.name for i in graph.input if i.name not in values]
        values.update({name: load(f"{data}/input_{k}.pb") for k, name in enumerate(open_inputs)})
        outputs = {o.name: load(f"{data}/output_{k}.pb") for k, o in enumerate(graph.output)}
        self.inputs = {i: values[name] for i, name in enumerate(node.input) if name}
        self.outputs = {i: outputs[name] for i, name in enumerate(node.output) if name}
        self.node_outputs = list(self.outputs)

    def has(self, i):
        return i in self.inputs

    def number(self, i, default=None):
        value = self.inputs.pop(i, None)
        if value is None:
            return default
        needs(value.dtype in ("float32", "float64"), f"{value.dtype} tensors")
        return torch.tensor(value, dtype=torch.float64)

    def integers(self, i, attribute):
        """Newer versions read them from an input, older ones from an attribute; None: left out."""
        value = self.inputs.pop(i, None)
        return self.get(attribute, None) if value is None else [int(v) for v in value.flatten()]

    def get(self, name, default):
        value = self.attributes.pop(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def output(self, i=0):
        return torch.tensor(self.outputs.pop(i), dtype=torch.float64)

    def axis(self, default, rank):
        axis = self.get("axis", default)
        return axis + rank if axis < 0 else axis

    def check_complete(self):
        for what, left in (("attribute", self.attributes), ("input", self.inputs), ("output", self.outputs)):
            needs(not left, f"{self.operator}'s {what} {next(iter(left), '')}")


def net(layer, x, y, parameters=None, train=False):
    tensors = {"x.0": x, "y.0": y, **{"before/0." + n: p for n, p in (parameters or {}).items() if p is not None}}
    architecture = {"input": list(x.shape[1:]), "layers": [layer]}
    return tensors, {"kind": "net", "architecture": json.dumps(architecture), "mode": "train" if train else "infer"}


# ---- element by element --------------------------------------------------------------------------

def elementwise(c, kind, **options):
    """A layer's x has an axis of images."""
    x = c.number(0)
    x = x.reshape(x.shape or (1,))
    return net({"type": kind, **options}, x, c.output().reshape(x.shape))


def plain(kind):
    return lambda c: elementwise(c, kind)


def selu(c):
    alpha, gamma = c.get("alpha", 1.6732632423543772), c.get("gamma", 1.0507009873554805)
    needs(abs(alpha - 1.6732632423543772) + abs(gamma - 1.0507009873554805) < 1e-6, "Selu with factors of its own")
    return elementwise(c, "selu")


def hard_sigmoid(c):
    slope = abs(c.get("alpha", 0.2) - 1 / 6) + abs(c.get("beta", 0.5) - 0.5)
    needs(slope < 1e-6, "HardSigmoid with another slope than 1/6")
    return elementwise(c, "hardsigmoid")


def clip(c):
    low, high = c.number(1, c.get("min", -1e30)), c.number(2, c.get("max", 1e30))
    needs(low < high, "Clip to one number")
    return elementwise(c, "hardtanh", min_val=float(low) or -0.0, max_val=float(high) or -0.0)  # -0.0: 0, no default


def prelu(c):
    """The slope is broadcast to x's last axes: those after its own are one, and those before it are images."""
    x, slope = c.number(0), c.number(1)
    rank = max([i for i, n in enumerate(reversed(slope.shape)) if n == 1 and
                all(m == 1 for m in slope.shape[slope.dim() - i:])], default=-1) + 1
    shape = (-1, slope.numel(), math.prod(x.shape[x.dim() - rank:]))
    return net({"type": "prelu", "num_parameters": slope.numel()}, x.reshape(shape), c.output().reshape(shape),
               {"weight": slope.flatten()})


def dropout(c):
    """In training its numbers are a generator's own, but with a ratio of 0 it draws none."""
    c.get("seed", 0)
    ratio = float(c.number(1, c.get("ratio", 0.5)))
    train = bool(c.inputs.pop(2, False)) and c.version >= 12
    needs(not train or ratio == 0, "Dropout in training: another generator's numbers")
    return net({"type": "dropout", "p": ratio}, c.number(0), c.output(), train=train)


def softmax(kind):
    """Behind an axis of one image, so that any axis will do. Before version 13 all axes from this one on are one."""
    def make(c):
        x, y = c.number(0), c.output()
        axis = c.axis(-1 if c.version >= 13 else 1, x.dim())
        shape = (1, *x.shape) if c.version >= 13 else (1, *x.shape[:axis], math.prod(x.shape[axis:]))
        return net({"type": kind, "axis": axis + 1}, x.reshape(shape), y.reshape(shape))
    return make


def flatten(c):
    """From the first axis on it is the layer, elsewhere a new shape."""
    rank = c.inputs[0].ndim
    if c.attributes.get("axis", 1) % rank != 1:
        return onnx_tensors.new_shape(onnx_tensors.flattened)(c)
    c.get("axis", 1)
    return net({"type": "flatten"}, c.number(0), c.output())


# ---- products and norms --------------------------------------------------------------------------

def dense(a, b, bias, y):
    return net({"type": "dense", "out_features": b.shape[1], "no_bias": bias is None}, a, y,
               {"weight": b.t(), "bias": bias})


def gemm(c):
    """y = alpha a b + beta c: a dense layer where c is a row."""
    a, b, bias = c.number(0), c.number(1), c.number(2)
    alpha, beta = c.get("alpha", 1.0), c.get("beta", 1.0)
    a, b = a.t() if c.get("transA", 0) else a, alpha * (b.t() if c.get("transB", 0) else b)
    c.get("broadcast", 1)
    if bias is not None:
        needs(bias.numel() in (1, b.shape[1]) and bias.shape[:-1].numel() == 1, "Gemm with a matrix to be added")
        bias = beta * bias.flatten().expand(b.shape[1])
    return dense(a, b, bias, c.output())


def matmul(c):
    if c.inputs[0].ndim > 2:
        return onnx_tensors.matmul(c)
    return dense(c.number(0), c.number(1), None, c.output())


def batchnorm(c):
    x, names = c.number(0), ("weight", "bias", "running_mean", "running_var")
    c.get("momentum", 0.9), c.get("consumed_inputs", 0)
    needs(c.get("is_test", 1) and not c.get("training_mode", 0), "BatchNormalization's biased running variance")
    needs(c.get("spatial", 1), "BatchNormalization over the batch alone")
    return net({"type": "batchnorm", "epsilon": c.get("epsilon", 1e-5)}, x, c.output(),
               {name: c.number(1 + i) for i, name in enumerate(names)})


def instance_norm(c):
    x = c.number(0)
    c.get("consumed_inputs", 0)
    return net({"type": "groupnorm", "groups": x.shape[1], "epsilon": c.get("epsilon", 1e-5)}, x, c.output(),
               {"weight": c.number(1), "bias": c.number(2)})


def layer_norm(c):
    """Its moments, further outputs, the layer keeps to itself."""
    x, weight, y = c.number(0), c.number(1), c.output()
    axes = x.dim() - c.axis(-1, x.dim())
    c.get("stash_type", 1), c.outputs.clear()
    return net({"type": "layernorm", "axes": axes, "epsilon": c.get("epsilon", 1e-5)}, x.unsqueeze(0), y.unsqueeze(0),
               {"weight": weight, "bias": c.number(2, torch.zeros_like(weight))})


def mean_variance_norm(c):
    """Over batch, height and width: batch normalisation in training, without parameters."""
    x = c.number(0)
    needs(c.get("axes", [0, 2, 3]) == [0, 2, 3] and x.dim() == 4, "MeanVarianceNormalization over other axes")
    return net({"type": "batchnorm", "no_affine": True, "epsilon": 1e-9}, x, c.output(),
               {"running_mean": torch.zeros(x.shape[1]), "running_var": torch.ones(x.shape[1])}, train=True)


# ---- windows -------------------------------------------------------------------------------------

def image(c, x):
    needs(x.dim() in (3, 4), f"{c.operator} along {x.dim() - 2} axes")
    return x.unsqueeze(2) if x.dim() == 3 else x


def pair(c, name, default):
    """An attribute with a number an axis; a case of one axis has the image's width."""
    given = list(c.get(name, []))
    return [default] * (2 - len(given)) + given


def shared(total, more_after):
    """The sum of both paddings, of which an odd one is before or after."""
    total = max(0, total)
    return [total // 2, total - total // 2] if more_after else [total - total // 2, total // 2]


def windows(c, x, kernel=None):
    """Options, and the padding before and after of either axis."""
    given = pair(c, "kernel_shape", 1)
    kernel = kernel or given
    stride, dilation = pair(c, "strides", 1), pair(c, "dilations", 1)
    pads, how = list(c.get("pads", [0, 0])), c.get("auto_pad", "NOTSET")
    sides = [[0, 0]] * (2 - len(pads) // 2) + [[pads[i], pads[i + len(pads) // 2]] for i in range(len(pads) // 2)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    if how.startswith("SAME") and c.operator != "ConvTranspose":
        sides = [shared((-(-n // s) - 1) * s + r - n, how == "SAME_UPPER")
                 for n, s, r in zip(x.shape[2:], stride, reach)]
    return {"kernel": kernel, "stride": stride, "dilation": dilation}, sides, how, reach


def conv(c):
    x, weight, bias = image(c, c.number(0)), image(c, c.number(1)), c.number(2)
    options, (height, width), _, _ = windows(c, x, list(weight.shape[2:]))
    return net({"type": "conv2d", "out_channels": weight.shape[0], "groups": c.get("group", 1), "no_bias": bias is None,
                "pad_height": height, "pad_width": width, **options}, x, image(c, c.output()),
               {"weight": weight, "bias": bias})


def conv_transpose(c):
    x, weight, bias = image(c, c.number(0)), image(c, c.number(1)), c.number(2)
    options, sides, how, reach = windows(c, x, list(weight.shape[2:]))
    extra, size, groups = pair(c, "output_padding", 0), pair(c, "output_shape", 1), c.get("group", 1)
    sized, y = size != [1, 1], image(c, c.output())
    for i in range(2):
        inner = (x.shape[2 + i] - 1) * options["stride"][i] + reach[i] + extra[i]
        total = inner - (size[i] if sized else x.shape[2 + i] * options["stride"][i])
        if sized or how.startswith("SAME"):
            extra[i] += max(0, -total)
            sides[i] = shared(total, how == "SAME_UPPER")
    needs(all(before == after for before, after in sides), "ConvTranspose with another padding before than after")
    return net({"type": "conv_transpose2d", "out_channels": weight.shape[1] * groups, "groups": groups,
                "padding": [before for before, _ in sides], "output_padding": extra, "no_bias": bias is None,
                **options}, x, y, {"weight": weight, "bias": bias})


def pool(kind):
    def make(c):
        x = image(c, c.number(0))
        options, (height, width), _, _ = windows(c, x)
        options.update(ceil_mode=bool(c.get("ceil_mode", 0)), pad_height=height, pad_width=width)
        if kind == "avgpool":
            options["count_exclude_pad"] = not c.get("count_include_pad", 0)
        c.get("storage_order", 0)  # of the places of the maxima
        return net({"type": kind, **options}, x, image(c, c.output()))
    return make


def global_pool(kind):
    return lambda c: net({"type": kind}, image(c, c.number(0)), image(c, c.output()))


def pad(c):
    """The axes with a border are turned to be height and width."""
    x, pads, y = c.number(0), c.integers(1, "pads"), c.output()
    value, mode, rank = float(c.number(2, c.get("value", 0.0))), c.get("mode", "constant"), x.dim()
    needs(rank <= 4 and len(pads) == 2 * rank and min(pads) >= 0, f"Pad of {rank} axes, or by less than nothing")
    sides = [[0, 0]] * (4 - rank) + [[pads[i], pads[rank + i]] for i in range(rank)]
    bordered = [i for i in range(4) if sides[i] != [0, 0]]
    needs(len(bordered) <= 2, "Pad of more than two axes")
    bordered = sorted([i for i in reversed(range(4)) if i not in bordered][:2 - len(bordered)] + bordered)
    order = [i for i in range(4) if i not in bordered] + bordered
    turned = [t.reshape([1] * (4 - rank) + list(t.shape)).permute(order) for t in (x, y)]
    return net({"type": "pad2d", "height": sides[order[2]], "width": sides[order[3]], "value": value,
                "mode": {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[mode]}, *turned)


def resized(c, x, scale, size, floors, **options):
    """`floors`: the nearest pixel is the one below; with whole scales, any rule says the same."""
    whole = scale[2] == int(scale[2]) and scale[3] == int(scale[3])
    needs(scale[0] == scale[1] == 1, f"{c.operator} of batch or channels")
    if whole:
        options["scale"] = [int(scale[2]), int(scale[3])]
    else:
        needs(options["mode"] != "nearest" or floors, f"{c.operator} to the nearest pixel's centre by {scale[2]}")
        needs(size or not options["align_corners"], "align_corners with an output of a fraction of a pixel")
        needs(size or scale[2] == scale[3], f"{c.operator} by scales of {scale[2]} and {scale[3]}")
        options.update({"size": size[2:]} if size else {"scale_factor": scale[2]})
    return net({"type": "upsample", **options}, x, c.output())


def upsample(c):
    x, scale = c.number(0), c.number(1).tolist()
    needs(x.dim() == 4 and c.get("mode", "nearest") == "nearest", "Upsample of other than images, or by another mode")
    return resized(c, x, scale, None, True, mode="nearest", align_corners=False)


def resize(c):
    """With a whole scale s, pixel i of the result is at (i + 1/2)/s - 1/2 of the image; the nearest is i/s rounded
    down, whichever way halves are rounded, as no place is half way between two unless s is even and the grid starts at
    the corner ("asymmetric"), where rounding down says it outright."""
    mode, place = c.get("mode", "nearest"), c.get("coordinate_transformation_mode", "half_pixel")
    nearest, x = c.get("nearest_mode", "round_prefer_floor"), c.number(0)
    middle = place in ("half_pixel", "pytorch_half_pixel")
    needs(mode != "cubic", "Resize by cubic interpolation")
    needs(mode != "linear" or middle or place == "align_corners", f"linear Resize with {place}")
    needs(mode == "linear" or (middle and nearest.startswith("round")) or (place, nearest) == ("asymmetric", "floor"),
          f"nearest Resize with {place} and {nearest}")
    needs(x.dim() == 4, "Resize of other than images")
    c.inputs.pop(1, None)  # the region of interest: only tf_crop_and_resize has one
    size = c.integers(3, "sizes")
    scale = c.number(2, numbers([])).tolist()
    if size:
        scale = [n / m for n, m in zip(size, x.shape)]
        needs(place != "pytorch_half_pixel" or 1 not in size[2:], "pytorch_half_pixel of one pixel")
    return resized(c, x, scale, size, place == "asymmetric", mode="bilinear" if mode == "linear" else "nearest",
                   align_corners=place == "align_corners")


# ---- losses --------------------------------------------------------------------------------------

def class_loss(name):
    """The weighted mean. A sum is the mean times the sum of the weights, and so is the sum of each position's loss."""
    def make(c):
        y, weight, target = c.number(0), c.number(2), torch.tensor(c.inputs.pop(1), dtype=torch.int64)
        ignored, reduction, value = c.get("ignore_index", -100), c.get("reduction", "mean"), c.output().sum()
        counted = target[target != ignored]
        total = counted.numel() if weight is None else weight[counted].sum()
        tensors = {"y": y, "target": target.double(), "value": (value / (1 if reduction == "mean" else total)).reshape(1)}
        made = [(tensors | ({} if weight is None else {"class_weight": weight}),
                 {"kind": "loss", "name": name, "options": json.dumps({"ignore": ignored})})]
        if 1 in c.outputs:
            made.append(net({"type": "log_softmax", "axis": 1}, y, c.output(1)))
        return made
    return make


OPERATORS = {
    "Relu": plain("relu"), "Sigmoid": plain("sigmoid"), "HardSwish": plain("hardswish"), "Tanh": plain("tanh"),
    "Softplus": plain("softplus"), "Softsign": plain("softsign"), "Identity": plain("identity"), "Selu": selu,
    "LeakyRelu": lambda c: elementwise(c, "leaky_relu", slope=c.get("alpha", 0.01)),
    "Elu": lambda c: elementwise(c, "elu", alpha=c.get("alpha", 1.0)),
    "HardSigmoid": hard_sigmoid, "Clip": clip, "PRelu": prelu, "Dropout": dropout, "Flatten": flatten,
    "Softmax": softmax("softmax"), "LogSoftmax": softmax("log_softmax"), "Gemm": gemm, "MatMul": matmul,
    "BatchNormalization": batchnorm, "InstanceNormalization": instance_norm, "LayerNormalization": layer_norm,
    "MeanVarianceNormalization": mean_variance_norm, "Conv": conv, "ConvTranspose": conv_transpose,
    "MaxPool": pool("maxpool"), "AveragePool": pool("avgpool"), "GlobalMaxPool": global_pool("maxpool"),
    "GlobalAveragePool": global_pool("avgpool"), "Pad": pad, "Upsample": upsample, "Resize": resize,
    "SoftmaxCrossEntropyLoss": class_loss("cross_entropy"), "NegativeLogLikelihoodLoss": class_loss("nll"),
    **onnx_tensors.OPERATORS,
}


def cases_of(path):
    """Those of every data set of a model."""
    needs(os.path.exists(path + "/model.onnx"), "its model is not in the package")
    model = onnx.load(path + "/model.onnx")
    needs(len(model.graph.node) == 1, "a model of several nodes")
    values = [*model.graph.input, *model.graph.output]
    needs(all(v.type.HasField("tensor_type") for v in values), "sequences and optional values")
    operator = model.graph.node[0].op_type
    needs(operator in OPERATORS, f"no such operation: {operator}")
    made = []
    for data in sorted(glob.glob(path + "/test_data_set_*")):
        case = Case(model, data)
        found = OPERATORS[operator](case)
        case.check_complete()
        made += found if isinstance(found, list) else [found]
    return made


def main(data, folder):
    for path in sorted(glob.glob(data + "/*/*")):
        name = os.path.relpath(path, data).replace("/", "~")
        try:
            for i, (tensors, metadata) in enumerate(cases_of(path)):
                write(f"{folder}/{name}{f'-{i}' if i else ''}.safetensors", tensors, metadata | {"tolerance": "onnx"})
        except Skip as why:
            print(f"skip {name}: {why}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
