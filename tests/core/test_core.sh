#!/usr/bin/env bash
# The core alone, which `make core` builds, trains to the bits of the whole library's reference engine.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/core
. tests/tools/claims.sh
skip_sanitized "the core alone: a sanitizer's build optimises otherwise"
mkdir -p "$tmp"

same_bits() {
    make CC="$CC" BUILD="$tmp/build" core || return 1
    STRIDE_ENGINE=reference "$CNN" >"$tmp/expected" && diff "$tmp/expected" "$tmp/build/core/bits"
}
claim "tensor/, layers/ and nn/ alone train to the bits of the reference engine" same_bits
differs() { ! STRIDE_ENGINE=generic "$CNN" | diff -q "$tmp/expected" - >/dev/null; }
claim "another engine comes to other bits, so the comparison can fail" differs
# Several micro-batches come to other bits, and are what nn/ranks/ adds to the core.
parts_are_refused() {
    "$CNN" 2 >"$tmp/parts" || { cat "$tmp/parts"; return 1; }
    ! "$tmp/build/core/float/tests/core/cnn" 2 >"$tmp/refusal" &&
        grep -q 'train: micro_batches is 2, expected 1 and no ranks: this library is without nn/ranks/$' "$tmp/refusal" ||
        { cat "$tmp/refusal"; return 1; }
}
claim "the core refuses micro-batches in one line, and the whole library takes them" parts_are_refused
exit $failed
