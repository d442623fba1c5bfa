#!/usr/bin/env bash
# What `make install` leaves is enough: programs outside the tree, built by one command, and nothing is
# left after `make uninstall`.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/install
root=$PWD
prefix=$tmp/prefix
mkdir -p "$tmp/away"
cd "$tmp/away" || exit 1
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
skip_all() { # REASON
    echo "skip installation: $1"
    exit 0
}
[ -z "${SANITIZE:-}" ] || skip_all "a sanitizer's library is not for installing"
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
$PKG_CONFIG --version >/dev/null 2>&1 || skip_all "pkg-config is not installed"

# The tree as it is built: what was given to the make that runs this comes along in MAKEFLAGS and in the
# environment, but for CFLAGS, which here begin with what a program of the tree needs.
cflags=${CFLAGS#* -pthread }
cflags=${cflags#* } # OpenMP's
tree() { CFLAGS=$cflags "${MAKE:-make}" -C "$root" "$@"; }
config() { PKG_CONFIG_PATH="$prefix/lib/pkgconfig" $PKG_CONFIG "$@"; }

# ---- the programs ----------------------------------------------------------------------------------

cat >own.h <<'END'
#include <nn/stride.h>

/* y = x² + w */
static int plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "weight", SHAPE(1), (layer_init){ .constant = 1 });
}
static void forward(layer *l, tensor x, tensor y)
{
    tensor_copy(y, x);
    for (ptrdiff_t i = 0; i < tensor_count(y); i++)
        tensor_data(y)[i] = tensor_data(y)[i] * tensor_data(y)[i] + tensor_data(l->param[0])[0];
}
static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)l, (void)y;
    tensor_copy(dx, x);
    for (ptrdiff_t i = 0; i < tensor_count(dx); i++) tensor_data(dx)[i] *= 2 * tensor_data(dy)[i];
}
static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)x, (void)y;
    for (ptrdiff_t i = 0; i < tensor_count(dy); i++) tensor_data(l->grad[0])[0] += tensor_data(dy)[i];
}
static const layer_type own = {
    .name = "own", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};
END
# A net with a layer of its own, from nothing to a file.
cat >train.c <<'END'
#include <nn/stride.h>
static int plan(layer *l, shape x, shape *y) { (void)l; *y = x; return 0; }
static void forward(layer *l, tensor x, tensor y)
{
    (void)l;
    tensor_copy(y, x);
    tensor_multiply(y, x);
}
static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)l, (void)y;
    tensor_copy(dx, dy);
    tensor_multiply(dx, x);
    tensor_scale(dx, 2);
}
static const layer_type square = { .name = "square", .plan = plan, .forward = forward, .backward = backward };

int main(void)
{
    net *n = net_new(SHAPE(1, 28, 28), layer_flatten(), layer_dense((dense){ .out_features = 16 }),
                     layer_new(&square, NULL, 0, NULL), layer_dense((dense){ .out_features = 10 }));
    data *digits = digits_new(3000, 1);
    optim *o = optim_adam((adam){ .lr = 0.002 });
    train_run(n, digits, (train){ .epochs = 4, .loss = loss_cross_entropy(0), .optim = o }, NULL);
    net_save(n, "square.safetensors");
    fprintf(stderr, "%s", error_text() ? error_text() : "");
    net_free(n), data_free(digits), optim_free(o);
    return error_text() != NULL;
}
END
{
    sed -n '1,/^static const/p' train.c
    cat <<'END'
int main(int argc, char **argv)
{
    const layer_type *types[] = { argc > 1 ? NULL : &square, NULL };
    net *n = net_load("square.safetensors", 64, (net_known){ .types = types });
    data *unseen = digits_new(1000, 2);
    train_score score = { 0 };
    (void)argv;
    if (!error_text()) train_evaluate(n, unseen, loss_cross_entropy(0), &score);
    printf("%s\n", error_text() ? error_text() : score.accuracy > 0.6 ? "good" : "poor");
    net_free(n), data_free(unseen);
    return error_text() != NULL;
}
END
} >load.c
{
    cat own.h
    cat <<'END'
int main(void)
{
    layer *l = layer_new(&own, NULL, 0, NULL);
    gradcheck_result r = gradcheck_layer(l, SHAPE(2, 3, 4), (gradcheck){ 0 });
    printf("%d %s\n", (int)sizeof(real), r.text);
    layer_free(l);
    return !r.passed;
}
END
} >check.c

# shellcheck disable=SC2046
build() { $CC "$1.c" $(config --cflags --libs "$2") -o "$1"; } # NAME PACKAGE

# ---- claims ----------------------------------------------------------------------------------------

installs() {
    touch before
    tree install PREFIX="$prefix" DESTDIR= || return
    [ ! "$LIB" -nt before ] || { echo "$LIB was built again"; return 1; }
    local file
    for file in lib/libstride.a lib/libstride-double.a lib/pkgconfig/stride.pc lib/pkgconfig/stride-double.pc \
        include/stride/nn/stride.h include/stride/layers/layer.h include/stride/tensor/tensor.h; do
        [ -s "$prefix/$file" ] || { echo "missing: $file"; return 1; }
    done
    ! find "$prefix" -name '*.h' -exec grep -l 'private to' {} + | grep .
}
trains() {
    [ "$(wc -l <train.c)" -le 30 ] && build train stride && ./train && [ -s square.safetensors ]
}
loads() { build load stride && ./load | grep -x good; }
names_the_unknown() { ! ./load unknown >out && cat out && grep -q 'square\.safetensors: .*square' out; }
is_found_without_help() {
    ! command -v ldd >/dev/null || env -u LD_LIBRARY_PATH ldd train | grep -F "$prefix/lib/libstride.so"
}
# From a folder where the linker finds the archive alone.
links_statically() {
    mkdir -p archive && cp "$prefix/lib/libstride.a" archive || return
    # shellcheck disable=SC2046
    $CC load.c $(config --define-variable=libdir="$PWD/archive" --static --cflags --libs stride) -o static || return
    mv "$prefix/lib" "$prefix/moved"
    ./static | grep -x good
    local status=$?
    mv "$prefix/moved" "$prefix/lib"
    return $status
}
checks_in_double() { build check stride-double && ./check >out && cat out && grep -q '^8 ' out; }
checks_in_float() { build check stride && ./check >out && cat out && grep -q '^4 ' out; }
does_not_mix() {
    # shellcheck disable=SC2046
    ! $CC load.c $(config --cflags stride) $(config --libs stride-double) -o mixed
}
# The program's headers, the library that it runs with, the .pc files and the library's file.
versions_agree() {
    cat >version.c <<'END'
#include <nn/stride.h>
#include <string.h>
int main(void)
{
    char parts[32];
    snprintf(parts, sizeof parts, "%d.%d.%d", STRIDE_VERSION_MAJOR, STRIDE_VERSION_MINOR, STRIDE_VERSION_PATCH);
    printf("%s\n", stride_version());
    return strcmp(parts, STRIDE_VERSION) || strcmp(parts, stride_version());
}
END
    local version
    build version stride && version=$(./version) && [ "$version" = "$(config --modversion stride)" ] &&
        [ "$version" = "$(config --modversion stride-double)" ] || return
    [ "$(uname -s)" = Darwin ] || [ -f "$prefix/lib/libstride.so.$version" ]
}
# Twice: what is there is written over.
uninstalls() {
    tree install PREFIX="$prefix" DESTDIR= || return
    touch "$prefix/lib/other.a" "$prefix/include/other.h"
    tree uninstall PREFIX="$prefix" DESTDIR= || return
    [ "$(cd "$prefix" && find . ! -type d | sort | tr '\n' ' ')" = "./include/other.h ./lib/other.a " ] &&
        [ ! -e "$prefix/include/stride" ] || { find "$prefix"; return 1; }
}
stages() {
    local stage=$tmp/stage
    rm -rf "$stage"
    tree install PREFIX=/usr/stride DESTDIR="$stage" || return
    [ "$(ls "$stage/usr")" = stride ] && [ "$(ls "$stage")" = usr ] && ! grep -rF "$stage" "$stage/usr/stride/lib/pkgconfig" &&
        grep -qx 'libdir=/usr/stride/lib' "$stage/usr/stride/lib/pkgconfig/stride.pc" || { find "$stage"; return 1; }
    tree uninstall PREFIX=/usr/stride DESTDIR="$stage" && ! find "$stage" ! -type d | grep .
}

claim "make install puts headers, libraries and .pc files there" installs
claim "a program of 30 lines with a layer of its own trains and saves" trains
claim "the library is found where it was installed" is_found_without_help
claim "another loads the net, given the layer's type" loads
claim "and names the type where it is not given" names_the_unknown
claim "a program links with the archive alone" links_statically
claim "a gradient is checked with stride" checks_in_float
claim "a gradient is checked with stride-double" checks_in_double
claim "headers of one precision do not link with the other's library" does_not_mix
claim "headers, library and .pc files say one version" versions_agree
claim "make uninstall leaves nothing of ours, and what is not ours" uninstalls
claim "make install DESTDIR=... stages for another place" stages
exit $failed
