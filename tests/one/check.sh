#!/usr/bin/env bash
# check.sh FOLDER: FOLDER/stride.c and stride.h, which make stride.c has joined, compile without a warning, with each
# part left out, and train to the same bits whatever is left out. The compilers run beside the rest.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(cd "$1" && pwd)
tmp=$folder/one/check
failed=0
rm -rf "$tmp" && mkdir -p "$tmp" && cd "$tmp" || exit 1

# "ok   WHAT", or "FAIL WHAT" after the log of the command.
claim() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >log 2>&1 && [ ! -s log ]; then echo "ok   $what"
    else tail -n 20 log && echo "FAIL $what" && failed=1; fi
}
skip() { echo "skip $1: $2 is not installed"; }
have() { command -v "$1" >/dev/null; }

parts=$(sed -n 's/^ \*     \(ST_OMIT_[A-Z]*\) .*/\1/p' "$folder/stride.c")
warnings='-Wall -Wextra -Wpedantic'

# ---- compilers ----------------------------------------------------------------------------------------------

compiles() { "$@" -I"$folder" -c "$folder/stride.c" -o stride.o; }
own=gcc
if ${CC:-cc} -dM -E -x c /dev/null | grep -q __clang__; then own=clang; fi
pooling=-DST_WITH_POOLING
mingw=x86_64-w64-mingw32-gcc
compilers() {
    for compiler in gcc clang; do
        have $compiler || { skip "stride.c by $compiler" $compiler; continue; }
        for standard in c11 c17 c2x; do
            # shellcheck disable=SC2086
            claim "stride.c by $compiler as $standard" compiles $compiler -std=$standard -fsyntax-only $warnings $pooling
        done
        # CC compiles what runs below. Another compiler would take a minute for the code of the fast algorithms, which it
        # compiles for check-warnings-clang, a file at a time, and warn of nothing more.
        # shellcheck disable=SC2086
        if [ $compiler != "$own" ]; then
            claim "stride.c by $compiler, optimised, with ST_OMIT_FAST" compiles $compiler -O1 $warnings $pooling -DST_OMIT_FAST
        fi
        # shellcheck disable=SC2086
        claim "stride.c by $compiler in double" compiles $compiler -fsyntax-only $warnings $pooling -DST_DOUBLE
        # shellcheck disable=SC2046,SC2086
        claim "stride.c by $compiler, the core alone" compiles $compiler -O0 $warnings $(printf -- '-D%s ' $parts)
    done
    # Without code for the machine gcc does not warn of functions that nothing calls; clang does.
    local sees="${CC:-cc} -O0"
    if have clang; then sees="clang -fsyntax-only"; fi
    # shellcheck disable=SC2086
    claim "stride.c without stride-pooling.c" compiles $sees $warnings
    for part in $parts; do
        # shellcheck disable=SC2086
        claim "stride.c with $part" compiles $sees $warnings $pooling "-D$part"
    done
    if have tcc; then claim "stride.c by tcc" compiles tcc -Wall $pooling; else skip "stride.c by tcc" tcc; fi
    if have $mingw; then
        # shellcheck disable=SC2086
        claim "stride.c by mingw" compiles $mingw -O0 $warnings $pooling
        mv stride.o mingw.o
        # shellcheck disable=SC2086
        claim "stride.c by mingw in double" compiles $mingw -fsyntax-only $warnings $pooling -DST_DOUBLE
        # shellcheck disable=SC2086
        claim "stride.c by mingw in double, with ST_OMIT_FAST" compiles $mingw -O0 $warnings $pooling -DST_DOUBLE -DST_OMIT_FAST
        mv stride.o mingw-double.o
    else
        skip "stride.c by mingw" $mingw
    fi
    for compiler in g++ clang++; do
        have $compiler || { skip "stride.h by $compiler" $compiler; continue; }
        echo '#include "stride.h"' >header.cc
        # shellcheck disable=SC2086
        claim "stride.h by $compiler as C++20" $compiler -std=c++20 $warnings -I"$folder" -fsyntax-only header.cc
    done
    exit $failed
}
mkdir compilers && (cd compilers && compilers) >compilers.log &
beside=$!
trap 'kill $beside 2>/dev/null' EXIT

# The programs of the header's first comment are those of docs/one-file.md, which make check-docs runs.
same_programs() {
    awk '/^ \*     #include/ { inside = 1 } /^ \* MIT/ { exit } inside && /^ \*     / { print substr($0, 8) }' \
        "$folder/stride.h" | sed '/^$/d' >programs
    awk "/^cat >.*END/ { inside = 1; next } /^END/ { inside = 0 } inside" "$root/docs/one-file.md" | diff programs -
}
claim "the header begins with the programs of docs/one-file.md" same_programs

# ---- sizes --------------------------------------------------------------------------------------------------

# The core is what is left where no part is compiled.
smaller() { # BYTES LIMIT
    [ "$1" -le "$2" ] || { echo "$1 bytes, expected at most $2"; return 1; }
}
core_bytes() {
    awk '/^#if !defined\(ST_OMIT/ { out = 1; depth = 0 } out && /^#if/ { depth++ }
        !out { bytes += length($0) + 1 } out && /^#endif/ && --depth == 0 { out = 0 } END { print bytes }' "$folder/stride.c"
}
claim "stride.c has at most 768 KiB" smaller "$(wc -c <"$folder/stride.c")" 786432
claim "the core of it has at most 350 KiB" smaller "$(core_bytes)" 358400

# ---- functions ----------------------------------------------------------------------------------------------

# The fast algorithms at -O1, which takes half the time of -O3 and warns of the same.
optimised() { # OBJECT FLAG...
    local object=$1
    shift
    # shellcheck disable=SC2086
    ${CC:-cc} -O2 $warnings $pooling "$@" -I"$folder" -c "$folder/stride.c" -o "$object"
}
claim "stride.c by ${CC:-cc}, optimised" optimised vectors.o -O1
claim "the same with ST_OMIT_FAST" optimised definitions.o -DST_OMIT_FAST
accurate() { ${CC:-cc} -O2 -ffp-contract=off "$root/tests/one/math.c" -o math -lm && ./math; }
claim "functions that libraries compute differently are accurate" accurate
public_names() {
    local others
    ${CC:-cc} -O0 -DST_DOUBLE -DST_OMIT_FAST $pooling -I"$folder" -c "$folder/stride.c" -o double.o || return
    others=$(nm -g --defined-only vectors.o double.o | awk 'NF == 3 { print $3 }' | grep -v '^st_')
    [ -z "$others" ] || { echo "$others" && return 1; }
    printf '#include "stride.h"\nint NAME(void)\n{\n    return st_relu() && sizeof(st_real) == SIZE;\n}\n' >half.c
    ${CC:-cc} -I"$folder" -DNAME=half -DSIZE=4 -c half.c -o half-float.o &&
        ${CC:-cc} -I"$folder" -DST_DOUBLE -DNAME=whole -DSIZE=8 -c half.c -o half-double.o &&
        printf 'int half(void), whole(void);\nint main(void)\n{\n    return !(half() && whole());\n}\n' >both.c &&
        ${CC:-cc} both.c half-float.o half-double.o vectors.o double.o -o both -lm -lpthread && ./both
}
claim "names of other modules begin with st_, and one program has both precisions" public_names
# What stays the library's is exact, or rounded correctly.
own_functions() {
    local taken
    taken=$(nm -u definitions.o | awk '{ print $2 }' | grep -Ex \
        '(a?(cos|sin|tan)h?|sincos|exp[2m1]*|log(2|10|1p)?|pow|cbrt|hypot|erfc?|[lt]gamma|atan2)[fl]?')
    [ -z "$taken" ] || { echo "functions of the C library: $taken" && return 1; }
}
claim "no other function of the C library computes a result" own_functions

# ---- running ------------------------------------------------------------------------------------------------

trains() { # NAME: of the object
    ${CC:-cc} -O2 -I"$folder" "$root/tests/one/lenet.c" "$1.o" -o "lenet-$1" -lm -lpthread && "./lenet-$1" >"$1.hash"
}
claim "LeNet trains by the definitions" trains definitions
claim "LeNet trains by vectors" trains vectors
same_bits() {
    optimised one-thread.o -DST_OMIT_THREADS -DST_OMIT_FAST -DST_OMIT_PRINT && trains one-thread &&
        diff definitions.hash one-thread.hash
}
claim "it trains to the same bits without threads" same_bits
resumes() {
    rm -f checkpoint
    ./lenet-definitions checkpoint 100 >half.hash && ./lenet-definitions checkpoint >rest.hash &&
        diff <(sed 's/0$/100/' definitions.hash) rest.hash && ! diff -q definitions.hash half.hash >/dev/null
}
claim "a run that is resumed from its checkpoint comes to the same bits" resumes

# ---- the script ---------------------------------------------------------------------------------------------

# Two files with a static function of one name, of which one also has a member and a local variable of that name.
joins() {
    mkdir -p nn && cd "$tmp" || return
    printf '#ifndef A_H\n#define A_H\nint first(void);\nint second(void);\n#endif\n' >nn/a.h
    printf '#include "nn/a.h"\nstatic int twice(int x)\n{\n    return 2 * x;\n}\nint first(void)\n{\n    return twice(2);\n}\n' >nn/one.c
    printf '#include "nn/a.h"\nstruct s {\n    int twice;\n};\nstatic int twice(int x)\n{\n    struct s s = { .twice = x };\n%s}\n%s' \
        '    return s.twice + 1;
' 'int second(void)
{
    int (*f)(int) = twice;
    return f(2);
}
' >nn/two.c
    : >begin.c && : >begin.h
    printf 'begin header begin.h\nbegin source begin.c\npublic nn/a.h\nfile nn/one.c\nfile nn/two.c\n' >list
    awk -v header=a.h -v source=joined.c -f "$root/nn/one/join.awk" list || return
    sed -i '/^#endif$/d' a.h
    printf '#include "a.h"\n#include "joined.c"\nint main(void)\n{\n    return !(first() == 4 && second() == 3);\n}\n' >main.c
    ${CC:-cc} main.c -o main && ./main
}
claim "names that two files share are told apart" joins
refuses() {
    printf '#ifndef B_H\n#define B_H\ntypedef int word;\n#endif\n' >nn/b.h
    printf '#ifndef C_H\n#define C_H\ntypedef long word;\n#endif\n' >nn/c.h
    printf '#include "nn/b.h"\n#include "nn/c.h"\n' >nn/three.c
    printf 'begin header begin.h\nbegin source begin.c\nfile nn/three.c\n' >list
    ! awk -v header=a.h -v source=joined.c -f "$root/nn/one/join.awk" list 2>refused &&
        grep -q '^join.awk: two headers declare word' refused
}
claim "a name that two headers share is refused" refuses
wait $beside || failed=1
cat compilers.log

# ---- Windows ------------------------------------------------------------------------------------------------

# Nets that are saved here are read there, and the other way, to the same bits; the library's gradient checks pass.
windows() {
    $mingw -O0 -static -I"$folder" predict.c compilers/mingw.o -o predict.exe -lm || return
    $mingw -O0 -static -I"$folder" -DST_DOUBLE $pooling gradcheck.c compilers/mingw-double.o -o gradcheck.exe -lm || return
    ${CC:-cc} -O0 -I"$folder" predict.c vectors.o -o predict -lm -lpthread || return
    export WINEDEBUG=-all STRIDE_ENGINE=reference
    wineserver -p60 2>/dev/null # seconds; otherwise it may end while the next program connects to it
    wine cmd /c exit >/dev/null 2>&1 # its first start tells of the folder that it makes
    ./predict save here.st && wine predict.exe save there.st && cmp here.st there.st &&
        wine predict.exe load here.st | tr -d '\r' >there.txt && ./predict load there.st >here.txt &&
        diff here.txt there.txt && [ "$(wc -l <here.txt)" = 20 ] && wine gradcheck.exe | tail -n 1 | grep -q ' 0 failed'
}
cp "$root/tests/one/predict.c" . && sed 's/^#include "[a-z].*"/#include "stride.h"/' "$root/examples/gradcheck.c" >gradcheck.c
if ! have $mingw; then skip "the same on Windows" $mingw
elif ! have wine; then skip "the same on Windows" wine
else claim "the same on Windows: nets saved and read, gradients checked" windows; fi
exit $failed
