#!/usr/bin/env bash
# Planted bugs: each mutation of mutations.txt must make one of the programs it names fail. The mutated file is
# compiled alone, in double, and comes before the library when a program is linked, so that the library's own
# is left out. STRIDE_FAST=1: the first three mutations only.
# shellcheck disable=SC2317 # functions are called by name
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/mutations
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
cd "$root" || exit 1
rm -rf "$tmp"
mkdir -p "$tmp"
export OMP_WAIT_POLICY=passive CMOCKA_MESSAGE_OUTPUT=STDOUT
limit=
if command -v timeout >/dev/null; then limit='timeout 100'; fi

# ---- the table -----------------------------------------------------------------------------------

names=() files=() from=() to=() programs=()
while IFS= read -r line || [ -n "$line" ]; do
    last=$((${#names[@]} - 1))
    case $line in
    'mutation '*) names+=("${line#mutation }") files+=('') from+=('') to+=('') programs+=('') ;;
    '  in      '*) files[last]=${line#*  in      } ;;
    '  replace '*) from[last]=${line#*  replace } ;;
    '  with    '*) to[last]=${line#*  with    } ;;
    '  caught  '*) programs[last]=${line#*  caught  } ;;
    '#'* | '') ;;
    *) echo "not ok mutations.txt: cannot be read: $line" && exit 1 ;;
    esac
done <tests/conformance/mutations.txt
count=${#names[@]}
if [ "$count" -eq 0 ]; then echo 'not ok mutations.txt: it has no mutation' && exit 1; fi
if [ -n "${STRIDE_FAST:-}" ] && [ "$count" -gt 3 ]; then count=3; fi

# ---- building ------------------------------------------------------------------------------------

# shellcheck disable=SC2086
compile() { # SOURCE OBJECT FLAGS...
    local source=$1 object=$2
    shift 2
    $CC $CFLAGS -DSTRIDE_DOUBLE -w -g0 "$@" -c "$source" -o "$object"
}

# shellcheck disable=SC2086
link() { # PROGRAM OUTPUT OBJECT...
    local program=$1 output=$2
    shift 2
    $CC $CFLAGS "$@" "$tmp/$program.o" "$tmp/aid/"*.o "$LIB_DOUBLE" \
        -lcmocka $LIBS -o "$output"
}

source_of() { # PROGRAM
    if [ -f "tests/$1.c" ]; then echo "tests/$1.c"; else echo "examples/$1.c"; fi
}

# With the engine that the machine has, and with the reference.
# shellcheck disable=SC2086
run() { # PROGRAM FOLDER
    STRIDE_TEST_TMP=$2 $limit "$2/$1" >"$2/$1.log" 2>&1 </dev/null &&
        STRIDE_ENGINE=reference STRIDE_TEST_TMP=$2 $limit "$2/$1" >"$2/$1.log" 2>&1 </dev/null
}

# Two at a time: $1 is called with the numbers below $2.
side_by_side() { # FUNCTION COUNT
    (for ((k = 0; k < $2; k += 2)); do "$1" "$k"; done) &
    for ((k = 1; k < $2; k += 2)); do "$1" "$k"; done
    wait
}

# ---- programs, and whether they pass without a mutation --------------------------------------------

read -r -a needed <<<"$(printf '%s\n' "${programs[@]:0:count}" | tr ' ' '\n' | sort -u | tr '\n' ' ')"

build_program() { # NUMBER
    compile "$(source_of "${needed[$1]}")" "$tmp/${needed[$1]}.o" -O1 2>"$tmp/${needed[$1]}.log"
}

check_program() { # NUMBER
    local program=${needed[$1]}
    mkdir -p "$tmp/none"
    if ! link "$program" "$tmp/none/$program" 2>"$tmp/none/$program.log"; then
        echo "not ok program $program: it does not build"
    elif ! run "$program" "$tmp/none"; then
        echo "not ok program $program: it fails without a mutation"
    else
        echo "ok program $program: it passes without a mutation"
    fi >"$tmp/$program.result"
}

# What test programs share: all that is beside them and none itself.
mkdir -p "$tmp/aid"
for aid in tests/*.c examples/arguments.c; do
    case $aid in */test_*) continue ;; esac
    compile "$aid" "$tmp/aid/$(basename "$aid" .c).o" -O1 || exit 1
done
side_by_side build_program ${#needed[@]}
side_by_side check_program ${#needed[@]}

# ---- mutations -----------------------------------------------------------------------------------

substitute() { # FROM TO FILE
    FROM=$1 TO=$2 awk '{
        rest = $0
        while (ENVIRON["FROM"] != "" && (at = index(rest, ENVIRON["FROM"]))) {
            printf "%s%s", substr(rest, 1, at - 1), ENVIRON["TO"]
            rest = substr(rest, at + length(ENVIRON["FROM"]))
            count++
        }
        print rest
    } END {
        if (count == 1) exit 0
        printf "its text occurs %d times, expected once", count >"/dev/stderr"
        exit 1
    }' "$3"
}

# The line for one mutation.
judge() { # NUMBER
    local name=${names[$1]} folder=$tmp/$1 file=${files[$1]} program status reason
    mkdir -p "$folder/$(dirname "$file")"
    if ! reason=$(substitute "${from[$1]}" "${to[$1]}" "$file" 2>&1 >"$folder/$file"); then
        echo "not ok mutation $name: $file: $reason"
        return
    fi
    if ! compile "$folder/$file" "$folder/mutated.o" 2>"$folder/log"; then
        echo "not ok mutation $name: it does not compile: $(grep -m 1 error "$folder/log")"
        return
    fi
    for program in ${programs[$1]}; do
        if ! link "$program" "$folder/$program" "$folder/mutated.o" 2>"$folder/log"; then
            echo "not ok mutation $name: $program does not link: $(head -n 1 "$folder/log")"
            return
        fi
        { run "$program" "$folder"; } 2>/dev/null # what the shell says of a crash
        status=$?
        rm -f "$folder/$program"
        if [ "$status" -eq 124 ] && [ -n "$limit" ]; then
            echo "not ok mutation $name: $program did not end"
            return
        elif [ "$status" -ne 0 ]; then
            echo "ok mutation $name: caught by $program"
            return
        fi
    done
    echo "not ok mutation $name: survived"
}

judge_to_file() { judge "$1" >"$tmp/$1.result"; }
side_by_side judge_to_file "$count"

failed=0
show() { # RESULT
    cat "$1" || failed=1
    if ! grep -q '^ok ' "$1"; then failed=1; fi
}
for program in "${needed[@]}"; do show "$tmp/$program.result"; done
for ((k = 0; k < count; k++)); do show "$tmp/$k.result"; done
exit $failed
