#!/usr/bin/env bash
# gdb's printer shows tensors as st_print does.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/gdb
. tests/tools/claims.sh
skip_sanitized "gdb: a sanitizer's program does not run in it"
mkdir -p "$tmp"
command -v gdb >/dev/null || { echo "skip gdb: it is not installed"; exit 0; }
gdb -batch -ex 'python import math, struct' 2>&1 | grep -q . && { echo "skip gdb: it has no Python"; exit 0; }

cat >"$tmp/print.c" <<'END'
#include <stride.h>
#include <math.h>

/* gdb stops here and prints x, too. */
__attribute__((noinline)) static void show(st_tensor x)
{
    st_print(stdout, x);
    puts("\n--");
}

static st_tensor of(st_shape s, const double *numbers)
{
    st_tensor x = st_tensor_new(s);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)numbers[k];
    return x;
}

int main(void)
{
    const double small[] = { 1, 2.5, -3, 0.125, 5, 6 }, mixed[] = { 0.1, 1e-9, NAN, INFINITY, -2e5, 1.0 / 3 };
    st_tensor a = of(ST_SHAPE(2, 3), small), wide = of(ST_SHAPE(2, 3), mixed), large = st_tensor_new(ST_SHAPE(60, 20));
    for (ptrdiff_t k = 0; k < st_numel(large); k++) st_data(large)[k] = (st_real)(k % 100);
    show(a);
    show(wide);
    show(st_transpose(a, 0, 1));
    show(st_flip(st_select(a, 0, 1), 0));
    show(st_expand(st_select(a, 0, 0), ST_SHAPE(4, 3)));
    show(st_reshape(st_tensor_new(ST_SHAPE(16)), ST_SHAPE(2, 2, 2, 2)));
    show(large);
    show(st_tensor_new(ST_SHAPE(0, 3)));
    show((st_tensor){ 0 });
    return st_error() != NULL;
}
END
prints_alike() { # LIBRARY FLAG...
    local library=$1
    shift
    # shellcheck disable=SC2086
    $CC $CFLAGS -g -O0 "$@" "$tmp/print.c" "$library" $LIBS -o "$tmp/print" && "$tmp/print" >"$tmp/expected" || return
    # gdb's messages about breakpoints show x, too: the printer's text goes to files of its own.
    gdb -batch -ex "source tensor/print/stride-gdb.py" -ex "break show" -ex "python
import gdb
gdb.execute('run >$tmp/nothing', to_string=True)
with open('$tmp/got', 'w') as got, open('$tmp/heads', 'w') as heads:
    while gdb.selected_inferior().pid:
        text = gdb.execute('print x', to_string=True).split('= ', 1)[1].rstrip()
        head, _, body = text.partition('\\n') if text.startswith('float') else ('', '', text)
        heads.write(head + '\\n')
        got.write(body + '\\n--\\n')
        gdb.execute('continue', to_string=True)" "$tmp/print" >"$tmp/said" 2>&1
    [ -s "$tmp/got" ] && grep -qx 'float.. \[3\], strides (-1), offset 5' "$tmp/heads" &&
        grep -qx 'float.. \[4, 3\], strides (0, 1), offset 0' "$tmp/heads" || { cat "$tmp/said"; return 1; }
    diff "$tmp/expected" "$tmp/got"
}
if gdb -batch -ex run true 2>&1 | grep -q 'exited normally'; then
    claim "gdb shows tensors as st_print does" prints_alike "$LIB"
    claim "and those of double" prints_alike "$LIB_DOUBLE" -DSTRIDE_DOUBLE
else
    echo "skip gdb: it may not run a program here"
fi
exit $failed
