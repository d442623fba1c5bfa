#!/bin/sh
# lines.sh ANNEX...: lines of code, lines of comments and all lines (blank ones, too), room by room, and annex by annex.
#
# The engine is the core without the families of layers. The next row leaves out the families of losses, optimizers
# and schedules, too. The path is what one reads of a training step, from st_train to the product of matrices: the files
# of its calls, those that they load a batch and windows by, and what they share; `lines.sh path` prints their names.
path="nn/train.c nn/step.c nn/train_impl.h nn/net.c layers/layer_impl.h layers/run.c layers/sequence.c layers/conv.c layers/window.c tensor/gemm.c"
[ "${1:-}" != path ] || { echo "$path"; exit; }
count() { # NAME FILE...
    name=$1
    shift
    cat /dev/null "$@" | awk -v name="$name" '
        /^[[:space:]]*$/                                         { next }
        inside                                                   { comments++; if (/\*\//) inside = 0; next }
        /^[[:space:]]*\/\*/                                      { comments++; if (!/\*\//) inside = 1; next }
        /^[[:space:]]*(\/\/|# |#$|#!)/                           { comments++; next }
                                                                 { code++ }
        END { printf "%-18s %7d %9d %7d\n", name, code, comments, NR }'
}
c() { # FOLDER...: the C files that lie in them directly, but for the one that make writes
    for folder; do
        for file in "$folder"/*.[ch]; do [ ! -f "$file" ] || [ "$file" = tensor/names.h ] || echo "$file"; done
    done
}

annexes=$*
all='-type f ( -name *.[ch] -o -name *.sh -o -name *.py -o -name *.js -o -name *.awk -o -name *.mk -o -name *.txt )'
printf '%-18s %7s %9s %7s\n' room code comments lines
set -f # patterns are find's
found() { # shellcheck disable=SC2086
    find "$@" $all
}
set +f
once=
# shellcheck disable=SC2046
command -v python3 >/dev/null && once=$(tests/tools/called_once.py $(c tensor layers nn | grep 'c$'))
# shellcheck disable=SC2046,SC2086
{
    for room in tensor layers nn; do count $room $(c $room); done
    count core $(c tensor layers nn)
    engine="$(c tensor nn) $(for part in layer layer_impl plan build run sequence options types; do ls layers/$part.[ch]; done 2>/dev/null)"
    count "  its engine" $engine
    count "  without families" $(echo "$engine" | grep -vE 'nn/(losses|losses_impl|optimizers|optimizers_impl|schedules)\.')
    count "  path of a step" $path
    for room in $annexes; do count $room $(c $room); done
    count library $(c tensor layers nn $annexes)
    count examples $(c examples examples/mpi)
    count examples/stride $(c examples/stride)
    count examples/atlas $(c examples/atlas)
    set -f
    count tests $(found tests)
    count Makefile Makefile
    count makefiles $(find . -path ./build -prune -o -name '*.mk' -print)
    count README.md README.md
    [ -z "$once" ] || echo "$once static functions of the core have one caller"
}
