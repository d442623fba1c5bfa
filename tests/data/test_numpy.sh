#!/usr/bin/env bash
# NumPy's arrays become tensors and tensors NumPy's arrays, every number of them: in all dtypes, byte orders, orders of
# axes and versions of the format. Skipped where no python3 has NumPy.
set -u
. tests/tools/claims.sh
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/numpy
mkdir -p "$tmp"

python=
for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import numpy' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "skip numpy: no ${PYTHON:-python3} imports numpy (Debian: python3-numpy)"
    exit 0
fi

cat >"$tmp/copy.c" <<'END'
/* copy IN OUT...: reads each array and writes it. */
#include "tensor/error.h"
#include "nn/data/formats.h"

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc && !st_error(); i += 2) {
        st_tensor x = st_npy_load(argv[i]);
        st_npy_save(argv[i + 1], x);
        st_tensor_free(x);
    }
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    return st_error() != NULL;
}
END

cat >"$tmp/arrays.py" <<'END'
"""arrays.py write FOLDER           NAME.npy in FOLDER: what Stride should be able to read
arrays.py compare FOLDER DTYPE   NAME.npy.copy is NAME.npy rounded to DTYPE"""
import glob
import sys

import numpy as np
from numpy.lib import format as npy

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (5, 1, 2, 3), (4, 0, 2), (1, 2, 1, 2, 1, 2, 1, 2)]


def write(folder):
    random = np.random.default_rng(3)
    number = 0

    def put(array, version=None):
        nonlocal number
        number += 1
        with open(f"{folder}/{number:03}.npy", "wb") as file:
            npy.write_array(file, array, version=version)

    for code in DTYPES:
        for shape in SHAPES:
            bits = random.integers(0, 256, int(np.prod(shape)) * int(code[1]), dtype=np.uint8)
            for order in "<>":
                array = bits.view(order + code).reshape(shape)
                put(array)
                put(np.asfortranarray(array), version=(2, 0))
    put(np.arange(1 << 16, dtype="u2").view("f2"))  # every float16 there is
    put(np.arange(12).reshape(3, 4).T % 5 > 1)
    put(np.asfortranarray(np.linspace(0, 1, 10000).reshape(10, 1000)), version=(3, 0))
    put(np.array([0, 2**53 + 1, -2**63, 2**63 - 1, 2**24 + 1, 2**24 + 3]))
    np.save(f"{folder}/save.npy", np.arange(100000, dtype="f4").reshape(1000, 100)[::2, ::-1])


def compare(folder, dtype):
    names = sorted(glob.glob(f"{folder}/*.npy"))
    assert len(names) > 300, len(names)
    for name in names:
        array, copy = np.load(name), np.load(name + ".copy")
        with np.errstate(over="ignore", invalid="ignore"):
            expected = array.astype(dtype)
        assert copy.dtype == dtype and copy.shape == array.shape, (name, copy.dtype, copy.shape, array.shape)
        assert copy.flags.c_contiguous, name
        same = (copy == expected) | (np.isnan(copy) & np.isnan(expected))
        assert same.all() and (np.signbit(copy) == np.signbit(expected))[~np.isnan(copy)].all(), \
            (name, array.dtype, array.shape, copy[~same][:3], expected[~same][:3])


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    compare(sys.argv[2], np.dtype(sys.argv[3]))
END

# shellcheck disable=SC2086,SC2317
both_ways() { # DTYPE LIBRARY FLAGS...
    local dtype=$1 library=$2 pairs=() name
    shift 2
    $CC $CFLAGS "$@" "$tmp/copy.c" "$library" $LIBS -o "$tmp/copy_$dtype" || return
    rm -f "$tmp"/arrays/*.copy
    for name in "$tmp"/arrays/*.npy; do pairs+=("$name" "$name.copy"); done
    "$tmp/copy_$dtype" "${pairs[@]}" && "$python" "$tmp/arrays.py" compare "$tmp/arrays" "$dtype"
}

mkdir -p "$tmp/arrays"
claim "NumPy writes the arrays" "$python" "$tmp/arrays.py" write "$tmp/arrays"
claim "arrays are read and written in float32" both_ways float32 "$LIB"
claim "arrays are read and written in float64" both_ways float64 "$LIB_DOUBLE" -DSTRIDE_DOUBLE
exit $failed
