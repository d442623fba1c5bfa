"""Shows an st_tensor in gdb as NumPy does: dtype, shape, strides and elements, of any view.

    (gdb) source tensor/print/stride-gdb.py
    (gdb) print x
    $1 = float32 [2, 3], strides (3, 1), offset 0
    [[1 2 3]
     [4 5 6]]
"""
import gdb

EDGE, SUMMARY_ABOVE = 3, 1000  # as NumPy: elements shown at each end, where there are more than 1000


class Tensor:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        storage = self.value["storage"]
        if int(storage) == 0:
            return "null tensor"
        shape = self.value["shape"]
        rank = int(shape["rank"])
        sizes = [int(shape["n"][i]) for i in range(rank)]
        strides = [int(self.value["stride"][i]) for i in range(rank)]
        offset, data = int(self.value["offset"]), storage["data"]
        element = data.type.target().strip_typedefs()
        count = 1
        for size in sizes:
            count *= size

        def shown(size):
            if count <= SUMMARY_ABOVE or size <= 2 * EDGE:
                return list(range(size))
            return [*range(EDGE), None, *range(size - EDGE, size)]

        def rows(axis, at):
            if axis == rank:
                return "%.6g" % float(data[at])
            parts = ["..." if i is None else rows(axis + 1, at + i * strides[axis]) for i in shown(sizes[axis])]
            gap = " " if axis == rank - 1 else "\n" * (rank - 1 - axis) + " " * (axis + 1)
            return "[" + gap.join(parts) + "]"

        name = "float32" if element.sizeof == 4 else "float64"
        words = "%s %s, strides (%s), offset %d" % (name, sizes, ", ".join(map(str, strides)), offset)
        return words + "\n" + (rows(0, offset) if count else "[]")


def printer(value):
    kind = value.type.strip_typedefs()
    return Tensor(value) if kind.code == gdb.TYPE_CODE_STRUCT and kind.tag == "st_tensor" else None


gdb.pretty_printers.append(printer)
