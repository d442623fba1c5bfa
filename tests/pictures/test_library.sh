#!/usr/bin/env bash
# libstride-pictures: a library of its own, for programs; a net that the program stride has trained is used by one.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/pictures
. tests/tools/claims.sh
mkdir -p "$tmp"
out=$tmp/out err=$tmp/err
build=${BIN%/bin}
[ -e "$build/libstride-pictures.a" ] || { echo "skip libstride-pictures: neither libpng nor TurboJPEG is installed"; exit 0; }
mkdir -p "$tmp/probe/a" && touch "$tmp/probe/a/1.png"
if "$BIN/stride" train relu --data "$tmp/probe" 2>&1 | grep -q 'built without libpng'; then
    echo "skip libstride-pictures: libpng is not installed (libpng-dev)"
    exit 0
fi
command -v python3 >/dev/null || { echo "skip libstride-pictures: python3, which writes pictures here, is not installed"; exit 0; }
pictures=$(${PKG_CONFIG:-pkg-config} --libs libpng 2>/dev/null; ${PKG_CONFIG:-pkg-config} --libs libturbojpeg 2>/dev/null)

# Noise of 8 by 8 pixels that is bright at the left, at the right or nowhere.
python3 - "$tmp" <<'END2'
import os, random, struct, sys, zlib

random.seed(1)

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

for part, count in ("train", 60), ("new", 20):
    for side in "left", "none", "right":
        folder = os.path.join(sys.argv[1], part, side)
        os.makedirs(folder, exist_ok=True)
        for i in range(count):
            rows = b"".join(b"\0" + bytes(random.randrange(90) + 130 * (side == ("left" if x < 4 else "right")) for x in range(8)) for _ in range(8))
            with open(f"{folder}/{i:03}.png", "wb") as f:
                f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
                        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END2
cat >"$tmp/program.c" <<'END2'
#include <nn/pictures/pictures.h>
#include <stride.h>
#include <stdio.h>

/* The same score as `stride eval`, for pictures whose classes have another order. */
int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    st_net *net = st_net_load(argv[1], .batch = 16);
    st_class_names *names = net ? st_net_classes(net) : NULL;
    st_normalization *scale = net ? st_net_normalization(net) : NULL;
    if (!names || !scale) return fprintf(stderr, "%s\n", st_error()), 1;
    const st_shape x = net->input;
    st_dataset *pictures = st_pictures(argv[2], .channels = (int)x.n[0], .height = (int)x.n[1], .width = (int)x.n[2]);
    st_pictures_match(pictures, names->count, names->name);
    st_dataset *set = st_dataset_normalize(pictures, scale);
    st_metrics score = { 0 };
    st_evaluate(net, set, st_cross_entropy(), &score);
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    else printf("accuracy=%.4f loss=%.4f\n", score.accuracy, score.loss);
    st_dataset_free(set), st_dataset_free(pictures), st_net_free(net);
    st_class_names_free(names), st_normalization_free(scale);
    return st_error() != NULL;
}
END2

run() {
    "$@" >"$out" 2>"$err"
    status=$?
    [ "$status" = 0 ] || because "$*"
}
links() {
    # shellcheck disable=SC2086
    $CC $CFLAGS "$tmp/program.c" "$build/libstride-pictures.a" "$LIB" $pictures $LIBS -o "$tmp/static" &&
        $CC $CFLAGS "$tmp/program.c" -L"$build" -lstride-pictures -lstride -Wl,-rpath,"$build" -o "$tmp/shared"
}
uses() {
    run "$BIN/stride" train 'dense 3' --data "$tmp/train" --epochs 12 --batch 8 --lr 0.02 --quiet --save "$tmp/net.safetensors" || return
    rm -rf "$tmp/other" && cp -r "$tmp/new" "$tmp/other" && rm -r "$tmp/other/left" || return
    local set kind
    for set in new other; do
        run "$BIN/stride" eval "$tmp/net.safetensors" "$tmp/$set" && tail -n 1 "$out" >"$tmp/expected" || return
        grep -q '^accuracy=1.0000 ' "$tmp/expected" || because "it has not learnt" || return
        for kind in static shared; do
            run "$tmp/$kind" "$tmp/net.safetensors" "$tmp/$set" && cmp "$out" "$tmp/expected" || return
        done
    done
}
# Neither library is asked for by libstride.
needs_neither() {
    command -v ldd >/dev/null || return 0
    ! ldd "$build/libstride.so" | grep -E 'libpng|libturbojpeg' && ldd "$build/libstride-pictures.so" | grep -q libstride.so
}
claim "a program links with libstride-pictures, as an archive and shared" links
claim "a net that stride train has made scores in a program what stride eval says" uses
claim "libstride needs neither libpng nor TurboJPEG" needs_neither
exit "${failed:?}"
