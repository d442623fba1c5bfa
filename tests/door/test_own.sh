#!/usr/bin/env bash
# Losses, optimizers, schedules, pooling functions, data sets and callbacks of a program's own: the examples in the headers'
# comments compile and work.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/own
mkdir -p "$tmp"

# HEADER FUNCTION: the example's function, and what follows it in the comment up to its end.
example() {
    awk -v name="$2" '
        $0 ~ "^ [*]     static .*[ *]" name "[(]" { on = 1 }
        on == 2 && !/^ [*]     / { exit }
        on { line = $0; ended = sub(/ [*]\/$/, "", line); sub(/^ [*]     /, "", line); print on, line; if (line == "}") on = 2; if (ended) exit }
    ' "$1" >"$tmp/example"
    sed -n 's/^1 //p' "$tmp/example" >"$tmp/$2.function.h"
    sed -n 's/^2 //p' "$tmp/example" | grep -v ', \.\.\.,' >"$tmp/$2.use.h"
}
example nn/loss.h pinball
example nn/optim.h lion
example nn/schedule.h inverse_root
example nn/data.h line
example nn/train.h average
example layers/layers.h power_mean

if $CC $CFLAGS -O0 -Wall -Werror -I"$tmp" tests/door/own.c "$LIB" $LIBS -pthread -o "$tmp/own" >"$tmp/log" 2>&1; then "$tmp/own"
else
    cat "$tmp/log"
    echo "not ok the examples in the headers' comments compile"
    exit 1
fi
