#!/bin/sh
# flavours.sh blas|engines|msan|valgrind|x86|arm FOLDER PROGRAM...: the test programs with every BLAS, with each engine
# those to which it matters, under the memory sanitizer, under valgrind, and on other processors.
#
# One line for each way: "ok   what: N passed …", "skip what: reason", or "FAIL what: …" after what the programs
# that failed have said. What they say stays in FOLDER. Each way is first shown to be what it is called.
#
#     UNPACKED  where unpack.sh has put packages
#     WAYS      of the ways, only those whose names match it: "openblas-*"
#     CC        compiles what a processor must refuse (x86)
set -u
tools=$(cd "$(dirname "$0")" && pwd)
kind=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2

result() { # program: where it leaves its results, without an ending
    case $1 in
    */double/*) echo "$folder/double/$(basename "$1")" ;;
    *) echo "$folder/float/$(basename "$1")" ;;
    esac
}

if [ "$kind" = one ]; then # PROGRAM COMMAND...
    program=$1
    shift
    case $program in
    */conformance/*) export STRIDE_FAST=1 ;;
    esac
    exec "$tools/run.sh" "$(result "$program")" "$@" "$program"
fi

programs=$*
for example; do [ "$(basename "$example")" != test_gemm ] || break; done # one that needs BLAS
top=$folder
status=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

wanted() { # name
    # shellcheck disable=SC2254
    case $1 in
    ${WAYS:-*}) ;;
    *) return 1 ;;
    esac
}

skip() { # what, reason
    echo "skip $1: $2"
}

# Every program, begun with a command.
under() { # name, what, command...
    folder=$top/$1 what=$2
    shift 2
    began=$(date +%s)
    rm -rf "${folder:?}"
    mkdir -p "$folder/float" "$folder/double"
    # shellcheck disable=SC2086
    printf '%s\n' $programs | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I '{}' \
        "$tools/flavours.sh" one "$folder" '{}' "$@" >"$folder/log" 2>&1
    # shellcheck disable=SC2046
    if total=$("$tools/total.sh" $(for program in $programs; do echo "$(result "$program").count"; done)); then
        echo "ok   $what: $total, $(($(date +%s) - began)) s"
    else
        grep -vE '^ok|^     skip' "$folder/log"
        echo "FAIL $what: $total, $(($(date +%s) - began)) s"
        status=1
    fi
}

# ---- BLAS ----------------------------------------------------------------------------------------

# The file of a package, unpacked or else installed: nothing where there is none.
library() { # end of its path
    for root in "${UNPACKED:-/nowhere}" ""; do
        for file in "$root"/usr/lib/*/"$1"; do
            [ ! -e "$file" ] || { echo "$file" && return; }
        done
    done
}

# The library that the programs were linked with, by its file name, is another one.
with_library() { # name, path's end
    wanted "$1" || return
    what="with $1"
    file=$(library "$2")
    [ -n "$file" ] || { skip "$what" "it is not there (make deps-blas)" && return; }
    mkdir -p "$scratch/$1"
    ln -sf "$file" "$scratch/$1/libopenblas.so.0"
    found=$(LD_LIBRARY_PATH=$scratch/$1 ldd "$example" 2>&1)
    case $found in
    *"$scratch/$1/libopenblas.so.0"*) ;;
    *) skip "$what" "the tests do not link with libopenblas.so.0" && return ;;
    esac
    case $found in
    *"not found"*) skip "$what" "$(echo "$found" | grep -m 1 'not found')" && return ;;
    esac
    under "$1" "$what" env LD_LIBRARY_PATH="$scratch/$1"
}

# OpenBLAS with the kernels for an older processor than this one.
with_kernels() { # name
    wanted "$1" || return
    what="with OpenBLAS's kernels for $1"
    chosen=$(OPENBLAS_VERBOSE=2 OPENBLAS_CORETYPE=$1 "$example" 2>&1 | sed -n 's/^Core: //p')
    [ "$chosen" = "$1" ] || { skip "$what" "OpenBLAS chose ${chosen:-nothing}" && return; }
    under "$1" "$what" env OPENBLAS_CORETYPE="$1"
}

# Stride's own products, with the instructions of an older processor.
with_engine() { # name
    wanted "engine-$1" || return
    what="STRIDE_ENGINE=$1"
    case $1 in
    generic | reference) ;;
    *) grep -q "\<$1" /proc/cpuinfo || { skip "$what" "this processor has no $1" && return; } ;;
    esac
    under "engine-$1" "$what" env STRIDE_ENGINE="$1"
}

# ---- processors ----------------------------------------------------------------------------------

# qemu's processors of x86-64 refuse what the real ones do: no AVX-512 on any, no AVX on the older ones.
on_processor() { # qemu's name, registers that it has not
    wanted "$1" || return
    what="on an emulated $1, without $2 registers"
    [ "$(uname -m)" = x86_64 ] || { skip "$what" "this is $(uname -m)" && return; }
    command -v qemu-x86_64 >/dev/null || { skip "$what" "qemu-x86_64 is not installed (make deps-arm)" && return; }
    echo "int main(void) { __asm__ volatile(\"$3\"); return 0; }" | ${CC:-cc} -x c - -o "$scratch/refused" ||
        { skip "$what" "${CC:-cc} does not know $3" && return; }
    (qemu-x86_64 -cpu "$1" "$scratch/refused") >/dev/null 2>&1 &&
        { skip "$what" "qemu-x86_64 has them" && return; }
    under "$1" "$what" qemu-x86_64 -cpu "$1"
}

on_arm() { # qemu's name
    wanted "$1" || return
    under "$1" "on an emulated $1" qemu-aarch64 -L "$UNPACKED" -cpu "$1" \
        -E LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/openblas-pthread
}

# Emulation takes some fifty times as long. qemu64 is no processor: OpenBLAS takes it for an Opteron, whose
# 3DNow! it has not.
case $kind in
blas)
    for flavour in pthread openmp serial; do
        with_library openblas-$flavour openblas-$flavour/libopenblas.so.0
    done
    with_library reference-blas blas/libblas.so.3
    for processor in Haswell Nehalem Prescott; do with_kernels $processor; done
    for engine in avx2 generic; do with_engine $engine; done
    ;;
engines)
    under chosen "with the engine that is chosen here"
    programs=$(printf '%s\n' "$@" | grep -E '/float/tests/test_(cases|gemm|layers|net|random_nets|winograd)$')
    for engine in avx2 generic reference; do with_engine $engine; done
    ;;
msan)
    under msan "tests with clang -fsanitize=memory,undefined"
    ;;
valgrind) # threads of the pool and of BLAS live until the end, so what is still reachable is no leak
    command -v valgrind >/dev/null || { skip "tests under valgrind" "it is not installed (make deps-check)" && exit; }
    export STRIDE_FAST=1
    under valgrind "tests under valgrind" valgrind --quiet --num-callers=40 --error-exitcode=1 --leak-check=full \
        --errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect \
        --suppressions="$tools/../memory/children.supp"
    ;;
x86)
    export STRIDE_FAST=1
    on_processor Haswell AVX-512 'vpxorq %zmm0, %zmm0, %zmm0'
    on_processor Nehalem AVX 'vxorps %ymm0, %ymm0, %ymm0'
    on_processor Conroe AVX 'vxorps %ymm0, %ymm0, %ymm0'
    ;;
arm)
    export STRIDE_FAST=1
    for processor in cortex-a53 max; do on_arm $processor; done
    ;;
esac
exit $status
