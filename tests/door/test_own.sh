#!/usr/bin/env bash
# Losses, optimizers, schedules, poolings, data sets and callbacks of a program's own: the examples in the headers'
# comments compile and work.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/own
mkdir -p "$tmp"

# HEADER FUNCTION: the example that defines the function: its definitions, and from the first line that begins with st_
# on what uses them.
example() {
    awk -v name="$2" '
        function finish() { if (has) { printf "%s", block; exit } block = "" }
        !/^ [*]     / { finish(); next }
        {
            line = $0
            ended = sub(/ [*]\/$/, "", line)
            sub(/^ [*]     /, "", line)
            block = block line "\n"
            if (line ~ "^static .*[ *]" name "[(]") has = 1
            if (ended) finish()
        }' "$1" >"$tmp/example"
    sed '/^st_/,$d' "$tmp/example" >"$tmp/$2.function.h"
    sed -n '/^st_/,$p' "$tmp/example" | grep -v ', \.\.\.,' >"$tmp/$2.use.h"
}
example nn/loss.h pinball
example nn/optim.h lion_step
example nn/schedule.h inverse_root
example nn/data.h line
example nn/train.h average
example layers/pool.h power_mean

if $CC $CFLAGS -O0 -Wall -Werror -I"$tmp" tests/door/own.c "$LIB" $LIBS -pthread -o "$tmp/own" >"$tmp/log" 2>&1; then "$tmp/own"
else
    cat "$tmp/log"
    echo "not ok the examples in the headers' comments compile"
    exit 1
fi
