#!/usr/bin/env bash
# One program with files of either precision, linked with both libraries: each half computes what it computes alone, and
# has errors of its own. Archives and shared libraries, in any order, in C and in C++.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/both
. tests/tools/claims.sh
skip_sanitized "both precisions in one program: a sanitizer's library needs the sanitizer's compiler"
root=$PWD
mkdir -p "$tmp/away"
cd "$tmp/away" || exit 1
own=$root/tests/door
archive_float=$(lighter "$LIB")
archive_double=$(lighter "$LIB_DOUBLE")
shared_float="-L${LIB%/*} -lstride -Wl,-rpath,${LIB%/*}"
shared_double="-L${LIB_DOUBLE%/*} -lstride-double -Wl,-rpath,${LIB_DOUBLE%/*}"

# A program that has one half alone, from its object and a library.
alone() { # PRECISION COMPILER OBJECT LIBRARY...
    local precision=$1 compiler=$2
    shift 2
    echo "void ${precision}_trains(void); int main(void) { return ${precision}_trains(), 0; }" >alone.c
    ${CC:-cc} -c alone.c -o alone.o && $compiler alone.o "$@" -pthread -o alone
}
halves() { # SUFFIX COMPILER FLAG...
    local suffix=$1 from
    shift
    cp "$own/half.c" "half.$suffix"
    from="-I$root -I$own half.$suffix"
    "$@" -Werror $from -c -o float.o && "$@" -Werror -DSTRIDE_DOUBLE $from -c -o double.o &&
        ${CC:-cc} "$own/both.c" -c -o main.o || return
    alone float $1 float.o "$archive_float" $LIBS && ./alone >expected &&
        alone double $1 double.o "$archive_double" $LIBS && ./alone >>expected || return
    cat expected
    grep -q '^float32 4 loss 0x1' expected && grep -q '^float64 8 loss 0x1' expected
}
links() { # HOW-FLOAT HOW-DOUBLE COMPILER...: in both orders, but for a language's second compiler, as all have one linker
    local float="$1_float" double="$2_double" order
    shift 2
    for order in "${!float} ${!double}" "${!double} ${!float}"; do
        "$@" main.o float.o double.o $order $LIBS -pthread -o both && ./both >said && diff expected said || return
        [ "$linked" != "$suffix" ] || return 0
    done
}
linked=
in_language() { # SUFFIX COMPILER FLAG...; shared libraries by a language's first compiler
    local suffix=$1
    shift
    if ! command -v "$1" >/dev/null; then
        echo "skip both precisions in one program: $1 is not installed"
        return
    fi
    claim "each precision by itself: $*" halves $suffix "$@"
    claim "both in one program, archives: $*" links archive archive $1
    [ "$linked" != "$suffix" ] || return
    linked=$suffix
    claim "both in one program, shared: $*" links shared shared $1
    claim "both in one program, an archive and a shared library: $*" links archive shared $1
}
in_language c gcc -std=c11 -Wall -Wextra -pedantic
in_language c clang -std=c11 -Wall -Wextra -pedantic
in_language cc g++ -std=c++20 -O0
in_language cc clang++ -std=c++20 -O0

# One half with the other's library alone.
does_not_mix() { # SUFFIX COMPILER, which may be several words
    local suffix=$1 compiler="$2"
    set -- $compiler -std=c11
    "$@" -I"$root" -I"$own" half.$suffix -c -o float.o && "$@" -DSTRIDE_DOUBLE -I"$root" -I"$own" half.$suffix -c -o double.o || return
    ! alone float "$compiler" float.o $archive_double $LIBS 2>out && grep -q st_precision_is_float out &&
        grep -q st_net_new_of out && ! alone float "$compiler" float.o $shared_double 2>out && grep -q st_precision_is_float out &&
        ! alone double "$compiler" double.o $archive_float $LIBS 2>out && grep -q st_precision_is_double out &&
        grep -q st_double_net_new_of out && ! alone double "$compiler" double.o $shared_float 2>out && grep -q st_precision_is_double out
}
claim "a file of one precision does not link with the other's library alone, and the linker says why" does_not_mix c "${CC:-cc}"
exit $failed
