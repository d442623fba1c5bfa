#!/usr/bin/env bash
# everywhere.sh FOLDER: trains LeNet (lenet.c) from FOLDER/stride.c with many compilers, for many machines.
#
# All builds run the definitions (ST_OMIT_FAST), in float and in double, and must come to one SHA-256 each; so must the
# rest of a run from a checkpoint that another machine wrote. A control with fused multiply-adds must differ. One line for
# each build, "ok   BUILD: HASH, HASH, s"; "skip BUILD: reason" where a compiler or an emulator is missing. The fast
# algorithms' hashes, by instruction set, come last. ONLY=arm runs the builds with arm in their names.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(cd "$1" && pwd)
rm -rf "$folder/one/everywhere"
mkdir -p "$folder/one/everywhere"
cd "$folder/one/everywhere" || exit 1
lenet=$OLDPWD/tests/one/lenet.c
failed=0 passed=0 expected_float='' expected_double=''

say() { printf '%-4s %s\n' "$1" "$2"; }
have() { command -v "$1" >/dev/null; }

# NAME, RUNNER or -, COMPILER AND FLAGS
build() {
    local name=$1 runner=$2 began=$SECONDS hashes='' precision hash
    shift 2
    [ "$runner" != - ] || runner=
    case $name in *"${ONLY:-}"*) ;; *) return ;; esac
    have "$1" || { say skip "$name: $1 is not installed"; return; }
    [ -z "$runner" ] || have "${runner%% *}" || { say skip "$name: ${runner%% *} is not installed"; return; }
    for precision in float double; do
        local to=$name-$precision define=
        [ $precision = float ] || define=-DST_DOUBLE
        # shellcheck disable=SC2086
        if ! cp "${built-none}-$precision" "$to" 2>/dev/null && ! "$@" $define ${part--DST_OMIT_FAST} -I"$folder" "$lenet" "$folder/stride.c" -o "$to${suffix-}" ${libs--lm -lpthread} >"$to.log" 2>&1; then
            say FAIL "$name: does not compile: $(grep -m 1 error "$to.log")"
            failed=$((failed + 1))
            return
        fi
        # shellcheck disable=SC2086
        hash=$($runner "./$to${suffix-}" 2>>"$to.log" | tr -d '\r' | awk -v p=$precision '$1 == p { print $3 }')
        hashes="$hashes $hash"
    done
    set -- $hashes
    if [ -n "${control:-}" ]; then
        if [ "${1:-}" != "$expected_float" ] && [ $# = 2 ]; then say ok "$name: differs, as it should: $1"
        else say FAIL "$name: comes to the same hash, so that the comparison cannot fail" && failed=$((failed + 1)); fi
        return
    fi
    if [ -n "${other:-}" ]; then say ok "$name: ${1:-none}, ${2:-none}" && return; fi
    : "${expected_float:=${1:-}}" "${expected_double:=${2:-}}"
    if [ $# = 2 ] && [ "$1" = "$expected_float" ] && [ "$2" = "$expected_double" ]; then
        say ok "$name: ${1:0:16}, ${2:0:16}, $((SECONDS - began)) s"
        passed=$((passed + 1))
        machines+=("$name|$runner")
    else
        say FAIL "$name: ${1:-nothing}, ${2:-nothing}; expected $expected_float, $expected_double: $(tail -n 1 "$name-float.log")"
        failed=$((failed + 1))
    fi
}

# ---- the builds ----------------------------------------------------------------------------------------------

machines=()
sse='-msse2 -mfpmath=sse' # x87 rounds to 64 bits
for compiler in gcc clang; do
    for level in 0 2 3; do build $compiler-O$level - $compiler -O$level; done
    build $compiler-native - $compiler -O3 -march=native
done
libs=-lm build tcc - tcc
build musl-static - musl-gcc -static -O2
export WINEDEBUG=-all
libs=-lm suffix=.exe build windows wine x86_64-w64-mingw32-gcc -O2 -static
while read -r name emulator compiler flags; do
    # shellcheck disable=SC2086
    build "$name" "$emulator" $compiler -O2 -static $flags
done <<END
arm-64-bit qemu-aarch64 aarch64-linux-gnu-gcc
arm-32-bit qemu-arm arm-linux-gnueabihf-gcc
risc-v qemu-riscv64 riscv64-linux-gnu-gcc
power qemu-ppc64le powerpc64le-linux-gnu-gcc
s390x qemu-s390x s390x-linux-gnu-gcc
x86-32-bit qemu-i386 i686-linux-gnu-gcc $sse
END
libs=-lm suffix=.js build webassembly "node --no-experimental-fetch" emcc -O1 -sALLOW_MEMORY_GROWTH -sNODERAWFS

# Any number of threads, in one build.
for threads in 1 2 3; do STRIDE_THREADS=$threads built=gcc-O2 build "gcc-$threads-threads" - gcc -O2; done

# ---- from one machine to another ------------------------------------------------------------------------------

# Each machine's checkpoint after 100 steps resumes on the next one, which prints from which step it went on.
continued() { # WRITER READER
    local from=${1%%|*} to=${2%%|*} hash=
    rm -f checkpoint
    # shellcheck disable=SC2086
    ${1#*|} "./$(program "$from")" checkpoint 100 >/dev/null 2>log &&
        hash=$(${2#*|} "./$(program "$to")" checkpoint 2>>log | tr -d '\r' | awk '{ print $3, $4 }')
    if [ "$hash" = "$expected_float 100" ]; then say ok "a checkpoint of $from resumes on $to to the same hash"
    else say FAIL "a checkpoint of $from resumes on $to: ${hash:-nothing}; expected $expected_float 100: $(tail -n 1 log)" && failed=$((failed + 1)); fi
}
program() {
    case $1 in windows) echo windows-float.exe ;; webassembly) echo webassembly-float.js ;; *) echo "$1-float" ;; esac
}
chosen=()
for machine in ${machines[@]+"${machines[@]}"}; do
    case $machine in 'gcc-O2|'* | webassembly* | windows* | arm-* | s390x* | x86-32* | power*) chosen+=("$machine") ;; esac
done
for ((i = 0; i + 1 < ${#chosen[@]}; i++)); do
    continued "${chosen[i]}" "${chosen[i + 1]}"
    continued "${chosen[i + 1]}" "${chosen[i]}"
done

# ---- controls -------------------------------------------------------------------------------------------------

# ST_FUSED fuses products and sums in all of the file.
control=1 build control-fused - gcc -O2 -mfma -DST_FUSED
for engine in generic avx2 avx512; do
    STRIDE_ENGINE=$engine part='' other=1 build "fast-$engine" - gcc -O3
done

echo "$passed builds of one hash: float $expected_float, double $expected_double"
[ $failed = 0 ] && { [ $passed -ge 10 ] || [ -n "${ONLY:-}" ]; }
