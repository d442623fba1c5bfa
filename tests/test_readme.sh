#!/usr/bin/env bash
# The README's programs compile, run and do what it says; its commands exist.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/readme
mkdir -p "$tmp"
root=$PWD
failed=0

claim() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "ok $name"
    else
        cat "$tmp/log"
        echo "not ok $name"
        failed=1
    fi
}

# The n-th C program of the README.
awk -v dir="$tmp" '/^```c$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > (dir "/program" n ".c") }' README.md

# shellcheck disable=SC2086
build() { # NAME LIBRARY FLAGS...
    local name=$1 library=$2
    shift 2
    $CC $CFLAGS -Wall -Wextra -Werror -Wno-missing-field-initializers "$tmp/$name.c" "$@" "$library" $LIBS -o "$tmp/$name"
}

first_network() {
    build program1 "$LIB" && (cd "$tmp" && ./program1 | tee out && [ -s digits.safetensors ]) &&
        awk '/^accuracy/ { good = $2 >= 0.9 } END { exit !good }' "$tmp/out"
}
first_network_is_short() { [ "$(wc -l <"$tmp/program1.c")" -le 28 ]; }
own_layer() { build program2 "$LIB" && (cd "$tmp" && ./program2 && [ -s square.safetensors ]); }
gradient_check() {
    build program3 "$LIB_DOUBLE" -DSTRIDE_DOUBLE -lcmocka && "$tmp/program3"
}
names_are_targets() {
    local target
    for target in $(grep -oE '^    make [a-z ]+' README.md | sed 's/make//'); do
        grep -qE "^($target|.*\\b$target\\b.*):" "$root/Makefile" || { echo "no target $target"; return 1; }
    done
}
# The layers that the README lists are those of the table, in any order.
layers_are_listed() {
    local name
    for name in $(grep -o 'layer_type_[a-z0-9_]*' layers/types.c | sed 's/layer_type_//' | sort -u); do
        grep -E '^\| layers' README.md | grep -qw "$name" || { echo "not listed: $name"; return 1; }
    done
}

claim "the first network trains and saves" first_network
claim "the first network is short" first_network_is_short
claim "a layer of your own trains and saves" own_layer
claim "the gradient check passes" gradient_check
claim "the commands are targets" names_are_targets
claim "every layer is listed" layers_are_listed
exit $failed
