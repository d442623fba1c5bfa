"""Shows an st_tensor in gdb as st_print and NumPy do, below its dtype, shape, strides and offset: any view, and also
in a core file, since it calls no function of the program.

    (gdb) source tensor/print/stride-gdb.py
    (gdb) print x
    $1 = float32 [2, 3], strides (3, 1), offset 0
    [[1.  2.5 3. ]
     [4.  5.  6. ]]
"""
import math
import struct

import gdb

EDGE, SUMMARY_ABOVE, PRECISION = 3, 1000, 8  # as in print.c


class Numbers:
    """The texts of numbers that are shown together."""

    def __init__(self, kind, numbers):
        self.kind = kind
        sizes = [abs(x) for x in numbers if math.isfinite(x) and x != 0] or [1]
        self.form = "e" if max(sizes) >= 1e8 or min(sizes) < 1e-4 or max(sizes) / min(sizes) > 1000 else "f"
        self.digits = max([self.fewest(x) for x in numbers if math.isfinite(x)] or [0])
        self.width = max(len(self.padded(x)) for x in numbers)

    def fewest(self, x):
        """Digits after the point: the fewest that read back as x."""
        for digits in range(PRECISION + 1):
            if struct.pack(self.kind, float("%.*{}".format(self.form) % (digits, x))) == struct.pack(self.kind, x):
                return digits
        text = ("%.*{}".format(self.form) % (PRECISION, x)).split("e")[0]
        return len(text.rstrip("0").split(".")[1])

    def padded(self, x):
        """Aligned at the point, with blanks in place of zeros."""
        if not math.isfinite(x):
            return str(x)
        digits = self.digits if self.form == "e" else self.fewest(x)
        return "%#.*{}".format(self.form) % (digits, x) + " " * (self.digits - digits)

    def text(self, x):
        return self.padded(x).rjust(self.width)


class Tensor:
    def __init__(self, value):
        self.value = value

    def shown(self, size):
        """Indices of an axis; None stands for those that are left out."""
        if self.count <= SUMMARY_ABOVE or size <= 2 * EDGE:
            return list(range(size))
        return [*range(EDGE), None, *range(size - EDGE, size)]

    def places(self, axis, at):
        if axis == self.rank:
            return [at]
        return [p for i in self.shown(self.sizes[axis]) if i is not None
                for p in self.places(axis + 1, at + i * self.strides[axis])]

    def rows(self, axis, at, numbers):
        if axis == self.rank:
            return numbers.text(float(self.data[at]))
        parts = ["..." if i is None else self.rows(axis + 1, at + i * self.strides[axis], numbers)
                 for i in self.shown(self.sizes[axis])]
        gap = " " if axis == self.rank - 1 else "\n" * (self.rank - 1 - axis) + " " * (axis + 1)
        return "[" + gap.join(parts) + "]"

    def to_string(self):
        storage, shape = self.value["storage"], self.value["shape"]
        if int(storage) == 0:
            return "null"
        self.rank, self.data, offset = int(shape["rank"]), storage["data"], int(self.value["offset"])
        self.sizes = [int(shape["n"][i]) for i in range(self.rank)]
        self.strides = [int(self.value["stride"][i]) for i in range(self.rank)]
        self.count = math.prod(self.sizes)
        single = self.data.type.target().strip_typedefs().sizeof == 4
        head = "%s %s, strides (%s), offset %d\n" % ("float32" if single else "float64", self.sizes,
                                                     ", ".join(map(str, self.strides)), offset)
        if self.count == 0:
            return head + "[]"
        numbers = Numbers("f" if single else "d", [float(self.data[p]) for p in self.places(0, offset)])
        return head + self.rows(0, offset, numbers)


def printer(value):
    kind = value.type.strip_typedefs()
    return Tensor(value) if kind.code == gdb.TYPE_CODE_STRUCT and kind.tag == "st_tensor" else None


gdb.pretty_printers.append(printer)
