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
exit $failed
