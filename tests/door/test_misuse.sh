#!/usr/bin/env bash
# Every exported function is called with NULL, null tensors, zeroed structs and extreme numbers in every place: it latches
# an error and neither crashes, hangs nor prints. The calls are made from the headers, so that a new function is called.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/misuse
. tests/tools/claims.sh
root=$PWD
mkdir -p "$tmp/away"
cd "$tmp/away" || exit 1
command -v python3 >/dev/null || { echo "skip misuse of every function: python3 is not installed"; exit 0; }

# Warnings about allocations that fail go elsewhere.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0:allocator_may_return_null=1:log_path=$tmp/report"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:log_path=$tmp/report"
misuse() { # FLAG...
    rm -f "$tmp"/report*
    $CC $CFLAGS "$@" -E "$root/stride.h" | python3 "$root/tests/door/misuse.py" >calls.h &&
        $CC $CFLAGS -O0 -w "$@" ${SANITIZE:+-DMISUSE_SANITIZED} -D_DEFAULT_SOURCE -I. "$root/tests/door/misuse.c" "$library" $LIBS \
            -pthread -o misuse && ./misuse || { cat "$tmp"/report* 2>/dev/null | head -n 40; tail -n 20 "$tmp/log"; return 1; }
}
# The generator knows the functions that the headers declare, as another parser finds them.
complete() {
    awk -f "$root/tests/tools/symbols.awk" $(cd "$root" && make -s headers | tr ' ' '\n' | sed "s|^|$root/|") |
        awk '$2 == "function" { print $3 }' | sort -u >declared
    sed -n 's/^    case 0: (void)\(st_[a-z0-9_]*\)(.*/\1/p' calls.h | sort >called
    diff declared called && [ "$(grep -c . called)" -gt 150 ]
}
library=$LIB
claim "no function crashes, hangs or prints when it is misused" misuse
claim "every function that a header declares is called" complete
library=$LIB_DOUBLE
claim_in_double "nor in double" misuse -DSTRIDE_DOUBLE
exit $failed
