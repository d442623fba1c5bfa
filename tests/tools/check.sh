#!/bin/sh
# check.sh PART ARGUMENTS...: one part of `make check`, which says what each holds. Prints one line,
# "ok   what", "skip what: reason" or "FAIL what" with the particulars before it.
part=$1
shift
what=$part
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

ok() {
    echo "ok   $what"
    exit 0
}
skip() {
    echo "skip $what: $*"
    exit 0
}
fail() {
    printf '%s\n' "$*"
    echo "FAIL $what"
    exit 1
}
sources() { find tensor layers nn examples tests -name '*.[ch]'; }

# A folder, and the folders it may include from: the offending lines, if any. nn/one/begin.c begins the joined file, and
# includes the joined header.
strangers() {
    find "$1" -name '*.[ch]' ! -path nn/one/begin.c -exec grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<(tensor|layers|nn|examples|tests)/)' /dev/null {} + |
        grep -vE "include[[:space:]]*\"($2)/([a-z0-9_]+/)?[a-z0-9_]+\.(h|inc)\""
}

case $part in
includes)
    what="each folder includes only itself and those on its left, by their full names"
    found=$(
        strangers tensor "tensor"
        strangers layers "tensor|layers"
        strangers nn "tensor|layers|nn"
        strangers examples "tensor|layers|nn|examples"
    )
    [ -z "$found" ] || fail "$found"
    ok
    ;;

core) # ANNEX...
    what="no file of tensor/, layers/ or nn/ includes an annex"
    annexes=$(echo "$*" | tr ' ' '|')
    found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*\"($annexes)/" tensor/*.[ch] layers/*.[ch] nn/*.[ch])
    [ -z "$found" ] || fail "$found"
    ok
    ;;

quiet) # LIBRARY...
    what="the library never prints, exits or asserts"
    command -v nm >/dev/null || skip "nm is not installed"
    names='exit|_exit|_Exit|quick_exit|abort|__assert_fail|__assert_rtn|__assert|raise'
    names="$names|printf|__printf_chk|vprintf|__vprintf_chk|puts|putchar|perror|stdin|stdout|stderr|__std(in|out|err)p"
    found=$(nm -A -u "$@" | grep -E "[[:space:]]_?($names)\$")
    [ -z "$found" ] || fail "$found"
    ok
    ;;

format)
    what="lines of C end at column 110, and are as clang-format leaves them"
    # Bytes that go on with a character of UTF-8 fill no column.
    found=$( (sources && echo stride.h) | sort | LC_ALL=C xargs awk '
        { line = $0; gsub(/[\200-\277]/, "", line) }
        length(line) > 110 { print FILENAME ":" FNR ": " length(line) " columns" }')
    [ -z "$found" ] || fail "$found"
    command -v clang-format >/dev/null || skip "clang-format is not installed"
    found=$(sources | sort | xargs clang-format --dry-run -Werror 2>&1) ||
        fail "$(echo "$found" | sed -n 's/ error: code should.*//p')" "(make format mends it)"
    ok
    ;;

exports) # LIBRARIES-OF-FLOAT LIBRARIES-OF-DOUBLE HEADER...
    what="libraries and archives export what the installed headers declare, with the prefix, and nothing else"
    command -v nm >/dev/null || skip "nm is not installed"
    of_float=$1 of_double=$2
    shift 2
    awk -f tests/tools/symbols.awk "$@" >"$scratch/symbols"
    found=$(awk '$3 !~ /^(st|ST)_/ { print $1, $3 }' "$scratch/symbols")
    [ -z "$found" ] || fail "without st_ or ST_: $found"
    exported() { # LIBRARY
        case $(uname -s)$1 in
        Darwin*) nm -gU "$1" | sed 's/.* _//' ;;
        *.a) nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' ;;
        *) nm -D --defined-only "$1" | sed 's/.* //' ;;
        esac
    }
    exports() { # PRECISION PREFIX LIBRARY...
        awk '$2 == "function" || $2 == "object" { print $3 }' "$scratch/symbols" |
            sed "s/^st_/$2/; s/^ST_PRECISION\$/st_precision_is_$1/" | sort >"$scratch/declared"
        shift 2
        for library in "$@"; do
            exported "$library" | sort >"$scratch/exported"
            found=$(comm -23 "$scratch/declared" "$scratch/exported")
            [ -z "$found" ] || fail "$library lacks what headers declare (outside of ST_API_BEGIN and ST_API_END):
$found"
            found=$(comm -13 "$scratch/declared" "$scratch/exported")
            [ -z "$found" ] || fail "$library exports what no installed header declares:
$found"
        done
    }
    # shellcheck disable=SC2086
    { exports float st_ $of_float && exports double st_double_ $of_double; } || exit
    ok
    ;;

public) # HEADER...
    what="programs include public headers and their own, and no other"
    printf '"%s"\n' "$@" >"$scratch/public"
    found=$(grep -rn '#include "' examples --include='*.[ch]' | grep -v '"examples/' | grep -vFf "$scratch/public")
    [ -z "$found" ] || fail "$found"
    ok
    ;;

documented) # HEADER...
    what="everything that installed headers declare has a comment"
    found=$(awk -f tests/tools/symbols.awk "$@" | sed -n 's/ bare$//p')
    [ -z "$found" ] || fail "$found"
    ok
    ;;

manual) # HEADER...
    what="the manual's pages name functions that there are, and mandoc finds nothing to warn of in them"
    awk -f tests/tools/symbols.awk "$@" | awk '{ print $3 }' | sort -u >"$scratch/declared"
    found=$(sed -n 's/^\.Fn \([a-z0-9_]*\).*/\1/p' docs/man/*.3 | sort -u | comm -23 - "$scratch/declared")
    [ -z "$found" ] || fail "no installed header declares: $found"
    grep -q "^## $VERSION" CHANGELOG.md || fail "CHANGELOG.md says nothing of $VERSION"
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    set -- docs/man/*.[1-9]
    if [ -n "$PROGRAM" ]; then
        "$PROGRAM" help man >"$scratch/stride.1" || fail "$PROGRAM help man does not write the page"
        set -- "$@" "$scratch/stride.1"
    fi
    # Files that are made again each time have no date.
    found=$(mandoc -T lint -W warning "$@" | grep -v 'stride\.1:.* missing date')
    [ -z "$found" ] || fail "$found"
    ok
    ;;

install-mpi) # PREFIX
    what="a program of two ranks runs with the flags of the installed library for MPI, shared and static, in both precisions"
    prefix=$(cd "$1" && pwd)
    cat >"$scratch/program.c" <<-'END'
	#include <nn/ranks/mpi.h>
	#include <stride.h>
	#include <stdio.h>
	int main(void)
	{
	    const st_comm *t = st_mpi_begin();
	    st_real sum = t ? (st_real)(t->rank + 1) : 0;
	    int failed = !t || t->ranks != 2 || t->all_reduce(t, 1, &sum) || sum != 3 || !st_version();
	    if (failed) printf("%s\n", st_error() ? st_error() : "wrong sum");
	    st_mpi_end(t);
	    return failed;
	}
	END
    for library in stride-mpi stride-mpi-double; do
        for kind in '' --static; do
            flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig $PKG_CONFIG --cflags --libs $kind $library 2>&1) || fail "$flags"
            # shellcheck disable=SC2086
            (cd "$scratch" && $CC -std=c11 -pedantic-errors program.c $flags -o program && $MPIRUN -n 2 ./program) \
                >"$scratch/log" 2>&1 || fail "$library $kind: $(cat "$scratch/log")"
        done
    done
    ok
    ;;

cmake) # PREFIX SOVERSION
    what="CMake's find_package finds an installation that was moved, if it is of the right version, in both precisions, shared and as archives"
    command -v cmake >/dev/null || skip "cmake is not installed"
    mkdir "$scratch/a place" && cp -R "$1/." "$scratch/a place"
    cat >"$scratch/program.c" <<-'END'
	#include <stride.h>
	int main(void) { return !st_shape_equal(ST_SHAPE(2, 3), ST_SHAPE(2, 3)) || sizeof(st_real) != SIZE || !st_version(); }
	END
    cat >"$scratch/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.13)
	project(program C)
	foreach(other 0.0 ${version}.1 ${compatible}.999 999)
	  find_package(stride ${other} QUIET)
	  if(stride_FOUND)
	    message(FATAL_ERROR "asked for ${other}, and found ${stride_VERSION}")
	  endif()
	endforeach()
	find_package(stride ${compatible} REQUIRED)
	find_package(stride ${version} EXACT REQUIRED)
	find_package(stride REQUIRED)
	add_executable(float program.c)
	target_compile_definitions(float PRIVATE SIZE=4)
	target_link_libraries(float stride::stride)
	add_executable(double program.c)
	target_compile_definitions(double PRIVATE SIZE=8)
	target_link_libraries(double stride::double)
	foreach(kind stride double)
	  add_executable(${kind}_archive program.c)
	  target_link_libraries(${kind}_archive stride::${kind}-static)
	endforeach()
	target_compile_definitions(stride_archive PRIVATE SIZE=4)
	target_compile_definitions(double_archive PRIVATE SIZE=8)
	foreach(kind "" -static)
	  add_library(half${kind} STATIC half.c)
	  target_link_libraries(half${kind} PRIVATE stride::double${kind})
	  add_executable(both${kind} both.c half.c)
	  target_link_libraries(both${kind} PRIVATE stride::stride${kind} half${kind})
	endforeach()
	END
    cp tests/door/half.c tests/door/both.c "$scratch"
    (
        cmake -S "$scratch" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/a place" -Dversion="$VERSION" -Dcompatible="$2" && cmake --build "$scratch/build" &&
            "$scratch/build/float" && "$scratch/build/double" && cd "$scratch" && build/both && mv "a place/lib" moved &&
            build/stride_archive && build/double_archive && build/both-static
    ) >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
    ok
    ;;

dist) # ARCHIVE
    what="the archive builds in another folder, writes nothing to its own, passes a test, installs and uninstalls"
    gzip -dc "$1" | tar -x -C "$scratch" -f -
    tree=$scratch/$(basename "$1" .tar.gz)
    [ -f "$tree/Makefile" ] || fail "$1 has no $(basename "$tree")/Makefile"
    chmod -R a-w "$tree"
    trap 'chmod -R u+w "$tree"; rm -rf "$scratch"' EXIT
    state() { find "$tree" -exec ls -ld {} + && find "$tree" -type f -exec cksum {} +; }
    state >"$scratch/before"
    build() { # quickly: nothing is measured
        "$MAKE" -C "$tree" BUILD="$scratch/build" CFLAGS=-O0 SANITIZE= PREFIX="$scratch/prefix" DESTDIR= "$@" \
            >"$scratch/log" 2>&1 ||
            fail "$(tail -n 40 "$scratch/log")"
    }
    program=$scratch/build/float/tests/test_step
    build "$program"
    (cd "$scratch" && STRIDE_TEST_TMP=$scratch "$program") >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
    build install
    [ -f "$scratch/prefix/lib/pkgconfig/stride.pc" ] || fail "$(cat "$scratch/log")"
    build uninstall
    found=$(find "$scratch/prefix" ! -type d)
    [ -z "$found" ] || fail "$found"
    found=$(state | diff "$scratch/before" -) || fail "$found"
    ok
    ;;

*)
    fail "no such part"
    ;;
esac
