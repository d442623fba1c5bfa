"""ONNX's cases of tensor operators and optimizers, for onnx_cases.py.

An operator becomes a program of what Stride does with views (tensors.c): a list of steps, each with the name of the
tensor that it makes. Nothing is computed here but shapes."""
import json
import math

import torch

from onnx_skip import needs


class Program:
    """Steps, and the tensors that they begin with. A value is a name and a shape."""

    def __init__(self):
        self.steps, self.tensors, self.made = [], {}, 0

    def given(self, tensor):
        name = f"x.{len(self.tensors)}"
        self.tensors[name] = tensor
        return name, list(tensor.shape)

    def do(self, what, of=None, by=None, shape=None, **more):
        """A value of that shape, new unless `to` names one that is written into."""
        to = more.pop("to", None)
        if to is None:
            self.made += 1
            to = (f"t.{self.made}", shape)
        step = {"do": what, "to": to[0], **({"of": of[0]} if of else {}), **({} if by is None else {"by": by}), **more}
        self.steps.append(step)
        return to

    def permute(self, x, order):
        return self.do("permute", x, order, [x[1][i] for i in order])

    def reshape(self, x, shape):
        return self.do("reshape", x, list(shape), list(shape))

    def expand(self, x, shape):
        return self.do("expand", x, list(shape), list(shape))

    def narrow(self, x, axis, start, length):
        return self.do("narrow", x, [axis, start, length], [*x[1][:axis], length, *x[1][axis + 1:]])

    def step(self, x, axis, by):
        return self.do("step", x, [axis, by], [*x[1][:axis], -(-x[1][axis] // abs(by)), *x[1][axis + 1:]])

    def copy(self, x):
        return self.do("copy", x, shape=x[1])

    def zeros(self, shape):
        return self.do("zeros", by=list(shape), shape=list(shape))

    def reduce(self, what, x, axes, keep):
        """Over no axis means over all in the library, so that these are named."""
        y = self.do(what, x, list(axes), [n for i, n in enumerate(x[1]) if i not in axes])
        return self.reshape(y, [1 if i in axes else n for i, n in enumerate(x[1])]) if keep else y

    def case(self, *results):
        """Each result is a value and what it should be."""
        for i, (value, expected) in enumerate(results):
            self.do("reshape", value, list(value[1]), to=(f"y.{i}", value[1]))
            self.tensors[f"expected/y.{i}"] = expected
        return self.tensors, {"kind": "tensors", "program": json.dumps(self.steps)}


def axis_of(value, rank):
    return value + rank if value < 0 else value


def axes_of(c, rank, at=1):
    given = c.integers(at, "axes")
    return None if given is None else sorted(axis_of(a, rank) for a in given)


# ---- shapes --------------------------------------------------------------------------------------

def transpose(c):
    p = Program()
    x = p.given(c.number(0))
    return p.case((p.permute(x, list(c.get("perm", reversed(range(len(x[1])))))), c.output()))


def new_shape(find):
    def make(c):
        p = Program()
        x = p.given(c.number(0))
        return p.case((p.reshape(x, find(c, x[1])), c.output()))
    return make


def reshaped(c, shape):
    sizes, zero = c.integers(1, "shape"), c.get("allowzero", 0)
    sizes = [shape[i] if n == 0 and not zero else n for i, n in enumerate(sizes)]
    rest = math.prod(n for n in sizes if n >= 0)
    return [math.prod(shape) // rest if n < 0 else n for n in sizes]


def flattened(c, shape):
    axis = c.axis(1, len(shape))
    return [math.prod(shape[:axis]), math.prod(shape[axis:])]


def squeezed(c, shape):
    axes = axes_of(c, len(shape))
    return [n for i, n in enumerate(shape) if (n != 1 if axes is None else i not in axes)]


def unsqueezed(c, shape):
    given = c.integers(1, "axes")
    rank, left = len(shape) + len(given), iter(shape)
    return [1 if i in {axis_of(a, rank) for a in given} else next(left) for i in range(rank)]


def expand(c):
    p = Program()
    x = p.given(c.number(0))
    return p.case((p.expand(x, torch.broadcast_shapes(x[1], c.integers(1, "shape"))), c.output()))


def tile(c):
    """[a, b] repeated [p, q] times is [p, a, q, b] with p and q of stride 0."""
    p = Program()
    x, times = p.given(c.number(0)), c.integers(1, "repeats")
    needs(2 * len(times) <= 8, f"Tile of {len(times)} axes")
    once = p.reshape(x, [n for size in x[1] for n in (1, size)])
    often = p.copy(p.expand(once, [n for pair in zip(times, x[1]) for n in pair]))
    return p.case((p.reshape(often, [t * n for t, n in zip(times, x[1])]), c.output()))


def depth_to_space(c):
    p = Program()
    x, b, first = p.given(c.number(0)), c.get("blocksize", 1), c.get("mode", "DCR") == "DCR"
    n, channels, h, w = x[1]
    d = channels // (b * b)
    cut = p.reshape(x, [n, b, b, d, h, w] if first else [n, d, b, b, h, w])
    turned = p.copy(p.permute(cut, [0, 3, 4, 1, 5, 2] if first else [0, 1, 4, 2, 5, 3]))
    return p.case((p.reshape(turned, [n, d, h * b, w * b]), c.output()))


def space_to_depth(c):
    p = Program()
    x, b = p.given(c.number(0)), c.get("blocksize", 1)
    n, channels, h, w = x[1]
    cut = p.do("split_axis", x, [3, b], [n, channels, h, w // b, b])
    cut = p.do("split_axis", cut, [2, b], [n, channels, h // b, b, w // b, b])
    turned = p.copy(p.permute(cut, [0, 3, 5, 1, 2, 4]))
    return p.case((p.reshape(turned, [n, b * b * channels, h // b, w // b]), c.output()))


# ---- parts ---------------------------------------------------------------------------------------

def concat(c):
    p = Program()
    parts = [p.given(c.number(i)) for i in sorted(c.inputs)]
    axis, shape, at = c.axis(1, len(parts[0][1])), list(parts[0][1]), 0
    shape[axis] = sum(part[1][axis] for part in parts)
    y = p.zeros(shape)
    for part in parts:
        p.do("assign", part, to=p.narrow(y, axis, at, part[1][axis]))
        at += part[1][axis]
    return p.case((y, c.output()))


def split(c):
    p = Program()
    x, lengths, at, results = p.given(c.number(0)), c.integers(1, "split"), 0, []
    axis = c.axis(0, len(x[1]))
    for i in sorted(c.outputs):
        length = lengths[i] if lengths else x[1][axis] // len(lengths or c.node_outputs)
        results.append((p.narrow(x, axis, at, length), c.output(i)))
        at += length
    return p.case(*results)


def slices(c):
    """A range, and every step-th element of it, from its end if the step is negative."""
    p = Program()
    x = p.given(c.number(0))
    starts, ends, axes = c.integers(1, "starts"), c.integers(2, "ends"), c.integers(3, "axes")
    steps = c.integers(4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes or range(len(starts)), steps):
        axis = axis_of(axis, len(x[1]))
        taken = range(x[1][axis])[start:end:step]
        low, high = (min(taken), max(taken) + 1) if len(taken) else (0, 0)
        if step < 0 and len(taken):  # the end that is counted from
            low, high = taken[-1], taken[0] + 1
        x = p.step(p.narrow(x, axis, low, high - low), axis, step)
    return p.case((x, c.output()))


# ---- arithmetic ----------------------------------------------------------------------------------

def combine(what, number=None):
    """y = a, then y += number b, or y *= b."""
    def make(c):
        p = Program()
        a, b = p.given(c.number(0)), p.given(c.number(1))
        c.get("broadcast", 0)  # before version 7, with the axis of a that is b's first
        axis = c.get("axis", len(a[1]) - len(b[1]))
        b = p.reshape(b, b[1] + [1] * (len(a[1]) - axis - len(b[1])))
        shape = list(torch.broadcast_shapes(a[1], b[1]))
        y = p.copy(p.expand(a, shape))
        p.do(what, p.expand(b, shape), to=y, **({} if number is None else {"number": number}))
        return p.case((y, c.output()))
    return make


def negate(c):
    p = Program()
    y = p.copy(p.given(c.number(0)))
    p.do("scale", to=y, number=-1.0)
    return p.case((y, c.output()))


def total(mean):
    def make(c):
        p = Program()
        terms = [p.given(c.number(i)) for i in sorted(c.inputs)]
        shape = list(torch.broadcast_shapes(*(t[1] for t in terms)))
        y = p.zeros(shape)
        for term in terms:
            p.do("add", p.expand(term, shape), to=y, number=1.0)
        if mean:
            p.do("scale", to=y, number=1 / len(terms))
        return p.case((y, c.output()))
    return make


def matmul(c):
    """A product of matrices for each index of the axes before theirs."""
    p = Program()
    a, b = p.given(c.number(0)), p.given(c.number(1))
    needs(len(a[1]) >= 2 and len(b[1]) >= 2, "MatMul with a vector")
    before = list(torch.broadcast_shapes(a[1][:-2], b[1][:-2]))
    a, b = p.expand(a, before + a[1][-2:]), p.expand(b, before + b[1][-2:])
    y = p.zeros(before + [a[1][-2], b[1][-1]])
    for index in torch.cartesian_prod(*(torch.arange(n) for n in before)).reshape(-1, len(before)).tolist():
        parts = []
        for part in (y, a, b):
            for axis, i in enumerate(index):
                part = p.narrow(part, axis, i, 1)
            parts.append(p.reshape(part, part[1][len(index):]))
        p.do("product", parts[1], to=parts[0], at=parts[2][0])
    return p.case((y, c.output()))


# ---- reductions ----------------------------------------------------------------------------------

def reduction(what, least=False, squared=False):
    """The least is the negative of the greatest negative."""
    def make(c):
        p = Program()
        x, keep = p.copy(p.given(c.number(0))), c.get("keepdims", 1)
        axes = axes_of(c, len(x[1]))
        none = c.get("noop_with_empty_axes", 0) and not axes
        if squared:
            p.do("multiply", x, to=x)
        if least:
            p.do("scale", to=x, number=-1.0)
        y = x if none else p.reduce(what, x, axes or range(len(x[1])), keep)
        if least:
            p.do("scale", to=y, number=-1.0)
        return p.case((y, c.output()))
    return make


def place_of(least):
    """The last of several is the first one from the other end: it has no place of its own here."""
    def make(c):
        p = Program()
        x, keep, last = p.copy(p.given(c.number(0))), c.get("keepdims", 1), c.get("select_last_index", 0)
        axis = c.axis(0, len(x[1]))
        if least:
            p.do("scale", to=x, number=-1.0)
        y = p.reduce("argmax", p.step(x, axis, -1) if last else x, [axis], keep)
        if last:
            far = p.zeros(y[1])
            one = p.given(torch.full([1] * len(y[1]), x[1][axis] - 1.0, dtype=torch.float64))
            p.do("add", p.expand(one, y[1]), to=far, number=1.0)
            p.do("add", y, to=far, number=-1.0)
            y = far
        return p.case((y, c.output()))
    return make


# ---- scattering ----------------------------------------------------------------------------------

def scatter(c, find):
    needs(c.get("reduction", "none") == "add", f"{c.operator} that overwrites or multiplies")
    p = Program()
    y = p.copy(p.given(c.number(0)))
    index, updates = torch.tensor(c.inputs.pop(1), dtype=torch.int64), p.given(c.number(2))
    places = find(index, y[1], updates[1])
    needs(len(places) <= 512, "more places than a step has")
    p.do("scatter", updates, places, to=y)
    return p.case((y, c.output()))


def scatter_elements(c):
    """Each element of the updates stays at its place but for one axis, whose index is given."""
    def find(index, shape, _):
        axis = c.axis(0, len(shape))
        index = torch.where(index < 0, index + shape[axis], index)
        places = torch.cartesian_prod(*(torch.arange(n) for n in index.shape)).reshape(-1, index.dim())
        places[:, axis] = index.flatten()
        return places.flatten().tolist()
    return scatter(c, find)


def scatter_nd(c):
    """The last axis of the indices names a place of y's first axes; all of the others are added there."""
    def find(index, shape, _):
        rows, rest = index.reshape(-1, index.shape[-1]).tolist(), shape[index.shape[-1]:]
        inner = torch.cartesian_prod(*(torch.arange(n) for n in rest)).reshape(-1, len(rest)).tolist() if rest else [[]]
        return [i for row in rows for one in inner for i in row + one]
    return scatter(c, find)


# ---- optimizers ----------------------------------------------------------------------------------

def update(states, options):
    """Rate and step, then all parameters, all gradients and all of each state. A case is of step 0."""
    def make(c):
        rate, step = float(c.number(0)), int(c.inputs.pop(1))
        needs(step == 0, f"{c.operator} after step 0")
        made, each = [], len(c.inputs) // (2 + states)
        settings = {"lr": rate, **options(c)}
        name = settings.pop("name")
        for k in range(each):
            values = [c.number(2 + i * each + k).flatten() for i in range(2 + states)]
            results = [c.output(i * each + k).flatten() for i in range(1 + states)]
            tensors = {"w": values[0], "g": values[1], "after/w": results[0]}
            for i in range(states):
                tensors |= {f"state.{i}": values[2 + i], f"after/state.{i}": results[1 + i]}
            made.append((tensors, {"kind": "update", "name": name, "options": json.dumps(settings)}))
        return made
    return make


def adam(c):
    """Step 0 leaves the bias of the running means alone, as Stride does after very many steps."""
    needs(c.get("norm_coefficient_post", 0) == 0, "Adam's decay after the step")
    epsilon = c.get("epsilon", 0)
    needs(epsilon != 0, "Adam whose model does not tell its epsilon")
    return {"name": "adam", "beta1": c.get("alpha", 0.9), "beta2": c.get("beta", 0.999), "epsilon": epsilon,
            "weight_decay": c.get("norm_coefficient", 0), "taken": 1000000}


def momentum(c):
    """Step 0 takes the gradient whole, later ones beta times it, as dampening does."""
    c.get("beta", 1)
    return {"name": "sgd", "momentum": c.get("alpha", 0), "weight_decay": c.get("norm_coefficient", 0),
            "nesterov": c.get("mode", "") == "nesterov", "taken": 1}


OPERATORS = {
    "Transpose": transpose, "Reshape": new_shape(reshaped), "Squeeze": new_shape(squeezed),
    "Unsqueeze": new_shape(unsqueezed), "Expand": expand, "Tile": tile, "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth, "Concat": concat, "Split": split, "Slice": slices, "Add": combine("add", 1.0),
    "Sub": combine("add", -1.0), "Mul": combine("multiply"), "Neg": negate, "Sum": total(False), "Mean": total(True),
    "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"), "ReduceMax": reduction("max"),
    "ReduceMin": reduction("max", least=True), "ReduceSumSquare": reduction("sum", squared=True),
    "ArgMax": place_of(False), "ArgMin": place_of(True), "ScatterElements": scatter_elements, "ScatterND": scatter_nd,
    "Adam": update(2, adam), "Momentum": update(1, momentum),
}
