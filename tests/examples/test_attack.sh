#!/usr/bin/env bash
# One in thirteen of the runs of `make attack`.
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}
. tests/tools/claims.sh
skip_sanitized "hostile surroundings: a sanitizer's shadow needs more memory than they leave"
claim "stride in hostile surroundings" env STRIDE_FAST=1 "$ATTACK" "$BIN/stride" "$tmp/attack"
grep '^skip' "$tmp/log"
exit $failed
