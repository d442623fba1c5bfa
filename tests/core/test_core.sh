#!/usr/bin/env bash
# The core alone trains to the bits of the whole library's reference engine. `make core` builds it with a compiler and
# nothing else; here it is linked from the library's objects.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/core
. tests/tools/claims.sh
skip_sanitized "the core alone: a sanitizer's build optimises otherwise"
mkdir -p "$tmp"

same_bits() {
    STRIDE_ENGINE=reference "$CNN" >"$tmp/expected" && "${CNN}_core" | diff "$tmp/expected" -
}
claim "tensor/, layers/ and nn/ alone train to the bits of the reference engine" same_bits
differs() { ! STRIDE_ENGINE=generic "$CNN" | diff -q "$tmp/expected" - >/dev/null; }
claim "another engine comes to other bits, so the comparison can fail" differs
# Threads and the optimizer by vectors stay, to the same bits; a product by BLAS is rounded otherwise.
without_fast() {
    STRIDE_ENGINE=reference "${CNN}_slow" | diff "$tmp/expected" - && STRIDE_THREADS=3 "${CNN}_plain" | diff "$tmp/expected" -
}
claim "the library without layers/fast/ trains to those bits, with any engine if it has no BLAS" without_fast
trains() { "${CNN}_slow" | tee "$tmp/by_blas" | grep -qE '^[0-9a-f]{16}$'; }
claim "without layers/fast/ but with BLAS it trains, too" trains
# Parts of the training loop that annexes add.
parts_are_refused() {
    "$CNN" 2 >"$tmp/parts" || { cat "$tmp/parts"; return 1; }
    ! "${CNN}_core" 2 >"$tmp/refusal" &&
        grep -q 'train: micro_batches is 2, expected 1 and no ranks: this library is without nn/ranks/$' "$tmp/refusal" ||
        { cat "$tmp/refusal"; return 1; }
    "$CNN" 0 '0.*' >"$tmp/groups" || { cat "$tmp/groups"; return 1; }
    ! "${CNN}_core" 0 '0.*' >"$tmp/refusal" &&
        grep -q 'train: groups of parameters are given: this library is without nn/groups/$' "$tmp/refusal" ||
        { cat "$tmp/refusal"; return 1; }
}
claim "the core refuses micro-batches and groups in one line, and the whole library takes them" parts_are_refused
refuses_engines() {
    ! STRIDE_ENGINE=x "${CNN}_core" >"$tmp/refusal" && grep -q 'STRIDE_ENGINE=x: expected reference$' "$tmp/refusal" &&
        STRIDE_ENGINE= "${CNN}_core" | diff "$tmp/expected" -
}
claim "the core has no other engine than the reference" refuses_engines
# What one reads of a step: the calls that a debugger sees in the core, which is compiled without optimisation, and
# their files. There are eight from the loop to the product of matrices. That build is kept between runs.
calls=$(dirname "$(dirname "$LIB")")/calls
calls_to_product() { # HOOK: prints FUNCTION FILE of each call, the innermost first
    STRIDE_ENGINE=reference STRIDE_THREADS=1 gdb -q -batch -ex 'set breakpoint pending on' -ex "tbreak $1" -ex run \
        -ex 'tbreak product' -ex continue -ex 'backtrace 40' "$calls/core/float/tests/core/cnn" 2>&1 |
        sed -nE 's/^#[0-9]+ +(0x[0-9a-f]+ in )?([a-z0-9_]+) \(.* at ([a-z0-9_/]+\.[ch]):[0-9]+$/\2 \3/p' |
        awk '{ print } $1 == "st_train_run" { exit }'
}
path_is_short() {
    local path files
    path=$(tests/tools/lines.sh path)
    make CC="$CC" BUILD="$calls" CFLAGS="-O0 -g" core || return 1
    for hook in conv2d_forward conv2d_backward conv_gradient; do
        calls_to_product $hook >"$tmp/path"
        cat "$tmp/path"
        [ "$(tail -n 1 "$tmp/path")" = "st_train_run nn/train.c" ] && [ "$(lines "$tmp/path")" -le 8 ] || return 1
        for file in $(awk '{ print $2 }' "$tmp/path"); do
            case " $path " in *" $file "*) ;; *) echo "tests/tools/lines.sh has no $file"; return 1 ;; esac
        done
    done
    # shellcheck disable=SC2086
    [ "$(echo $path | wc -w)" -le 10 ] && [ "$(cat $path | wc -l)" -le 1800 ]
}
if ! command -v gdb >/dev/null; then
    echo "skip a step of training: calls to the product of matrices: gdb is not installed"
elif ! gdb -q -batch -ex starti /bin/true 2>&1 | grep -q 'Program stopped'; then
    echo "skip a step of training: calls to the product of matrices: gdb may not run a program here"
else
    claim "a step of training reaches the product of matrices in 8 calls; it is read in 10 files of 1,800 lines" path_is_short
fi
exit $failed
