#!/usr/bin/env bash
# The installed files are enough: programs outside the tree, built by one command, and nothing is
# left after `make uninstall`.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/install
. tests/tools/claims.sh
root=$PWD
prefix=$tmp/prefix
mkdir -p "$tmp/away"
cd "$tmp/away" || exit 1
skip() { # NAME: REASON
    echo "skip $1"
}
skip_all() { # REASON
    echo "skip installation: $1"
    exit 0
}
[ -z "${SANITIZE:-}" ] || skip_all "a sanitizer's library is not for installing"
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
$PKG_CONFIG --version >/dev/null 2>&1 || skip_all "pkg-config is not installed"

# The tree as it is built: what was given to the make that runs this comes along in MAKEFLAGS and in the
# environment, but for CFLAGS, which here are those of a program of the tree.
tree() { CFLAGS=$TREE_CFLAGS "${MAKE:-make}" -C "$root" "$@"; }
config() { PKG_CONFIG_PATH="$prefix/lib/pkgconfig" $PKG_CONFIG "$@"; }

# ---- the programs ----------------------------------------------------------------------------------

cat >own.h <<'END'
#include <stride.h>

/* y = x² + w */
static int plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(1), (st_init){ .constant = 1 });
}
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_mul(y, x);
    st_add(y, 1, st_expand(c->param[0], y.shape));
}
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)y;
    st_copy(dx, dy);
    st_mul(dx, x);
    st_scale(dx, 2);
}
static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)x, (void)y;
    st_add(st_expand(st_grad(c, 0), dy.shape), 1, dy);
}
static const st_layer_type own = {
    .name = "own", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};
END
# A net with that layer, from nothing to a file, which calls the mathematical library, too.
cat >train.c <<'END'
#include "own.h"
#include <math.h>

int main(int argc, char **argv)
{
    (void)argv;
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 16),
                     st_layer_new(&own, NULL, 0, NULL), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(3000, 1);
    st_optim *o = st_adam(.lr = exp(-6.2 * argc));
    st_train(n, digits, .epochs = 4, .loss = st_cross_entropy(), .optim = o);
    st_net_save(n, "square.safetensors");
    fprintf(stderr, "%s", st_error() ? st_error() : "");
    st_net_free(n), st_dataset_free(digits), st_optim_free(o);
    return st_error() != NULL;
}
END
cat >load.c <<'END'
#include "own.h"

int main(int argc, char **argv)
{
    const st_layer_type *types[] = { argc > 1 ? NULL : &own, NULL };
    st_net *n = st_net_load("square.safetensors", .known = { .types = types });
    st_dataset *unseen = st_digits(1000, 2);
    st_metrics score = { 0 };
    (void)argv;
    if (!st_error()) st_evaluate(n, unseen, st_cross_entropy(), &score);
    printf("%s\n", st_error() ? st_error() : score.accuracy > 0.6 ? "good" : "poor");
    st_net_free(n), st_dataset_free(unseen);
    return st_error() != NULL;
}
END
cat >check.c <<'END'
#include "own.h"

int main(void)
{
    st_layer *l = st_layer_new(&own, NULL, 0, NULL);
    st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(2, 3, 4), (st_gradcheck_options){ 0 });
    printf("%d %s\n", (int)sizeof(st_real), r.text);
    st_layer_free(l);
    return !r.passed;
}
END

# shellcheck disable=SC2046
build() { $CC "$1.c" $(config --cflags --libs "$2") -o "$1"; } # NAME PACKAGE

# ---- claims ----------------------------------------------------------------------------------------

installs() {
    touch before
    tree install PREFIX="$prefix" DESTDIR= || return
    [ ! "$LIB" -nt before ] || { echo "$LIB was built again"; return 1; }
    local file
    for file in lib/libstride.a lib/libstride-double.a lib/pkgconfig/stride.pc lib/pkgconfig/stride-double.pc \
        lib/pkgconfig/stride-shared.pc lib/pkgconfig/stride-double-shared.pc \
        lib/cmake/stride/stride-config.cmake lib/cmake/stride/stride-config-version.cmake share/man/man3/stride.3 \
        include/stride/stride.h include/stride/layers/layer.h include/stride/tensor/tensor.h; do
        [ -s "$prefix/$file" ] || { echo "missing: $file"; return 1; }
    done
    ! find "$prefix" -name '*_impl.h' | grep .
}
trains() { build train stride && ./train && [ -s square.safetensors ]; }
# Each header alone, of the installed ones, with the flags of either package.
headers_compile() {
    local package header
    for package in stride stride-double; do
        for header in $(cd "$prefix/include/stride" && find . -name '*.h'); do
            printf '#include "%s"\n#include "tensor/real.h"\nint main(void) { return !&ST_PRECISION; }\n' "$header" >header.c
            build header $package && ./header || { echo "$package, $header"; return 1; }
        done
    done
}
loads() { build load stride && ./load | grep -x good; }
names_the_unknown() { ! ./load unknown >out && cat out && grep -q 'square\.safetensors: .*own' out; }
is_found_without_help() {
    ! command -v ldd >/dev/null || env -u LD_LIBRARY_PATH ldd train | grep -F "$prefix/lib/libstride.so"
}
# The example of the page that was installed.
manual_compiles() {
    sed -n '/^#include <stride/,/^\.Ed/p' "$prefix/share/man/man3/stride.3" | sed '/^\./d; s/\\e/\\/g' >manual.c
    [ -s manual.c ] && build manual stride && ./manual && [ -s digits.safetensors ]
}
# Beside the shared library, which the program then runs without.
links_statically() {
    # shellcheck disable=SC2046
    $CC load.c $(config --static --cflags --libs stride) -o static || return
    without_libraries ./static | grep -x good
}
without_libraries() { # COMMAND...
    mv "$prefix/lib" "$prefix/moved"
    "$@"
    local status=$?
    mv "$prefix/moved" "$prefix/lib"
    return $status
}
# A file of either precision, by the flags that docs/install.md says.
serves_both() {
    local half kind
    cp "$root/tests/door/half.c" "$root/tests/door/both.c" .
    for half in float:stride double:stride-double; do
        # shellcheck disable=SC2046
        $CC -c half.c $(config --cflags "${half#*:}") -o "${half%:*}.o" || return
    done
    for kind in '' --static; do
        # shellcheck disable=SC2046,SC2086
        $CC both.c float.o double.o $(config $kind --libs stride stride-double) -o both && ./both >out && cat out || return
        [ "$(grep -c 'loss 0x1' out)" = 2 ] || return
        [ -z "$kind" ] || without_libraries ./both || return
    done
}
# Everything in one file, where there are archives of all that it needs.
links_all_statically() {
    # shellcheck disable=SC2046
    $CC -static load.c $(config --static --cflags --libs stride) -o whole && ./whole | grep -x good
}
# Installed in a folder with a space in its name, and moved to another.
moves() {
    rm -rf "$tmp/a place" "$tmp/another place"
    tree install PREFIX="$tmp/a place" DESTDIR= && build_at "$tmp/a place" && mv "$tmp/a place" "$tmp/another place" || return
    ! $PKG_CONFIG --help | grep -q define-prefix || build_at "$tmp/another place" --define-prefix
}
build_at() { # PREFIX OPTION...
    local folder=$1/lib/pkgconfig
    shift
    eval "$CC check.c $(PKG_CONFIG_PATH=$folder $PKG_CONFIG "$@" --cflags --libs stride-double) -o moved" && ./moved
}
checks_in_double() { build check stride-double && ./check >out && cat out && grep -q '^8 ' out; }
checks_in_float() { build check stride && ./check >out && cat out && grep -q '^4 ' out; }
does_not_mix() {
    # shellcheck disable=SC2046
    ! $CC load.c $(config --cflags stride) $(config --libs stride-double) -o mixed 2>out && grep -q st_precision_is_float out &&
        ! $CC load.c $(config --cflags stride-double) $(config --libs stride) -o mixed 2>out && grep -q st_precision_is_double out
}
# The program's headers, the library that it runs with, the .pc files and the library's file.
versions_agree() {
    cat >version.c <<'END'
#include <stride.h>
#include <string.h>
int main(void)
{
    char parts[32];
    snprintf(parts, sizeof parts, "%d.%d.%d", ST_VERSION_MAJOR, ST_VERSION_MINOR, ST_VERSION_PATCH);
    printf("%s\n", st_version());
    return strcmp(parts, ST_VERSION) || strcmp(parts, st_version());
}
END
    local version
    build version stride && version=$(./version) && [ "$version" = "$(config --modversion stride)" ] &&
        [ "$version" = "$(config --modversion stride-double)" ] || return
    [ "$(uname -s)" = Darwin ] || [ -f "$prefix/lib/libstride.so.$version" ]
}
# Twice: what is there is written over.
uninstalls() {
    find "$prefix" ! -type d | sort >once
    find "$prefix" -type f -exec cksum {} + | sort >sums
    tree install PREFIX="$prefix" DESTDIR= || return
    find "$prefix" ! -type d | sort | diff once - && find "$prefix" -type f -exec cksum {} + | sort | diff sums - || return
    touch "$prefix/lib/other.a" "$prefix/include/other.h"
    tree uninstall PREFIX="$prefix" DESTDIR= || return
    [ "$(cd "$prefix" && find . ! -type d | sort | tr '\n' ' ')" = "./include/other.h ./lib/other.a " ] &&
        [ ! -e "$prefix/include/stride" ] || { find "$prefix"; return 1; }
}
stages() {
    local stage=$tmp/stage
    rm -rf "$stage"
    (umask 077 && tree install PREFIX=/usr/stride DESTDIR="$stage") || return
    ! find "$stage/usr" ! -type l ! -perm -a=r | grep . && ! find "$stage/usr" -type d ! -perm -a=x | grep . || return
    [ "$(ls "$stage/usr")" = stride ] && [ "$(ls "$stage")" = usr ] && ! grep -rF "$stage" "$stage/usr/stride/lib/pkgconfig" &&
        grep -qx 'prefix=/usr/stride' "$stage/usr/stride/lib/pkgconfig/stride.pc" || { find "$stage"; return 1; }
    tree uninstall PREFIX=/usr/stride DESTDIR="$stage" && ! find "$stage" ! -type d | grep .
}
goes_where_told() {
    local stage=$tmp/folders folders
    folders=(PREFIX=/usr BINDIR=/usr/games LIBDIR=/usr/lib/some INCLUDEDIR=/opt/headers DATADIR=/data MANDIR=/man DESTDIR="$stage")
    rm -rf "$stage"
    tree install "${folders[@]}" || return
    local file
    for file in usr/lib/some/libstride.a usr/lib/some/cmake/stride/stride-config.cmake opt/headers/stride.h man/man3/stride.3; do
        [ -s "$stage/$file" ] || { echo "missing: $file"; find "$stage"; return 1; }
    done
    grep -x 'libdir=${prefix}/lib/some' "$stage/usr/lib/some/pkgconfig/stride.pc" &&
        grep -x 'includedir=/opt/headers' "$stage/usr/lib/some/pkgconfig/stride.pc" &&
        grep -F '"/opt/headers"' "$stage/usr/lib/some/cmake/stride/stride-config.cmake" || return
    tree uninstall "${folders[@]}" && ! find "$stage" ! -type d | grep .
}
# The program with its twin, its page and its completions; here one that only says what it was asked.
programs_come_along() {
    local home=$tmp/programs fake=$tmp/fake what where
    mkdir -p "$fake"
    printf '#!/bin/sh\necho "$*"\n' >"$fake/stride" && chmod +x "$fake/stride" && cp "$fake/stride" "$fake/stride-double" || return
    tree install PREFIX="$home" DESTDIR= PROGRAM="$fake/stride" PROGRAM_DOUBLE="$fake/stride-double" || return
    [ -x "$home/bin/stride" ] && [ -x "$home/bin/stride-double" ] || return
    while read -r where what; do
        [ "$(cat "$home/share/$where")" = "$what" ] || { echo "$where: not as from stride $what"; return 1; }
    done <<'END'
man/man1/stride.1 help man
bash-completion/completions/stride completion bash
zsh/site-functions/_stride completion zsh
fish/vendor_completions.d/stride.fish completion fish
END
    tree uninstall PREFIX="$home" DESTDIR= PROGRAM="$fake/stride" PROGRAM_DOUBLE="$fake/stride-double" && ! find "$home" ! -type d | grep . || return
    # A package of another machine, which cannot be run here.
    tree install PREFIX="$home" DESTDIR= PROGRAM="$fake/stride" PROGRAM_DOUBLE= RUN=false 2>&1 | grep 'does not run here' &&
        [ -x "$home/bin/stride" ] && [ ! -e "$home/share/man/man1/stride.1" ]
}
# As somebody else than root, who has nothing but a home.
needs_no_root() {
    local home=$tmp/home status
    mkdir -p "$home" && chown 65534 "$home" || return
    setpriv --reuid=65534 --clear-groups env HOME="$home" CFLAGS="$TREE_CFLAGS" "${MAKE:-make}" -C "$root" install PREFIX="$home/.local" DESTDIR= &&
        [ -f "$home/.local/lib/libstride.a" ]
    status=$?
    rm -rf "$home"
    return $status
}
builds_elsewhere() {
    # Without what was given to the make that runs this.
    env -u MAKEFLAGS -u BUILD "${MAKE:-make}" -n -C "$root" O="$tmp/elsewhere" lib >out || return
    grep -q -- "-o $tmp/elsewhere/float/nn/stride.o" out && ! grep -q -- '-o build/' out
}
refuses_spaces() {
    ! tree -n BUILD='a folder' lib >out 2>&1 && cat out && grep -q '"a folder": expected no spaces' out
}
builds_for_another_machine() {
    env -u MAKEFLAGS "${MAKE:-make}" -n -C "$root" O="$tmp/cross" CROSS_COMPILE=some-machine- lib >out 2>&1 || { cat out; return 1; }
    grep -q 'some-machine-gcc -std=c11' out && grep -q 'some-machine-ar rcs' out && ! grep -E "(^|[; ])$CC " out
}

claim "make install puts headers, libraries and .pc files there" installs
claim "every header compiles alone" headers_compile
claim "a program with a layer of its own trains and saves" trains
claim "the library is found where it was installed" is_found_without_help
claim "another loads the net, given the layer's type" loads
claim "and names the type where it is not given" names_the_unknown
claim "the example of stride(3) trains and saves" manual_compiles
claim "a program links with the archive alone" links_statically
claim "files of both precisions make one program, shared and from archives" serves_both
# Where libpng or TurboJPEG is installed there is a library of pictures, in both precisions, shared and as an archive.
reads_pictures() {
    local package kind
    cat >pictures.c <<'END2'
#include <nn/pictures/pictures.h>
#include <stdio.h>
int main(void)
{
    st_dataset *none = st_pictures("nowhere", .height = 8, .width = 8);
    puts(!none && st_error() && st_picture_named("a.png") == ST_PICTURE_PNG ? "good" : "bad");
    return 0;
}
END2
    for package in stride-pictures stride-pictures-double; do
        for kind in '' --static; do
            # shellcheck disable=SC2046
            $CC -pedantic-errors pictures.c $(config $kind --cflags --libs $package) -o pictures && ./pictures | grep -x good || return
        done
    done
}
if [ -e "$prefix/lib/pkgconfig/stride-pictures.pc" ]; then
    claim "folders of pictures are a library of their own" reads_pictures
else
    skip "libstride-pictures: neither libpng nor TurboJPEG was found"
fi
claim "a gradient is checked with stride" checks_in_float
claim "a gradient is checked with stride-double" checks_in_double
claim "headers of one precision do not link with the other's library, and the linker says why" does_not_mix
claim "headers, library and .pc files say one version" versions_agree
claim "an installation may have spaces in its path, and may be moved" moves
if echo 'int main(void) { return 0; }' | eval "$CC -static -x c - $LIBS -o probe" 2>/dev/null; then
    claim "a program links with nothing but archives" links_all_statically
else
    skip "a program of nothing but archives: those of BLAS, jansson, zlib or the compiler are not installed"
fi
claim "make uninstall leaves nothing of ours, and what is not ours" uninstalls
claim "make install DESTDIR=... stages for another place, readable by all whatever the umask" stages
claim "each kind of file goes where it is told to" goes_where_told
claim "the program stride comes with its page of the manual and its completions" programs_come_along
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups test -r "$root/Makefile" -a -x "$tmp" 2>/dev/null; then
    claim "who is not root installs in a folder of their own" needs_no_root
fi
claim "make O=... builds in another folder" builds_elsewhere
claim "a build folder with spaces in its path is refused" refuses_spaces
claim "make CROSS_COMPILE=... builds with that compiler and archiver" builds_for_another_machine
exit $failed
