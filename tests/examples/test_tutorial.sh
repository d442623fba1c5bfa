#!/usr/bin/env bash
# The tutorial and the pages about C++ and Python, followed by copying: their programs are put where they say, their commands are run
# in order, and each prints exactly what the page shows.
set -u
[ -z "${SANITIZE:-}" ] || { echo "skip the tutorial: a sanitizer takes a minute, and other tests run the same functions"; exit 0; }
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/tutorial
mkdir -p "$tmp/pkgconfig"
failed=0

# The files that `make install` would put there, from the tree.
package() { # NAME LIBRARY CFLAGS
    printf '%s\n' "Name: $1" "Description: $1" 'Version: 0' "libdir=${2%/*}" "Cflags: -I$PWD $3" "Libs: $2 $LIBS" >"$tmp/pkgconfig/$1.pc"
}
package stride "$LIB" ''
package stride-double "$LIB_DOUBLE" -DSTRIDE_DOUBLE
export PKG_CONFIG_PATH=$tmp/pkgconfig

# The compiler that the tests are built with, as strict as a reader's may be.
read -ra compiler <<<"$CC $CFLAGS -Wall -Wextra -Werror -Wno-missing-field-initializers"
cc() { command "${compiler[@]}" "$@"; } # which may be called cc, too
c++() { command "${compiler_cpp[@]}" "$@"; }
export -f cc c++
compile_as() { # C++-COMPILER
    read -ra compiler_cpp <<<"$1 $(sed 's/-std=c11//' <<<"$CFLAGS") -Werror"
    compiler_text=$(declare -p compiler compiler_cpp)
}
compile_as c++

# A page's blocks of C become files of the name in their first line; of its console blocks, line by line, what
# begins with "$ " is run, and what that prints stands for what the page shows.
follow() { # PAGE
    local folder=$tmp/${1##*/}
    local line kind='' file=''
    mkdir -p "$folder"
    while IFS= read -r line; do
        case $kind:$line in
            ':```c' | ':```cpp' | ':```python') kind=first ;;
            ':```console') kind=console; echo "$line" ;;
            :*) ;;
            *:'```') [ "$kind" != console ] || echo "$line"; kind='' ;;
            first:*)
                file=$(sed -n 's|^/\* \([a-z_]*\.[ch]\) \*/$|\1|p; s|^// \([a-z_]*\.cpp\)$|\1|p; s|^# \([a-z_]*\.py\)$|\1|p' <<<"$line")
                [ -n "$file" ] || { echo "a program without a name: $line"; return 1; }
                echo "$line" >"$folder/$file"
                kind=body
                ;;
            body:*) printf '%s\n' "$line" >>"$folder/$file" ;;
            console:'$ '*)
                printf '%s\n' "$line"
                (cd "$folder" && bash -c "$compiler_text; ${line#??}" 2>&1)
                ;;
        esac
    done <"$1"
}
shown() { awk '/^```console$/ { inside = 1 } inside { print } /^```$/ { inside = 0 }' "$1"; }

prints_what_it_shows() { # PAGE WHAT
    local page=$1
    if follow "$page" >"$tmp/got" && shown "$page" >"$tmp/expected" && [ -s "$tmp/expected" ] &&
        diff "$tmp/expected" "$tmp/got" >"$tmp/log"; then
        echo "ok $2 prints what it shows"
    else
        cat "$tmp/log" 2>/dev/null
        echo "not ok $2 prints what it shows"
        failed=1
    fi
}
for page in docs/tutorial-*.md; do prints_what_it_shows "$page" "$page"; done
for compiler in g++ clang++; do
    if command -v $compiler >/dev/null; then
        compile_as $compiler
        prints_what_it_shows docs/from-cpp.md "docs/from-cpp.md with $compiler"
    else
        echo "skip docs/from-cpp.md with $compiler: it is not installed"
    fi
done
if command -v python3 >/dev/null; then
    prints_what_it_shows docs/from-python.md docs/from-python.md
else
    echo "skip docs/from-python.md: python3 is not installed"
fi
exit $failed
