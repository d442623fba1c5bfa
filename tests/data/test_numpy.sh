#!/usr/bin/env bash
# NumPy's arrays become tensors and tensors NumPy's arrays, every number of them: in all dtypes, byte orders, orders of
# axes and versions of the format. Skipped where no python3 has NumPy.
set -u
. tests/tools/claims.sh
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/numpy
mkdir -p "$tmp"

python=
for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    "$candidate" -c 'import numpy' >/dev/null 2>&1 && python=$candidate && break
done
if [ -z "$python" ]; then
    echo "skip numpy: no ${PYTHON:-python3} imports numpy (Debian: python3-numpy)"
    exit 0
fi

cat >"$tmp/copy.c" <<'END_OF_C'
/* copy FILE...: reads each array and writes it to FILE.copy. */
#include <stride.h>

int main(int argc, char **argv)
{
    char copy[4096];
    for (int i = 1; i < argc && !st_error(); i++) {
        st_tensor x = st_npy_load(argv[i]);
        snprintf(copy, sizeof copy, "%s.copy", argv[i]);
        st_npy_save(copy, x);
        st_tensor_free(x);
    }
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    return st_error() != NULL;
}
END_OF_C

cat >"$tmp/arrays.py" <<'END_OF_PYTHON'
"""arrays.py FOLDER PROGRAM DTYPE: what the program copies is the same, rounded to DTYPE."""
import subprocess
import sys

import numpy as np
from numpy.lib import format as npy

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (5, 1, 2, 3), (4, 0, 2), (1, 2, 1, 2, 1, 2, 1, 2)]
folder, program, dtype = sys.argv[1:]
random = np.random.default_rng(3)
arrays = [(np.arange(1 << 16, dtype="u2").view("f2"), None),  # every float16 there is
          (np.arange(12).reshape(3, 4).T % 5 > 1, None),
          (np.asfortranarray(np.linspace(0, 1, 10000).reshape(10, 1000)), (3, 0)),
          (np.array([0, 2**53 + 1, -2**63, 2**63 - 1, 2**24 + 1, 2**24 + 3]), None),
          (np.arange(100000, dtype="f4").reshape(1000, 100)[::2, ::-1], None)]
for code in DTYPES:
    for shape in SHAPES:
        bits = random.integers(0, 256, int(np.prod(shape)) * int(code[1]), dtype=np.uint8)
        for order in "<>":
            array = bits.view(order + code).reshape(shape)
            arrays += [(array, None), (np.asfortranarray(array), (2, 0))]
names = [f"{folder}/{i}.npy" for i in range(len(arrays))]
for name, (array, version) in zip(names, arrays):
    with open(name, "wb") as file:
        npy.write_array(file, array, version=version)
subprocess.run([program, *names], check=True)
for name, (array, _) in zip(names, arrays):
    copy = np.load(name + ".copy")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = array.astype(dtype)
    assert copy.dtype == dtype and copy.shape == array.shape and copy.flags.c_contiguous, name
    same = (copy == expected) | (np.isnan(copy) & np.isnan(expected))
    assert same.all() and (np.signbit(copy) == np.signbit(expected))[~np.isnan(copy)].all(), (name, array.dtype)
END_OF_PYTHON

# shellcheck disable=SC2086,SC2317
both_ways() { # DTYPE LIBRARY FLAGS...
    local dtype=$1 library=$2
    shift 2
    $CC $CFLAGS "$@" "$tmp/copy.c" "$library" $LIBS -o "$tmp/copy_$dtype" &&
        "$python" "$tmp/arrays.py" "$tmp" "$tmp/copy_$dtype" "$dtype"
}

claim "arrays are read and written in float32" both_ways float32 "$LIB"
claim "arrays are read and written in float64" both_ways float64 "$LIB_DOUBLE" -DSTRIDE_DOUBLE
exit $failed
