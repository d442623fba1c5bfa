#!/usr/bin/env bash
# The output of the programs of examples/, and their errors.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/programs
. tests/tools/claims.sh
root=$PWD
work=$tmp/away/here # neither data/mnist nor ../shared/mnist is to be found from here
mkdir -p "$work" "$tmp/good"
cd "$work" || exit 1
unset MNIST_DIR COLORTERM
export STRIDE_OFFLINE=1 TERM=xterm
out=$tmp/out err=$tmp/err

# ---- what a program did ----------------------------------------------------------------------------

run() { # COMMAND...: into $out, $err and $status
    "$@" >"$out" 2>"$err"
    status=$?
}

succeeds() { # COMMAND...
    run "$@"
    [ $status = 0 ] || because "$*"
}
# An error is one line on stderr, which says what is wrong, and status 1.
fails() { # PATTERN COMMAND...
    local pattern=$1
    shift
    run "$@"
    [ $status = 1 ] || because "$*: expected status 1" || return
    [ "$(lines "$err")" = 1 ] || because "$*: expected one line on stderr" || return
    grep -qE -- "$pattern" "$err" || because "$*: expected /$pattern/"
}
# A wrong command line: nothing on stdout, status 2.
refuses() { # COMMAND...
    run "$@"
    [ $status = 2 ] && [ ! -s "$out" ] && [ -s "$err" ] || because "$*: expected status 2 and words on stderr only"
}

everywhere="$BIN/mnist $BIN/predict $BIN/custom_layer ${BIN_DOUBLE:+$BIN_DOUBLE/gradcheck} $BIN/views $BIN/pooling $BIN/callbacks"

# ---- command lines ---------------------------------------------------------------------------------

helps() {
    local program option
    for program in $everywhere; do
        for option in --help -h; do
            succeeds "$program" $option || return
            grep -q "^usage: ${program##*/}" "$out" && [ ! -s "$err" ] || because "$program $option" || return
        done
    done
}
refuses_options() {
    local program
    for program in $everywhere; do refuses "$program" --no-such-option || return; done
}
refuses_values() {
    local value
    for value in --epochs --epochs= --epochs=0 --epochs=2x --epochs=99999999999999999999 --batch=0 --batch=-1 --lr=0 \
        --lr=nan --lr=inf --seed=-1 --quiet=1 a-file; do
        refuses "$BIN/mnist" "$value" || return
    done
    for value in -1 seven 7x 99999999999999999999x ''; do refuses "$BIN/predict" "$tmp/model.safetensors" "$value" || return; done
    refuses "$BIN/predict" a 1 2 && refuses "$BIN/custom_layer" --broken twice
}

claim "every program helps on stdout" helps
claim "options that there are not go to stderr, with status 2" refuses_options
claim "so do values out of range" refuses_values

# ---- numbers ---------------------------------------------------------------------------------------

# COMMAND NUMBERS...: these stand one after another in what it prints, brackets and points left out.
prints() {
    local text numbers
    succeeds "$1" || return
    text=$(tr -s '[] \n' ' ' <"$out" | sed 's/\. / /g')
    shift
    for numbers; do [[ $text = *" $numbers "* ]] || because "expected $numbers" || return; done
}
views() {
    prints "$1/views" "6 4 3 1" "shape 2, 2 , strides (-3, -2), offset 5" "1 2 3 2 3 4 3 4 5 4 5 6" "1 2 30 2 30 4 30 4 5 4 5 6" \
        "18.5 40 37.75 12 28.5 27 25 49.75 38.25 27.25 36.5 31 44 28.75 33.5 35.75" \
        "32 57 49 18 44 54 45 58 50 50 62 54 61 37 55 63" "50 57 54 45 50 62 61 55" "are the same place: yes" "the same place? no"
}
pooling() {
    prints "$1/pooling" "9 9 9 9 9 9 9 9 9 9 9 9 8 9 9 9 9 9 9 9 9 9 8 8 9 9 8 8 8 8 8 8" \
        "0 0 11 0 0 0 0 6 0 0 6 0 0 0 12 0 0 0 0 0 0 11 0 0 0 3 0 0 0 0 0 0 0 0 0 0" \
        "1 0 2 0 0 1 0 3 0 0 4 0 1 0 1 0 0 1 0 0 0 2 0 1 1 2 0 0 1 0 0 0 0 0 0 0"
}

callbacks() { # a rate far from both ends of the search, a stop in the middle of an epoch, an average with the lower loss
    succeeds "$1/callbacks" && awk '/^learning rate/ { rate = $3 } /^stopped/ { at = $4; of = $6 }
        /^last weights/ { last = $NF } /^average/ { average = $NF }
        END { exit !(rate > 0.01 && rate < 2 && at > 0 && at < of && average > 0 && average < last) }' "$out" || because "callbacks"
}

for precision in float double; do
    bin=$BIN claim=claim
    if [ $precision = double ]; then bin=$BIN_DOUBLE claim=claim_in_double; fi
    $claim "views: six numbers in views, blocks pooled ($precision)" views "$bin"
    $claim "pooling: a function on a window, forward and backward ($precision)" pooling "$bin"
    [ -n "${SANITIZE:-}" ] || # its twenty epochs of digits that are drawn take half a minute there
        $claim "callbacks: a learning rate, an average, a stop within an epoch ($precision)" callbacks "$bin"
done

# ---- gradients -------------------------------------------------------------------------------------

gradcheck_passes() {
    succeeds "$BIN_DOUBLE/gradcheck" || return
    local passed
    passed=$(tail -n 1 "$out" | sed -n 's/^\([1-9][0-9]*\) passed, 0 failed.*/\1/p')
    [ -n "$passed" ] && [ "$(grep -c '^ok ' "$out")" = "$passed" ] || because "expected N passed, 0 failed, and N lines"
}
gradcheck_is_complete() {
    local name
    for name in $(grep -o 'layer_type_[a-z0-9_]*' "$root/layers/types.c" | sed 's/layer_type_//' | sort -u); do
        grep -qE "^ok .*  $name(\(|\$)" "$out" || { echo "not checked: $name"; return 1; }
    done
}
# The message has the index of an element, and both numbers.
finds_what_is_broken() {
    fails 'prelu: x\[[0-9]+, [0-9]+, [0-9]+, [0-9]+\]: analytic -?[0-9.]+, numeric -?[0-9.]+, relative error' \
        "$1/custom_layer" --broken
}
custom_layer_learns() {
    succeeds "$BIN/custom_layer" && grep -q 'prelu' "$out" && [ "$(grep -c '^epoch ' "$err")" = 3 ] &&
        awk -F '[=,]' '/^validation accuracy=/ { good = $2 >= 0.8 } END { exit !good }' "$out" || because "custom_layer"
}

claim_in_double "gradcheck: all pass" gradcheck_passes
claim_in_double "gradcheck: no layer is left out" gradcheck_is_complete
claim "custom_layer --broken: the check names an element (float)" finds_what_is_broken "$BIN"
claim_in_double "custom_layer --broken: the check names an element (double)" finds_what_is_broken "$BIN_DOUBLE"
claim "custom_layer learns" custom_layer_learns

# ---- made-up images --------------------------------------------------------------------------------

# Noise with a bright square, whose place is the digit; every sixteenth is labelled wrongly, so that no net
# that has learnt gets more than 0.94 of them right.
cat >"$tmp/idx.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
static void put(FILE *f, unsigned n)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(n >> shift & 255), f);
}
int main(int argc, char **argv) /* IMAGES LABELS COUNT SIZE SEED */
{
    FILE *images = argc == 6 ? fopen(argv[1], "wb") : NULL, *labels = images ? fopen(argv[2], "wb") : NULL;
    if (!labels) return 1;
    unsigned count = (unsigned)atoi(argv[3]), size = (unsigned)atoi(argv[4]), noise = (unsigned)atoi(argv[5]);
    put(images, 0x803), put(images, count), put(images, size), put(images, size);
    put(labels, 0x801), put(labels, count);
    for (unsigned k = 0; k < count; k++) {
        unsigned digit = k % 10, top = 2 + digit / 5 * 13, left = 1 + digit % 5 * 5;
        for (unsigned i = 0; i < size; i++)
            for (unsigned j = 0; j < size; j++) {
                noise = noise * 1664525 + 1013904223;
                fputc(i - top < 8 && j - left < 5 ? 250 : (int)(noise >> 26), images);
            }
        fputc((int)(k % 16 == 15 ? (digit + 1) % 10 : digit), labels);
    }
    return fclose(images) || fclose(labels);
}
END
make_images() {
    # shellcheck disable=SC2086
    $CC -std=c11 "$tmp/idx.c" -o "$tmp/idx" &&
        "$tmp/idx" "$tmp/good/train-images-idx3-ubyte" "$tmp/good/train-labels-idx1-ubyte" 960 28 1 &&
        "$tmp/idx" "$tmp/good/t10k-images-idx3-ubyte" "$tmp/good/t10k-labels-idx1-ubyte" 200 28 2
}
claim "images are made up" make_images

model=$tmp/model.safetensors
good() { MNIST_DIR=$tmp/good "$@"; } # a command with that data
score() { tail -n 1 "$1" | cut -d ' ' -f 1-3; } # "test accuracy=… loss=…"
escapes() { grep -q "$(printf '\033')" "$@"; }

trains() {
    succeeds good "$BIN/mnist" --epochs=1 --batch=16 --save="$model" || return
    cp "$out" "$tmp/mnist.out"
    head -n 1 "$out" | grep -q '^960 images to train on, 200 to test on' || because "the first line" || return
    tail -n 1 "$out" | grep -qE '^test accuracy=[01]\.[0-9]{4} loss=[0-9]+\.[0-9]{4} seconds=[0-9]+\.[0-9]{2} images_per_second=[0-9]+$' ||
        because "the last line" || return
    [ -s "$model" ] || because "no $model"
}
learns() { score "$tmp/mnist.out" | awk -F '[= ]' '{ exit !($3 > 0.85 && $3 <= 0.94) }' || because "$(score "$tmp/mnist.out")"; }
# Right after `trains`.
progress_is_on_stderr() {
    [ "$(lines "$err")" = 1 ] && grep -q '^epoch 1/1  loss .* samples/s' "$err" && ! grep -q '^epoch' "$out" ||
        because "expected one line of progress on stderr"
}
no_colour_in_files() {
    ! escapes "$out" "$err" && succeeds good "$BIN/predict" "$model" && ! escapes "$out" "$err" || because "escapes"
}
predicts() {
    succeeds good "$BIN/predict" "$model" 7 || return
    [ "$(tail -n 1 "$out")" = "$(score "$tmp/mnist.out")" ] || because "expected $(score "$tmp/mnist.out")" || return
    grep -q '^digit 7 is a 7, read as [0-9]' "$out" && [ ! -s "$err" ] || because "digit 7" || return
    succeeds good "$BIN/predict" "$model" && grep -q '^digit 0 is a 0' "$out" || because "without a number" || return
    grep -E '^[0-9] .* %( <)?$' "$out" |
        awk '$1 != NR - 1 { wrong = 1 } { sum += $2 } END { exit wrong || NR != 10 || sum < 99 || sum > 101 }' ||
        because "expected ten probabilities"
}
is_read_by_double() {
    succeeds good "$BIN_DOUBLE/predict" "$model" || return
    awk -v want="$(score "$tmp/mnist.out")" 'BEGIN { split(want, w, /[= ]/) }
        { split($0, g, /[= ]/) } END { exit !((g[3] - w[3]) ^ 2 < 1e-4 && (g[5] - w[5]) ^ 2 < 1e-4) }' "$out" || because "double"
}
tries_first() { # no line of progress comes before the error
    fails 'mnist: .*nowhere/net: cannot be written' good "$BIN/mnist" --epochs=1 --save="$tmp/nowhere/net"
}
is_quiet() {
    succeeds good "$BIN/mnist" --quiet --epochs=1 --save="$tmp/quiet" &&
        [ "$(lines "$out")" = 1 ] && grep -q '^test accuracy=' "$out" && [ ! -s "$err" ] || because "--quiet"
}

claim "mnist trains, saves and ends with its result" trains
claim "progress goes to stderr" progress_is_on_stderr
claim "mnist learns" learns
claim "no escapes where it is no terminal" no_colour_in_files
claim "predict gives the same result" predicts
claim_in_double "a net of float is read by double" is_read_by_double
claim "mnist tries to save before it trains" tries_first
claim "mnist --quiet prints one line" is_quiet

# ---- without MNIST ---------------------------------------------------------------------------------

# Drawing 70,000 digits takes a while: the program is stopped when it has said that it does.
draws() {
    "$BIN/mnist" --quiet --save="$tmp/drawn" >"$out" 2>"$err" &
    local id=$! tries=0
    until grep -q 'instead$' "$err" || ! kill -0 $id || [ $((tries++)) = 200 ]; do sleep 0.1; done
    kill $id
    wait $id
    status=$?
    grep -qE '^MNIST not found .looked in data/mnist, ../shared/mnist.: drawing digits instead$' "$err" || because "mnist"
}
# The script that downloads: 1, one more line that says why, and no folder.
cannot_download() { # PATTERN COMMAND...
    local pattern=$1
    shift
    run "$@"
    [ $status = 1 ] && tail -n 1 "$err" | grep -qE "^MNIST could not be downloaded: $pattern" && [ ! -s "$out" ] &&
        [ ! -e data ] || because "expected /$pattern/ and no folder"
}
fake() { # BODY: a curl, in $tmp/path
    mkdir -p "$tmp/path"
    printf '#!/bin/sh\nfor last; do :; done\n%s\n' "$1" >"$tmp/path/curl"
    chmod +x "$tmp/path/curl"
}
fetch() { env -u STRIDE_OFFLINE PATH="$tmp/path:$PATH" "$root/examples/mnist.sh"; }
fails_to_download() {
    cannot_download 'STRIDE_OFFLINE is set' "$root/examples/mnist.sh" || return
    fake 'echo "curl: (6) Could not resolve host"; exit 6'
    cannot_download 'curl: \(6\) Could not resolve host' fetch || return
    fake 'while [ "$1" != -o ]; do shift; done; echo "Please sign in" >"$2"'
    cannot_download '.*train-images-idx3-ubyte.gz: SHA-256 differs from ba891046' fetch
}
# The first copy has labels only, the second all; needs the true files.
downloads() {
    fake 'while [ "$1" != -o ]; do shift; done
case $last in *amazonaws*images*) echo "not here"; exit 22 ;; esac
cp "'"$root/../shared/mnist"'/${last##*/}" "$2"'
    succeeds fetch && [ "$(ls data/mnist | wc -l)" = 4 ] || because "expected four files" || return
    fake 'echo called'
    succeeds fetch && [ ! -s "$err" ] || because "what is there is downloaded again" || return
    rm -r data
}
claim "without MNIST, mnist says that it draws digits" draws
claim "a download that fails says why, and leaves nothing" fails_to_download
if [ -e "$root/../shared/mnist/t10k-labels-idx1-ubyte.gz" ]; then
    claim "what is downloaded is compared with its check sum, from either copy" downloads
else
    echo "skip a download that succeeds: the true files are not in ../shared/mnist"
fi

# ---- bad files --------------------------------------------------------------------------------------

# How files can be wrong is tested where they are read; here, that the programs say so and stop.
images=train-images-idx3-ubyte labels=train-labels-idx1-ubyte bad=$tmp/bad
mnist_fails() { # PATTERN
    fails "^mnist: .*$1" env MNIST_DIR="$bad" "$BIN/mnist" --quiet --epochs=1 --save="$tmp/spoilt" && [ ! -s "$out" ] || because "mnist"
}
spoil() { rm -rf "$bad" && cp -r "$tmp/good" "$bad"; }
refuses_images() {
    spoil && head -c 5000 "$tmp/good/$images" >"$bad/$images" && mnist_fails "$images: truncated" || return
    spoil && { head -c 8 "$tmp/good/$labels" && printf '\012' && tail -c +10 "$tmp/good/$labels"; } >"$bad/$labels" && mnist_fails 10 || return
    spoil && rm "$bad/t10k-labels-idx1-ubyte" && mnist_fails "t10k-labels-idx1-ubyte: No such file" || return
    fails "^mnist: MNIST_DIR: .*/nowhere: MNIST's files are not there" env MNIST_DIR="$tmp/nowhere" "$BIN/mnist" --quiet
}
other_images() {
    spoil && "$tmp/idx" "$bad/$images" "$bad/$labels" 20 27 1 || return
    mnist_fails '(\[1, 27, 27\].*\[1, 28, 28\]|\[1, 28, 28\].*\[1, 27, 27\])' || return
    "$tmp/idx" "$bad/t10k-images-idx3-ubyte" "$bad/t10k-labels-idx1-ubyte" 20 27 1 || return
    fails '^predict: .*\[1, 28, 28\].*\[1, 27, 27\]' env MNIST_DIR="$bad" "$BIN/predict" "$model"
}
predict_fails() { # PATTERN FILE
    fails "^predict: $2: $1" good "$BIN/predict" "$2" && [ ! -s "$out" ] || because "expected nothing on stdout"
}
refuses_nets() {
    head -c 1000 "$model" >"$tmp/cut" && predict_fails '' "$tmp/cut" && predict_fails 'No such file' "$tmp/missing.safetensors" &&
        fails '^predict: build/mnist.safetensors: No such file or directory; make mnist saves it$' "$BIN/predict" && predict_fails '' "$tmp/good/$images" && fails '^predict: digit 200 of 200' good "$BIN/predict" "$model" 200
}

claim "files of images that are wrong are refused" refuses_images
claim "images of another size are refused" other_images
claim "nets that are wrong, and an image beyond the last, are refused" refuses_nets

# ---- nowhere to write ------------------------------------------------------------------------------

# A device like /dev/full of our own where we may make one: nothing shall happen to the system's.
full=$tmp/full
mknod "$full" c 1 7 2>/dev/null && sh -c ': >"$1"' sh "$full" 2>/dev/null || { rm -f "$full"; full=/dev/full; }

saves_nowhere() {
    fails '^mnist: .*/nowhere/net: .*No such file' good "$BIN/mnist" --quiet --epochs=1 --save="$tmp/nowhere/net" &&
        fails '^mnist: .*(not a regular file|Is a directory)' good "$BIN/mnist" --quiet --epochs=1 --save="$tmp"
}
onto() { # FILE COMMAND...: its stdout there
    local file=$1
    shift
    "$@" >"$file"
}
prints_nowhere() {
    local program
    for program in $everywhere; do
        set -- "$program"
        case $program in
        */mnist) set -- "$program" --quiet --epochs=1 --save="$tmp/spoilt" ;;
        */predict) set -- "$program" "$model" ;;
        esac
        fails "^${program##*/}: .*(No space left|stream|output|write)" good onto "$full" "$@" || return
    done
    fails '^mnist: ' good onto "$full" "$BIN/mnist" --epochs=1 --save="$tmp/spoilt"
}
helps_nowhere() {
    local program
    for program in $everywhere; do fails "^${program##*/}: .*No space left" onto "$full" "$program" --help || return; done
}

claim "a place to save to that there is not is refused" saves_nowhere
if [ -c "$full" ]; then
    claim "output that does not arrive is a failure" prints_nowhere
    claim "so is help that does not arrive" helps_nowhere
else
    echo "skip full devices: there is no /dev/full"
fi
exit $failed
