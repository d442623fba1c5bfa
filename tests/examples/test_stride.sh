#!/usr/bin/env bash
# The program stride: each subcommand on data of every kind, what it refuses and how, what shells complete.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/stride
. tests/tools/claims.sh
root=$PWD
networks=$root/examples/networks
work=$tmp/away/here # neither data/mnist nor ../shared/mnist is to be found from here
mkdir -p "$work"
cd "$work" || exit 1
unset MNIST_DIR COLORTERM
export STRIDE_OFFLINE=1 TERM=xterm
stride=$BIN/stride
out=$tmp/out err=$tmp/err
escape=$(printf '\033')

run() { # COMMAND...: into $out, $err and $status
    "$@" >"$out" 2>"$err" </dev/null
    status=$?
}
succeeds() { # ARGUMENTS...
    run "$stride" "$@"
    [ $status = 0 ] || because "stride $*"
}
complains() { # STATUS PATTERN ARGUMENTS...: one line on stderr, "stride train: …", and nothing on stdout
    local expected=$1 pattern=$2
    shift 2
    run "$stride" "$@"
    [ $status = "$expected" ] && [ "$(lines "$err")" = 1 ] && [ ! -s "$out" ] || because "stride $*: expected status $expected and one line" || return
    grep -qE -- "^stride[a-z -]*: $pattern" "$err" || because "stride $*: expected /$pattern/"
}
refuses() { complains 2 "$@"; } # a wrong command line, which also says where help is
fails() { complains 1 "$@"; }
says() { # PATTERN
    grep -qE -- "$1" "$out" || because "expected /$1/"
}
begin() { # ARGUMENTS...: in the background, as $job, until its first epoch is over
    local i
    : >"$err"
    "$stride" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
    for i in $(seq 200); do grep -q '^epoch 1/' "$err" && break || sleep 0.1; done
}
ends() {
    wait $job
    status=$?
}

# ---- help and command lines ------------------------------------------------------------------------

subcommands="train eval predict summary export bench-model gradcheck report help completion"
helps() {
    local name
    for name in $subcommands; do
        succeeds "$name" --help && says "^usage: stride $name" && [ ! -s "$err" ] || because "stride $name --help" || return
        cp "$out" "$tmp/help"
        succeeds help "$name" && cmp -s "$out" "$tmp/help" || because "stride help $name differs" || return
        awk 'length > 100 { print; long = 1 } END { exit long }' "$out" || return
        [ "$name" = help ] || [ "$(grep -c '^  .*stride ' "$out")" -ge 2 ] || because "$name has no two examples" || return
    done
    succeeds --help && for name in $subcommands; do says "^  $name +[A-Z]" || return; done
    run "$stride"
    [ $status = 2 ] && [ ! -s "$out" ] && grep -q '^usage:' "$err" && [ "$(lines "$err")" -le 10 ] || because "stride alone" || return
    succeeds --version && says '^stride [0-9]+\.[0-9]+\.[0-9]+$'
}
refuses_words() {
    refuses 'there is no subcommand frobnicate; try: stride --help' frobnicate &&
        refuses 'unknown option --verbose' --verbose &&
        refuses 'unknown option --epohcs; try: stride train --help' train --epohcs=3 &&
        refuses 'unknown option -z' train -z && refuses 'unexpected "two"' train one two &&
        refuses '--epochs needs a value, N' train --epochs && refuses '--quiet takes no value' train --quiet=1 &&
        refuses '--epochs: expected a whole number from 1 to .*, not "0"' train --epochs 0 &&
        refuses '--epochs: expected .* not "2x"' train --epochs=2x && refuses '-e: expected .*, not ""' train -e '' &&
        refuses '--lr: expected a number .*"nan"' train --lr nan && refuses '--flip: .*"1.5"' train --flip=1.5 &&
        refuses '--optim: expected one of sgd\|adam\|adamw\|rmsprop, not "adma"' train --optim adma &&
        refuses 'no network' train && refuses '--validation or --split' train --net relu --split .1 --validation x &&
        refuses '--resume needs --checkpoint FILE' train --net relu --resume &&
        refuses '--checkpoint-every needs' train --net relu --checkpoint-every 3 &&
        refuses '--save and --checkpoint are the same file, a' train --net relu --checkpoint "../${PWD##*/}/a" --save a &&
        refuses '--log and --report are the same file, a.csv' train --net relu --log a.csv --report a.csv &&
        refuses 'no network' summary && refuses 'unexpected "b"' summary a b && refuses '--net is given twice' summary relu --net tanh && refuses 'a network is given more than once' summary --net relu --model a &&
        refuses '--model is given twice' eval a.safetensors --model b && refuses 'unexpected "c"' eval a.safetensors b c &&
        refuses 'unexpected "a"' export a b.onnx && refuses 'files, or --data' predict a.png --index 3 &&
        refuses '.*expected .onnx' export model.txt && refuses '--batches: expected a list .*"1,x"' bench-model relu --batches 1,x &&
        refuses 'expected bash, zsh or fish, not "tcsh"' completion tcsh
}
claim "every subcommand helps, with examples" helps
claim "wrong words and options get status 2 and one line" refuses_words

# ---- networks --------------------------------------------------------------------------------------

summarises() {
    local net
    for net in lenet5 example bnnet mlp; do
        succeeds summary "$networks/$net.net" && says '^total' || return
    done
    succeeds summary 'conv 8 3x3, relu, dense 10' --input 1x28x28 --batch 7 && says '\[7, 8, 26, 26\]' &&
        says '^2 flatten' && says '^total +54,170 ' || return
    succeeds summary 'conv 4 2x4 dilation=1x3 padding=same' --input 1x5x7 --batch 2 && says '\[2, 4, 5, 7\]' || because "padding=same" || return
    printf 'relu\n covn 3\n' >"$tmp/bad.net"
    fails ".*bad.net: line 2, column 2: 'covn' is not a layer" summary "$tmp/bad.net" --input 1x2x3 &&
        fails "the network's input is not known" summary relu && fails "--input: '3x' is not a size" summary relu --input 3x &&
        fails 'line 1, column 1: conv2d: kernel' summary 'conv 3 9' --input 1x5x5 &&
        fails '.*none.net: No such file' summary none.net && fails '.*none.safetensors: .*No such file' summary none.safetensors
}
checks_gradients() {
    succeeds gradcheck 'conv 3 3 padding=same, tanh, maxpool 2, dense 4' --input 2x6x6 --batch 2 && says '^passed: .*float64' &&
        says '^  0.weight ' || return
    succeeds gradcheck 'dense 3' --input 5 --loss mse && says '^passed' || return
    complains_about_a_bias() { # which batch normalisation takes off again: its gradient is zero
        run "$stride" gradcheck 'conv 2 3, batchnorm, dense 3' --input 1x5x5
        [ $status = 1 ] && grep -q '^stride gradcheck: .*0.bias' "$err" || because "a bias without effect"
    }
    complains_about_a_bias || return
    mkdir -p "$tmp/alone" # without its twin
    cp "$stride" "$tmp/alone/stride"
    run env PATH=/nowhere "$tmp/alone/stride" gradcheck relu --input 3
    [ $status = 1 ] && grep -q '^stride gradcheck: .*stride-double: No such file' "$err" || because "without its twin" || return
    run "$tmp/alone/stride" gradcheck --help
    [ $status = 0 ] || because "help needs no twin" || return
    ln -sf "$stride" "$tmp/alone/linked"
    run "$tmp/alone/linked" gradcheck 'tanh' --input 3
    [ $status = 0 ] || because "by a symbolic link"
}
claim "summary: networks of files and texts, and back into text" summarises
claim "gradcheck runs in double" checks_gradients

# ---- data of every kind ----------------------------------------------------------------------------

# Drawn digits: of four classes, so that little is enough to learn them.
cat >"$tmp/write.c" <<'END'
#include <stride.h>
#include <sys/stat.h>
#ifdef WITH_PNG
#include <png.h>
#include <turbojpeg.h>
static void picture(const char *folder, int i, const unsigned char *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%c", folder, "dcba"[i % 4]);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%c/%03d.%s", folder, "dcba"[i % 4], i, i % 8 < 4 ? "png" : "jpg");
    if (i % 8 < 4) {
        png_image image = { .version = PNG_IMAGE_VERSION, .width = 28, .height = 28, .format = PNG_FORMAT_GRAY };
        png_image_write_to_file(&image, path, 0, bytes, 28, NULL);
        return;
    }
    unsigned char *packed = NULL;
    unsigned long size = 0;
    tjhandle jpeg = tjInitCompress();
    FILE *f = fopen(path, "wb");
    tjCompress2(jpeg, bytes, 28, 0, 28, TJPF_GRAY, &packed, &size, TJSAMP_GRAY, 75, 0);
    fwrite(packed, 1, size, f);
    fclose(f);
    tjFree(packed);
    tjDestroy(jpeg);
}
#endif
static void put(FILE *f, unsigned n)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(n >> shift & 255), f);
}
int main(int argc, char **argv) /* FOLDER COUNT SEED KIND */
{
    char path[4096];
    int all = atoi(argv[2]), count = 0;
    const char *kind = argc > 4 ? argv[4] : "train", *folder = argv[1];
    st_dataset *d = st_digits(all * 10 / 4 + 10, (uint64_t)atoi(argv[3]));
    st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(1)), xs = st_tensor_new(ST_SHAPE(all, 28, 28)), ys = st_tensor_new(ST_SHAPE(all));
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, kind);
    FILE *images = fopen(path, "wb");
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, kind);
    FILE *labels = fopen(path, "wb");
    snprintf(path, sizeof path, "%s/%s.csv", folder, kind);
    FILE *table = fopen(path, "w");
    put(images, 0x803), put(images, (unsigned)all), put(images, 28), put(images, 28), put(labels, 0x801), put(labels, (unsigned)all);
    for (; count < all; count++) { /* classes in turn: every ten images hold each digit once */
        unsigned char bytes[784];
        int class = count % 4;
        for (ptrdiff_t i = 0; i == 0 || (i < 10 && (int)st_item(y) != class); i++) st_dataset_batch(d, NULL, count / 4 * 10 + i, 1, x, y);
        fprintf(table, "%d", class);
        for (int k = 0; k < 784; k++) bytes[k] = (unsigned char)(255 * (double)st_data(x)[k] + 0.5), fprintf(table, ",%d", bytes[k]);
        fprintf(table, "\n");
        fwrite(bytes, 1, 784, images);
        fputc(class, labels);
        st_copy(st_select(xs, 0, count), st_reshape(x, ST_SHAPE(28, 28)));
        *st_at(ys, ST_INDEX(count)) = (st_real)class;
#ifdef WITH_PNG
        snprintf(path, sizeof path, "%s/pictures", folder), mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/pictures/%s", folder, kind[0] == 't' && kind[1] == 'r' ? "train" : "test"), mkdir(path, 0777);
        picture(path, count, bytes);
#endif
    }
    fclose(images), fclose(labels), fclose(table);
    snprintf(path, sizeof path, "%s/%s-x.npy", folder, kind), st_npy_save(path, xs);
    snprintf(path, sizeof path, "%s/%s-y.npy", folder, kind), st_npy_save(path, ys);
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(xs), st_tensor_free(ys), st_dataset_free(d);
    return st_error() != NULL;
}
END
makes_data() {
    local picture_flags='' with=''
    if echo '' | $CC -E -include stdio.h -include png.h -include turbojpeg.h - >/dev/null 2>&1; then
        with=-DWITH_PNG picture_flags='-lpng -lturbojpeg'
    fi
    # shellcheck disable=SC2086
    $CC $CFLAGS $with -include stdlib.h -include stdio.h -include nn/data/formats.h "$tmp/write.c" "$LIB" $picture_flags $LIBS -o "$tmp/write" &&
        mkdir -p "$tmp/digits" && "$tmp/write" "$tmp/digits" 320 1 train && "$tmp/write" "$tmp/digits" 80 2 t10k
}
claim "digits are drawn into files" makes_data

net='conv 6 5x5 stride=2, relu, maxpool 2, dense'
digits=$tmp/digits model=$tmp/model.safetensors
train() { succeeds train --epochs 4 --batch 16 --lr 0.01 --threads 1 "$@"; }
same_tensor() { # NAME FILE FILE
    python3 - "$@" <<'END'
import json, struct, sys

def read(path, name):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        begin, end = header[name]["data_offsets"]
        f.seek(begin, 1)
        return f.read(end - begin)

sys.exit(read(sys.argv[2], sys.argv[1]) != read(sys.argv[3], sys.argv[1]))
END
}
learnt() { # NAME: the last line says so
    awk -F '[= ]' -v name="$1" 'END { exit !($1 == name && $2 == "accuracy" && $3 >= 0.85) }' "$out" || because "has not learnt"
}
trains() {
    train --net "$net 10" --data "$digits" --save "$model" --log "$tmp/log.jsonl" --report "$tmp/run.html" || return
    says '320 samples to train on, 80 to validate' && says '^total' && says '^training loss .*█' && says '^validation loss' && says "^net: $model" &&
        learnt validation || return
    [ "$(lines "$tmp/log.jsonl")" = 4 ] && [ "$(grep -c '^epoch [1-4]/4 .*validation accuracy' "$err")" = 4 ] || because "its epochs" || return
    grep -q 'html>' "$tmp/run.html" && ! grep -q resumed "$tmp/run.html" || because "the report" || return
    cp "$out" "$tmp/first"
    ! grep -q "$(printf '\033')" "$out" "$err" || because "escapes into a file"
}
reports() { # what a run was, and several of them in one page
    local page=$tmp/run.html
    grep -q '<dt>date</dt><dd>20[0-9-]* ' "$page" && grep -q "<dt>command</dt><dd>stride train .*--epochs 4.*--net &#39;$net 10&#39;" "$page" &&
        grep -q '<dt>preparation</dt><dd>normalize mean' "$page" && grep -q '<dt>training</dt><dd>cross-entropy, adam, lr 0.01, schedule cosine' "$page" &&
        grep -q '<dt>machine</dt><dd>[A-Z].*, float32</dd>' "$page" && grep -q "aria-label=\"network\">$net 10</pre>" "$page" || because "its head" || return
    # A relu before a max pooling has the shape that it was given, though it runs on less.
    sed -n 's|^<tr><th scope="row"[^>]*>\([0-9] [a-z0-9]*\).*</th><td class="text">\(\[[0-9, ]*\]\)</td>.*|\1 \2|p' "$page" | tr '\n' ' ' >"$tmp/shapes"
    grep -qF '0 conv2d [6, 12, 12] 1 relu [6, 12, 12] 2 maxpool [6, 6, 6] 3 flatten [216] 4 dense [10]' "$tmp/shapes" || { cat "$tmp/shapes"; return 1; }
    head -n 3 "$tmp/log.jsonl" >"$tmp/other.jsonl"
    succeeds report "$tmp/log.jsonl" "$tmp/other.jsonl" --output "$tmp/compared.html" && grep -q '3 of 3</td>' "$tmp/compared.html" &&
        [ "$(grep -c '<path class="line run[01]"' "$tmp/compared.html")" = 8 ] || because "two runs" || return
    fails '.*none.csv: No such file' report "$tmp/none.csv" && fails '.*expected a log.s name to end in' report "$tmp/first" &&
        refuses '--output and .* are the same file' report "$tmp/log.jsonl" --output "$tmp/log.jsonl"
}
needs_no_flags() {
    succeeds eval --model "$model" --data "$digits" || return
    [ "$(awk 'END { print $1 }' "$out")" = "$(awk 'END { print $2 }' "$tmp/first")" ] || because "expected the score of training" || return
    says '^ *class +samples' && says '^ +3 +20 ' || return
    MNIST_DIR=$digits succeeds eval --model "$model" && says '^accuracy' || return
    succeeds eval --model "$model" --data "$digits" --part train && says '320 samples' || return
    succeeds summary "$model" && says '^normalization: .*"mean"' && says '^classes: \["0","1"' || return
    fails '.*None|.*has no test part' eval --model "$model" --data "$digits/train.csv" --part test
}
evaluates_in_json() {
    succeeds eval "$model" "$digits" --json || return
    tr -d ' \n' <"$out" | grep -qE '^\{"samples":80,"loss":[0-9.e-]+,"accuracy":[0-9.]+,"classes":\[\{"name":"0","samples":20,.*"confusion":\[\[' ||
        because "JSON"
}
predicts() {
    succeeds predict --model "$model" --data "$digits" --index 6 --top 3 && [ "$(lines "$out")" = 1 ] &&
        says '^sample 6 of MNIST in .*, a 2: [0-9] [01]\.[0-9]{4}, [0-9] 0\.[0-9]{4}, [0-9] 0' || return
    succeeds predict --model "$model" "$digits/t10k-x.npy" --top 1 && [ "$(lines "$out")" = 80 ] || because "of an array" || return
    awk -F '[][ ]' '($2 % 4) == $4 { hits++ } END { exit !(hits >= 68) }' "$out" || because "what the array's images are" || return
    succeeds predict --model "$model" --data "$digits" --index 0 --json --top 2 || return
    tr -d ' \n' <"$out" | grep -qE '^\[\{"input":.*"class":"[0-9]","probability":[0-9.e-]+,"classes":\[\{"class":.*\}\]\}\]$' || because "JSON" || return
    fails '--index: sample 99 of 80' predict --model "$model" --data "$digits" --index 99 &&
        fails '.*seven.png: (No such file|built without)' predict --model "$model" seven.png &&
        fails 'none: No such file' predict --model none a.png
}
repeats() { # one seed, one file, whatever the threads
    local threads
    for threads in 1 2; do
        STRIDE_GRAIN=0 succeeds train --net "$net 10, softmax" --data "$digits" --epochs 1 --threads $threads --rotation 10 --shift 2 --noise 0.1 --flip 0.1 \
            --scale 0.1 --shear 5 --cutout 3 --optim sgd --nesterov --schedule one-cycle --warmup 3 --clip 1 --label-smoothing 0.1 --weight-decay 1e-4 \
            --quiet --save "$tmp/threads$threads.safetensors" && [ "$(lines "$out")" = 1 ] && [ ! -s "$err" ] || because "quiet" || return
    done
    cmp "$tmp/threads1.safetensors" "$tmp/threads2.safetensors"
}
goes_on() { # as if it had not ended; the checkpoint is a saved net, too
    local run="train --data $digits --epochs 4 --schedule constant --rotation 5 --shift 1 --quiet"
    checkpointed() { # EPOCHS ARGUMENTS...: a later --epochs counts
        # shellcheck disable=SC2086
        succeeds $run --net "$net 10" --epochs "$@" --checkpoint "$tmp/run" --resume
    }
    # shellcheck disable=SC2086
    succeeds $run --net "$net 10" --save "$tmp/whole" || return
    checkpointed 2 --save "$tmp/half" --checkpoint-every 3 && checkpointed 4 --save "$tmp/rest" --report "$tmp/rest.html" && cmp "$tmp/whole" "$tmp/rest" || return
    grep -qE 'resumed.*after step [0-9]+, from .*/run; without --log earlier epochs are not shown' "$tmp/rest.html" || because "a page of a part says nothing" || return
    ! cmp -s "$tmp/half" "$tmp/whole" || because "half of it is all of it" || return
    cp "$tmp/run" "$tmp/run.before"
    checkpointed 4 --save "$tmp/rest" && says 'epochs=4 seconds=0.00' && cmp "$tmp/whole" "$tmp/rest" || because "a run that is over" || return
    succeeds eval --model "$tmp/run" --data "$digits" && says '^accuracy=' && says '^ *3 +20 ' || return
    # shellcheck disable=SC2086
    fails '.*/run: .* a run with preparation "augment rotation 5, shift 1, seed 1; normalize mean .*", this one has "augment rotation 7' \
        $run --net "$net 10" --rotation 7 --checkpoint "$tmp/run" --resume --save "$tmp/none" || return
    # shellcheck disable=SC2086
    fails '.*/run: .*a run with (adam.)?lr 0.001' $run --net "$net 10" --lr 0.5 --checkpoint "$tmp/run" --resume --save "$tmp/none" &&
        cmp "$tmp/run" "$tmp/run.before" && fails '.*nowhere/run: cannot be written' $run --net "$net 10" --checkpoint "$tmp/nowhere/run" || return
    succeeds train --net "$net 10" --data "$digits" --epochs 1 --checkpoint "$tmp/fresh" --resume --save "$tmp/half" &&
        says 'fresh does not exist: starting from the beginning' &&
        succeeds train --net "$net 10" --data "$digits" --epochs 1 --checkpoint "$tmp/fresh" --resume --save "$tmp/half" && says 'resuming from .*/fresh' || return
    # The log goes on, too: whole, cut off in its last line, of an epoch more than the checkpoint has.
    rm "$tmp/run" && succeeds $run --net "$net 10" --save "$tmp/whole" --log "$tmp/whole.csv" &&
        checkpointed 2 --save "$tmp/half" --log "$tmp/parts.csv" && printf '3,60,0.0' >>"$tmp/parts.csv" &&
        checkpointed 4 --save "$tmp/rest" --log "$tmp/parts.csv" --report "$tmp/parts.html" && cmp "$tmp/whole.csv" "$tmp/parts.csv" || because "the log of a run in parts" || return
    # So does its page, of a run that is over, too: the same numbers, but for how long an epoch took.
    epochs_of() { sed -n 's|^<tr.*<th scope="row">\([1-9].* %</td>.*\)<td>[^<]*</td></tr>$|\1|p' "$1"; }
    checkpointed 4 --save "$tmp/rest" --log "$tmp/parts.csv" --report "$tmp/over.html" && ! grep -q resumed "$tmp/parts.html" "$tmp/over.html" &&
        [ "$(epochs_of "$tmp/parts.html" | grep -c '^[1-4].*<td>')" = 4 ] &&
        [ "$(epochs_of "$tmp/parts.html")" = "$(epochs_of "$tmp/over.html")" ] || because "the page of a run in parts" || return
    echo words >"$tmp/old.csv" # what is no log is kept
    fails '.*old.csv: ' $run --net "$net 10" --epochs 5 --checkpoint "$tmp/run" --resume --log "$tmp/old.csv" --save "$tmp/half" &&
        [ "$(cat "$tmp/old.csv")" = words ]
}
hints() {
    succeeds train --net 'dense 4, softmax' --data "$digits/train.csv" --epochs 1 --save "$tmp/hint" && says 'remove it from the end of the network' &&
        fails '.*trained on .*/train.csv: give --data' predict --model "$tmp/hint" --index 6 &&
        fails '.*trained on .*/train.csv: give --data' predict --model "$tmp/hint" &&
        fails '--loss mse needs targets that are numbers' train 'dense 4' --data "$digits/train.csv" --loss mse
}
diverges() {
    fails '.*(weight|layer|dense).* is -?(inf|nan) at' train --net 'dense 1' --data "$digits/train.csv" --label 0 --targets 1 --no-normalize --loss mse --optim sgd --momentum 0 \
        --lr 1e6 --epochs 60 --quiet --save "$tmp/none"
}
spares() { # what it reads; files that are written twice
    local images="$tmp/images" labels="$tmp/labels" text="$tmp/own.net"
    cp "$digits/train-images-idx3-ubyte" "$images" && cp "$digits/train-labels-idx1-ubyte" "$labels" && echo "$net 4" >"$text" &&
        ln -sf images "$tmp/linked" || return
    set -- train --net "$text" --data "$images,$labels" --epochs 1
    refuses "--save and --net are the same file, $text" "$@" --save "$text" &&
        refuses "--checkpoint and --data are the same file, $labels" "$@" --checkpoint "$labels" &&
        refuses "--report and --data are the same file, $tmp/linked" "$@" --report "$tmp/linked" &&
        refuses "--save and --validation are the same file, $model" "$@" --validation "$model" --save "$model" &&
        cmp "$images" "$digits/train-images-idx3-ubyte" && cmp "$labels" "$digits/train-labels-idx1-ubyte"
}
tells_damage() { # the last parameters are no numbers: eight bytes of ones, in either precision
    cp "$model" "$tmp/damaged" && printf '\377\377\377\377\377\377\377\377' |
        dd of="$tmp/damaged" bs=1 seek=$(($(wc -c <"$model") - 8)) conv=notrunc 2>"$err" || return
    fails 'samples 0 to 63: the loss is nan' eval --model "$tmp/damaged" --data "$digits" &&
        fails 'sample 0 .*: output [0-9]+ is nan' predict --model "$tmp/damaged" --data "$digits" --index 0 --json && [ ! -s "$out" ]
}
reads_idx() {
    train --net "$net 4" --data "$digits/train-images-idx3-ubyte,$digits/train-labels-idx1-ubyte" --validation "$digits/t10k-images-idx3-ubyte,$digits/t10k-labels-idx1-ubyte" \
        --save "$tmp/idx.safetensors" && learnt validation
}
reads_npy() {
    train --net "$net 4" --data "$digits/train-x.npy,$digits/train-y.npy" --split 0.25 --save "$tmp/npy.safetensors" &&
        says '240 samples to train on, 80 to validate' && learnt validation &&
        succeeds eval --model "$tmp/npy.safetensors" --data "$digits/t10k-x.npy,$digits/t10k-y.npy" && says '^accuracy=(0.[89]|1)' &&
        fails '.*train-y.npy: a single number per sample' train --net relu --data "$digits/train-y.npy,$digits/train-x.npy" &&
        fails '.*no labels' train --net relu --data "$digits/train-x.npy"
}
reads_tables() {
    train --net "$net 4" --data "$digits/train.csv" --image 1x28x28 --validation "$digits/t10k.csv" --save "$tmp/csv.safetensors" &&
        learnt validation && succeeds eval --model "$tmp/csv.safetensors" --data "$digits/t10k.csv" && says '^accuracy=(0.[89]|1)' || return
    awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) { a = rand(); b = rand(); print a "," b "," 2 * a - b } }' >"$tmp/plane.csv"
    succeeds train --net 'dense 1' --data "$tmp/plane.csv" --label -1 --targets 1 --loss mse --split 0.2 --epochs 40 --batch 8 --lr 0.02 \
        --patience 40 --save "$tmp/plane.safetensors" && awk -F '[= ]' 'END { exit !($3 < 1e-3) }' "$out" || because "a plane is not found" || return
    cp "$out" "$tmp/first"
    succeeds eval --model "$tmp/plane.safetensors" --data "$tmp/plane.csv" && says '^loss=0\.000' &&
        fails '--loss cross-entropy needs classes' train --net 'dense 1' --data "$tmp/plane.csv" --label -1 --targets 1 &&
        fails "--label: expected a column's number" train --net relu --data "$tmp/plane.csv" --label x
}
undoes_targets() { # 1000 x + 5000, far from 0: learnt in its own deviation, predicted in its own unit
    local loss
    awk 'BEGIN { print "x,y"; for (i = 0; i < 200; i++) { x = i / 100 - 1; print x "," 1000 * x + 5000 } }' >"$tmp/far.csv"
    printf 'x\n-1\n0\n0.5\n' >"$tmp/near.csv"
    for loss in mse huber; do
        succeeds train 'dense 1' --data "$tmp/far.csv" --label y --targets 1 --loss $loss --split 0.2 --epochs 60 --batch 16 --lr 0.02 --save "$tmp/far" &&
            says '^Targets are normalised' && awk -F '[= ]' 'END { exit !($3 < 1e-3) }' "$out" || because "$loss has not learnt" || return
        succeeds summary --model "$tmp/far" && says '^target_normalization: .*"mean"' || return
        succeeds predict "$tmp/near.csv" --model "$tmp/far" && awk 'BEGIN { split("4000 5000 5500", y) } { n += ($2 - y[NR]) ^ 2 < 100 } END { exit n != 3 }' "$out" ||
            because "$loss: expected 4000, 5000 and 5500" || return
        # The loss in the unit of the table: above that of training, below that of an error of 10.
        succeeds eval "$tmp/far.csv" --model "$tmp/far" && awk -F = 'END { exit !($2 < 100) }' "$out" || because "$loss: eval" || return
        succeeds train --from "$tmp/far" --data "$tmp/far.csv" --loss $loss --split 0.2 --epochs 1 --lr 1e-6 --quiet --save "$tmp/farther" &&
            awk -F '[= ]' 'END { exit !($3 < 1e-3) }' "$out" || because "$loss: from the trained net" || return
    done
    succeeds train 'dense 1' --data "$tmp/far.csv" --label y --targets 1 --loss mse --no-normalize --epochs 1 --save "$tmp/far" &&
        ! grep -q '^Targets' "$out" && awk -F '[= ]' 'END { exit !($3 > 1e6) }' "$out" || because "--no-normalize" || return
}
splits_by_class() { # 90 samples of class 0 and 10 of class 1: a fifth is 18 and 2, whatever the seed
    local seed
    awk 'BEGIN { for (i = 0; i < 100; i++) print (i >= 90) "," i % 7 }' >"$tmp/rare.csv"
    for seed in 1 2 3 4; do
        succeeds train 'dense 2' --data "$tmp/rare.csv" --split 0.2 --seed $seed --epochs 1 --quiet --save "$tmp/rare" --report "$tmp/rare.html" &&
            grep -q '80 to train on, 20 to validate' "$tmp/rare.html" || return
        # The rows of the confusion matrix, without the recall.
        sed -n 's|<td class="sum">[^<]*</td></tr>$||; t matrix; d; :matrix; s|<[^>]*>| |gp' "$tmp/rare.html" |
            awk '{ for (i = 2; i <= NF; i++) sum[$1] += $i } END { exit !(sum[0] == 18 && sum[1] == 2) }' || because "seed $seed" || return
    done
    fails '--split: st_dataset_split: fraction 0.001 of 100 samples leaves a part empty' train 'dense 2' --data "$tmp/rare.csv" --split 0.001
}
fits_data_and_net() {
    fails 'the network.s output is \[7\], there are 10 classes: end it with dense 10' train --net "$net 7" --data "$digits" &&
        fails 'line 1, column 7: .1x9x9. is not the shape of the samples, \[1, 28, 28\]' train --net 'input 1x9x9, dense 10' --data "$digits" &&
        fails '.*class' train --net "$net 2" --data "$digits/train.csv" --image 1x28x28 --quiet --save "$tmp/none" &&
        fails '.*nothing: No such file' train --net "$net 10" --data nothing && mkdir -p "$tmp/empty" &&
        fails '.*empty: contains neither MNIST nor CIFAR-10' train --net relu --data "$tmp/empty" &&
        fails '.*empty/model: cannot be written|.*nowhere/model: ' train --net relu --data "$digits" --save "$tmp/nowhere/model" &&
        fails '.*log.txt: ' train --net relu --data "$digits" --log "$tmp/log.txt" --save "$tmp/none" &&
        fails '--patience needs' train --net 'dense 4' --data "$digits/train.csv" --patience 3 --save "$tmp/none" && [ ! -e "$tmp/none" ]
}
# Records of CIFAR-10 whose class is how bright they are.
makes_cifar10() {
    mkdir -p "$tmp/cifar"
    local file class
    for file in data_batch_1 test_batch; do
        for class in 0 1 2 3 4 5 6 7 8 9; do
            printf "\\$(printf %o $class)"
            head -c 3072 /dev/zero | tr '\0' "\\$(printf %o $((class * 25 + 5)))"
        done >"$tmp/cifar/$file.bin"
    done
}
reads_cifar10() {
    makes_cifar10 && succeeds train --net 'avgpool, dense 24, relu, dense 10' --data "$tmp/cifar" --epochs 300 --batch 10 --lr 0.05 --schedule constant \
        --quiet --save "$tmp/cifar.safetensors" && learnt validation &&
        succeeds eval --model "$tmp/cifar.safetensors" --data "$tmp/cifar" && says '^ *airplane ' && says '^ *truck '
}
claim "train: MNIST's folder, a log, a page, a curve, a saved net" trains
claim "the page of a run says what it was; report compares runs" reports
claim "eval: the same score, and nothing to be said again" needs_no_flags
claim "eval --json" evaluates_in_json
claim "predict: samples and arrays, JSON, and what it cannot" predicts
claim "one seed gives one file for any number of threads, with all that training has" repeats
claim "train goes on from its checkpoint to the same net" goes_on
claim "a hint: a softmax too many" hints
claim "what went wrong is named" diverges
claim "what is read is not written over, nor one file twice" spares
claim "a net of numbers that are none says nothing, and that it does" tells_damage
claim "IDX files by name" reads_idx
claim "pairs of .npy, a part held out" reads_npy
claim "tables of classes and of numbers" reads_tables
claim "targets that are numbers are normalised, and predicted in their own unit" undoes_targets
claim "--split holds out the same part of each class" splits_by_class
claim "what does not fit is refused before anything is written" fits_data_and_net
claim "CIFAR-10's folder" reads_cifar10

# ---- nothing wrong without a word ------------------------------------------------------------------

# Four numbers of two classes, in columns with names: class 1 where a > b.
makes_flowers() { # ORDER FILE
    awk -v order="$1" 'BEGIN {
        srand(3); count = split(order, column, " ")
        for (i = 1; i <= count; i++) printf "%s%s", column[i], i < count ? "," : "\n"
        for (k = 0; k < 120; k++) {
            v["a"] = rand(); v["b"] = rand(); v["c"] = 5 * rand(); v["x"] = rand(); v["species"] = v["a"] > v["b"]
            for (i = 1; i <= count; i++) printf "%s%s", v[column[i]], i < count ? "," : "\n"
        } }' >"$2"
}
matches_columns() {
    makes_flowers 'species a b c' "$tmp/flowers.csv" && makes_flowers 'c b species a' "$tmp/turned.csv" &&
        makes_flowers 'c b a' "$tmp/unlabelled.csv" && makes_flowers 'species a b x' "$tmp/unknown.csv" || return
    succeeds train 'dense 8, relu, dense 2' --data "$tmp/flowers.csv" --label species --epochs 60 --batch 8 --lr 0.01 --quiet \
        --save "$tmp/flowers" && learnt training || return
    succeeds eval "$tmp/flowers.csv" --model "$tmp/flowers" && tail -n 1 "$out" >"$tmp/first" || return
    succeeds eval "$tmp/turned.csv" --model "$tmp/flowers" && tail -n 1 "$out" | cmp -s - "$tmp/first" || because "columns in another order" || return
    fails '.*unknown.csv: no column c' eval "$tmp/unknown.csv" --model "$tmp/flowers" || return
    succeeds predict "$tmp/turned.csv" --model "$tmp/flowers" --top 1 && cp "$out" "$tmp/turned" &&
        succeeds predict "$tmp/unlabelled.csv" --model "$tmp/flowers" --top 1 && sed 's/unlabelled/turned/' "$out" | cmp - "$tmp/turned" &&
        awk -F '[: ]+' -v most=0 'FNR == NR { split($0, f, ","); if (FNR > 1) class[FNR - 2] = f[3]; next }
            { hits += $2 == class[FNR - 1] } END { exit !(hits > 100) }' "$tmp/turned.csv" "$tmp/turned" || because "of a table"
    fails '.*no column specie' train 'dense 2' --data "$tmp/flowers.csv" --label specie
}
finds_it_first() { # before data are read, drawn or opened
    fails "line 1, column 1: 'covn' is not a layer" train 'covn 3, relu' && fails '.*nothing: No such file' train relu --validation nothing &&
        fails "line 1, column 8: 'stide' is not an option" train 'conv 3 stide=2' --data nothing &&
        refuses '--net is given twice' train relu --net relu
}
spells() { # one file, by two names; what is closed; what is a link
    mkdir -p "$tmp/links" && ln -sf ../later "$tmp/links/there" || return
    refuses "--save and --checkpoint are the same file" train relu --checkpoint "$tmp/x" --save "$tmp/../${tmp##*/}/x" || return
    fails '.*there: cannot be written: No such file' train "$net 10" --data "$digits" --epochs 1 --save "$tmp/links/there" && : >"$tmp/later" &&
        succeeds train "$net 10" --data "$digits" --epochs 1 --quiet --save "$tmp/links/there" && [ -L "$tmp/links/there" ] && [ -s "$tmp/later" ] ||
        because "a link to nothing, and then to a file" || return
    (exec 2>&- && "$stride" train "$net 10" --data "$digits" --epochs 2 --save "$tmp/closed" --log "$tmp/closed.csv" --checkpoint "$tmp/closed.c" >"$out") &&
        [ "$(lines "$tmp/closed.csv")" = 3 ] && succeeds summary --model "$tmp/closed" && succeeds summary --model "$tmp/closed.c" || because "stderr is closed" || return
    "$stride" summary relu --input 3 >&- 2>"$err" && because "stdout is closed, and it says nothing"
    [ "$(lines "$err")" = 1 ]
}
tries_first() { # what would fail at the end fails at the beginning, and a path of any bytes is no failure
    local name
    name=$tmp/$(printf 'odd\377\303')
    cp -r "$digits" "$name" && succeeds train "$net 10" --data "$name" --epochs 1 --quiet --save "$tmp/odd" && succeeds summary --model "$tmp/odd" &&
        says '^data: .*odd\\xff\\xc3$' || because "a path that is not UTF-8" || return
    mkfifo "$tmp/fifo" && fails '.*fifo: not a regular file' train "$net 10" --data "$digits" --epochs 1 --save "$tmp/fifo" &&
        fails '.*/dev/null: not a regular file' train "$net 10" --data "$digits" --epochs 1 --save /dev/null &&
        fails '.*(File name too long|cannot be written)' train "$net 10" --data "$digits" --epochs 1 --save "$tmp/$(printf 'x%.0s' $(seq 256))"
}
many=${SANITIZE:+30} many=${many:-300} # epochs of a run that something happens to; with a sanitizer they are slow
keeps_the_weights() { # where the folder goes away in the middle of it
    mkdir -p "$tmp/gone" "$tmp/second" || return
    local job kept
    TMPDIR=$tmp/second begin train "$net 10" --data "$digits" --epochs $many --save "$tmp/gone/net"
    rm -r "$tmp/gone"
    ends
    kept=$(sed -n 's/.*; the net is in \(.*\)$/\1/p' "$err")
    [ $status = 1 ] && [ -s "$kept" ] && [ "${kept%/*}" = "$tmp/second" ] && succeeds summary --model "$kept" || because "lost"
}
leaves_ignored() { # an interrupt that is ignored where it began
    local job
    trap '' INT
    begin train "$net 10" --data "$digits" --epochs $many --save "$tmp/ignored"
    trap - INT
    kill -INT $job || because "the run was over" || return
    ends
    [ $status = 0 ] && says " epochs=$many " || because "it has not gone on to the end"
}
knows_losses() {
    succeeds train 'dense 1' --data "$digits/train.csv" --label 0 --targets 1 --loss mse --epochs 1 --quiet --save "$tmp/mse" &&
        LC_ALL=C sed 's/"mse"/"mzz"/' "$tmp/mse" >"$tmp/mzz" && fails '.*mzz: loss: expected one of .*"mzz"' eval "$digits/train.csv" --model "$tmp/mzz"
}
# Classes that are words, in the last column; features by their names.
learns_words() {
    awk 'BEGIN { srand(5); print "id,petal_w,petal_l,\"the, species\""; for (k = 0; k < 150; k++) { a = rand(); b = rand()
        print "x" k "," a "," b "," (a > b ? "iris, blue" : "rose") } }' | sed 's/iris, blue/"&"/' >"$tmp/words.csv"
    fails '.*line 2, column 1, id: expected a number, not "x0"' train 'dense 2' --data "$tmp/words.csv" || return
    succeeds train 'dense 8, relu, dense 2' --data "$tmp/words.csv" --features 'petal_*' --epochs 60 --batch 8 --lr 0.02 --quiet --save "$tmp/words" \
        && learnt training && succeeds summary --model "$tmp/words" && says '^classes: ."iris, blue","rose".$' && says '^columns: ."petal_w","petal_l".$' || return
    cut -d , -f 1-3 "$tmp/words.csv" | head -n 4 >"$tmp/new.csv"
    succeeds predict "$tmp/new.csv" --model "$tmp/words" --output "$tmp/words.out.csv" && [ "$(lines "$tmp/words.out.csv")" = 4 ] &&
        head -n 1 "$tmp/words.out.csv" | grep -qx 'input,class,probability,"iris, blue",rose' || because "a table of predictions" || return
    sed -E 's/^([^,]*),([^,]*),([^,]*),(.*)$/\4,\3,\2/' "$tmp/words.csv" >"$tmp/turned.csv" # the class comes first, a feature last
    succeeds eval "$tmp/words.csv" --model "$tmp/words" && tail -n 1 "$out" >"$tmp/first" && succeeds eval "$tmp/turned.csv" --model "$tmp/words" &&
        tail -n 1 "$out" | cmp -s - "$tmp/first" || because "columns in another order" || return
    cut -d , -f 2-3 "$tmp/words.csv" >"$tmp/new.csv"
    fails '--label: column -1, the table has 2 columns' eval "$tmp/new.csv" --model "$tmp/words" || return
    fails '--label: petal_w is a feature of the net' eval "$tmp/turned.csv" --label petal_w --model "$tmp/words" || return
    fails 'the network.s output is \[3\], there are 2 classes' train 'dense 3' --data "$tmp/words.csv" --features 'petal_*'
}
claim "columns of tables are matched by name" matches_columns
claim "classes of a table may be words" learns_words
claim "a misspelt network or path is found before anything else" finds_it_first
claim "one file by two names, links, closed streams" spells
claim "a place that a net cannot be saved to is refused at the beginning" tries_first
claim "a net that cannot be saved in the end is kept elsewhere" keeps_the_weights
claim "a loss that is not known is an error" knows_losses
set -m # a shell's background jobs ignore interrupts unless it has job control
claim "an ignored interrupt stays ignored" leaves_ignored
set +m

# ---- pictures --------------------------------------------------------------------------------------

reads_pictures() {
    train --net "$net 4" --data "$digits/pictures" --save "$tmp/pictures.safetensors" --report "$tmp/pictures.html" && learnt validation || return
    grep -q "<br/>$digits/pictures/test/[a-d]/0[0-9]*\.[pj][np]g</small>" "$tmp/pictures.html" || because "mistakes name no file" || return
    succeeds summary "$tmp/pictures.safetensors" && says '^classes: \["a","b","c","d"\]' || return
    succeeds predict "$tmp/pictures.safetensors" "$digits/pictures/test/d/000.png" "$digits/pictures/test/c/005.jpg" --top 2 &&
        [ "$(lines "$out")" = 2 ] && says '000.png: d 0\.[5-9]' && says '005.jpg: c 0\.[5-9]' || because "two pictures" || return
    train --net "$net 4" --data "$digits/pictures/train" --size 20x24 --colour rgb --split 0.2 --save "$tmp/small.safetensors" && learnt validation &&
        succeeds summary "$tmp/small.safetensors" && says '\[64, 3, 20, 24\]' || because "--size" || return
    succeeds eval --model "$tmp/small.safetensors" --data "$digits/pictures/test" && says '^accuracy=(0.[89]|1)' || return
    succeeds predict --model "$tmp/small.safetensors" "$digits/pictures/test/d/000.png" && says ': d ' || return
    succeeds predict --model "$model" "$digits/pictures/test/d/000.png" --resize && says ': 0 ' || return
    mkdir -p "$tmp/single/a" && cp "$digits/pictures/train/a/003.png" "$tmp/single/a" || return
    fails '.*single: one folder of pictures, a, ' train --net 'dense 1' --data "$tmp/single" || return
    head -c 100 "$digits/pictures/train/a/003.png" >"$tmp/broken.png"
    fails '.*broken.png: broken PNG' predict --model "$model" "$tmp/broken.png"
}
matches_classes() {
    rm -rf "$tmp/two" && mkdir -p "$tmp/two" && cp -r "$digits/pictures/test/"[cd] "$tmp/two" || return
    succeeds eval "$tmp/two" --model "$tmp/pictures.safetensors" --json || return
    tr -d ' \n' <"$out" | grep -q '"samples":40,.*"name":"a","samples":0,.*"name":"c","samples":20,' &&
        tr -d ' \n' <"$out" | grep -qE '"accuracy":(0\.[89]|1\.0)' || because "two of four classes" || return
    mv "$tmp/two/c" "$tmp/two/zebra" && mv "$tmp/two/d" "$tmp/two/a${escape}[2J" || return
    fails '.*classes that the net or the training set does not have: a\?\[2J, zebra' eval "$tmp/two" --model "$tmp/pictures.safetensors"
}
fine_tunes() {
    local source=$tmp/pictures.safetensors tuned=$tmp/tuned.safetensors data="--data $digits/pictures/train"
    rm -rf "$tmp/three" && cp -r "$digits/pictures/train" "$tmp/three" && rm -r "$tmp/three/a" || return
    train "$net 3" --data "$tmp/three" --from "$source" --freeze 0 --save "$tuned" --split 0.2 &&
        says '^2 tensors from .*; 2 initialised: 4.weight, 4.bias$' && learnt validation || because "a new head" || return
    same_tensor 0.weight "$source" "$tuned" && same_tensor 0.bias "$source" "$tuned" || because "frozen" || return
    train $data --from "$source" --freeze '*.weight' --freeze 0 --save "$tuned" --report "$tmp/tuned.html" && says '^4 tensors from' &&
        grep -q 'aria-label="network">input 1x28x28$' "$tmp/tuned.html" || because "a page of a net without a text" || return
    same_tensor 4.weight "$source" "$tuned" && ! same_tensor 4.bias "$source" "$tuned" || because "all but a bias is frozen" || return
    fails 'parameters "conv": the name matches no parameter; there are 0.weight, 0.bias, 4.weight, 4.bias$' train --quiet $data --from "$source" --freeze conv || return
    fails '.*every parameter is frozen' train --quiet $data --from "$source" --freeze '*' || return
    fails '.*no tensor has the name and shape' train 'flatten, relu, dense 4' --quiet $data --from "$source" || return
    fails '.*none.safetensors: No such file' train $data --from "$tmp/none.safetensors"
}
writes_predictions() {
    local many="$tmp/many" long name
    rm -rf "$many" && mkdir -p "$many/sub" && cp "$digits/pictures/test/d/000.png" "$many/one, two.png" && cp "$digits/pictures/test/c/005.jpg" "$many/sub/x.jpg" &&
        head -c 99 "$digits/pictures/test/d/000.png" >"$many/broken.png" || return
    run "$stride" predict "$many" none.png "$digits/pictures/test/d/000.png" --model "$tmp/pictures.safetensors" --output "$tmp/predictions.csv"
    [ $status = 1 ] && [ "$(lines "$err")" = 2 ] && grep -q 'broken.png: broken PNG' "$err" && grep -q 'none.png: No such' "$err" && [ ! -s "$out" ] ||
        because "expected two complaints" || return
    [ "$(lines "$tmp/predictions.csv")" = 4 ] && head -n 1 "$tmp/predictions.csv" | grep -qx 'input,class,probability,a,b,c,d' &&
        grep -qF "\"$many/one, two.png\",d,0." "$tmp/predictions.csv" || { cat "$tmp/predictions.csv"; return 1; }
    for name in pictures/test/d/000.png t10k-x.npy; do # standard input
        "$stride" predict - --model "$tmp/pictures.safetensors" --top 1 <"$digits/$name" >"$out" 2>"$err" && grep -q '^-.*: [a-d] ' "$out" || because "$name" || return
    done
    succeeds predict "$many/sub" --model "$tmp/pictures.safetensors" --output "$tmp/predictions.jsonl" &&
        grep -q '^{"input":.*x.jpg","class":"c",' "$tmp/predictions.jsonl" || because "JSON lines" || return
    refuses '--output and .* are the same file' predict "$tmp/predictions.csv" --output "$tmp/./predictions.csv" &&
        refuses '--output: expected a name that ends' predict a.png --output "$tmp/predictions.txt" || return
    # Names of any length, and such as are not UTF-8.
    long=$(printf 'é%.0s' $(seq 60))$(printf 'x%.0s' $(seq 100))
    rm -rf "$tmp/long" && mkdir -p "$tmp/long/$long" "$tmp/long/b" && cp "$digits/pictures/test/c/"*.png "$tmp/long/$long" && cp "$digits/pictures/test/d/"*.png "$tmp/long/b" || return
    succeeds train 'dense 2' --data "$tmp/long" --epochs 1 --quiet --save "$tmp/long.safetensors" &&
        succeeds predict "$digits/pictures/test/d/000.png" --model "$tmp/long.safetensors" --json && grep -qF "\"$long\"" "$out" || because "a long name" || return
    name=$tmp/$(printf 'bad\377.png')
    cp "$digits/pictures/test/d/000.png" "$name" || return
    run "$stride" predict "$name" --model "$tmp/pictures.safetensors" --json
    [ $status = 1 ] && grep -q 'name is not UTF-8' "$err" && [ "$(cat "$out")" = '[]' ] || because "a name that cannot be JSON"
}
skips_bad() {
    rm -rf "$tmp/bad" && cp -r "$digits/pictures/train" "$tmp/bad" && mkdir "$tmp/bad/empty" && echo x >"$tmp/bad/a/zz1.png" && echo y >"$tmp/bad/b/zz2.jpg" || return
    run "$stride" train 'dense 5' --data "$tmp/bad" --epochs 1 --quiet --save "$tmp/none"
    [ $status = 1 ] && grep -q 'zz1.png: neither' "$err" && grep -q 'zz2.jpg: neither' "$err" && grep -q 'empty: contains no picture' "$err" &&
        tail -n 1 "$err" | grep -q '2 pictures cannot be read: --skip-bad' && [ ! -e "$tmp/none" ] || because "bad pictures" || return
    succeeds train 'dense 5' --data "$tmp/bad" --skip-bad --epochs 1 --quiet --save "$tmp/skipped" && tail -n 1 "$err" | grep -q '2 pictures left out, 320 read' ||
        because "--skip-bad"
}
# The page's own pictures, and two tables.
prints_what_it_shows() {
    local docs=$tmp/docs class name
    rm -rf "$docs" && mkdir -p "$docs/pictures" "$docs/new" "$docs/three" || return
    for name in zero/d one/c two/b three/a; do cp -r "$digits/pictures/train/${name#*/}" "$docs/pictures/${name%/*}" || return; done
    head -c 200 "$docs/pictures/two/002.png" >"$docs/pictures/two/broken.png"
    for class in b c d; do cp -r "$digits/pictures/train/$class" "$docs/three" || return; done
    cp "$digits/pictures/test/d/000.png" "$docs/new/x.png" && cp "$digits/pictures/test/c/005.jpg" "$docs/new/y.jpg" &&
        cp "$digits/pictures/test/a/003.png" "$docs/new/z.png" || return
    LC_ALL=C awk 'BEGIN { split("setosa versicolor virginica", name); print "petal_length,petal_width,species"
        for (i = 0; i < 150; i++) printf "%.1f,%.1f,%s\n", 1.4 + 2 * (i % 3) + i * 7 % 10 / 10, 0.3 + 0.7 * (i % 3) + i * 3 % 7 / 10, name[i % 3 + 1]
    }' >"$docs/flowers.csv"
    awk 'BEGIN { print "area,price"; for (i = 30; i < 130; i++) print i "," 25000 + 2000 * i }' >"$docs/houses.csv"
    printf 'petal_width,petal_length\n0.4,1.9\n2.0,6.1\n' >"$docs/unknown.csv"
    (cd "$docs" && PATH=$BIN:$PATH python3 "$root/tests/examples/follow.py" "$root/docs/command-line.md")
}
# From a folder of pictures to a table, by the examples of `stride --help` alone.
leads_to_predictions() {
    local walk=$tmp/walk command
    rm -rf "$walk" && mkdir -p "$walk/pictures" "$walk/new" && cp -r "$digits/pictures/train/"[ab] "$walk/pictures" &&
        cp "$digits/pictures/test/a/"* "$walk/new" && cp "$digits/pictures/test/b/006.jpg" "$walk/cat.jpg" || return
    succeeds --help && sed -n '/^examples/,$ s/^  \(stride .*\)/\1/p' "$out" | sed 's/  .*//' >"$walk/commands" && [ "$(lines "$walk/commands")" = 6 ] || return
    while read -r command; do
        (cd "$walk" && PATH=$BIN:$PATH bash -c "$command") >"$out" 2>"$err" </dev/null || { status=$?; because "$command"; return 1; }
        [ "${command#stride eval}" = "$command" ] || awk -F '[= ]' 'END { exit !($2 > 0.9) }' "$out" || because "$command" || return
    done <"$walk/commands"
    [ "$(lines "$walk/n.csv")" = 21 ] && grep -q '^new/003.png,a,0\.' "$walk/n.csv" || because "no table"
}
if [ -d "$digits/pictures" ]; then
    if "$stride" predict --model "$model" "$digits/pictures/test/d/000.png" 2>&1 | grep -q 'built without'; then
        echo "skip pictures: stride is built without libpng or TurboJPEG"
    else
        claim "folders of pictures by class, their names, another size, grey and colour" reads_pictures
        claim "classes are matched by name" matches_classes
        claim "a saved net gets a new head, and what is frozen stays" fine_tunes
        claim "predict goes on after a bad file, and writes tables" writes_predictions
        claim "bad pictures are listed at once, or left out" skips_bad
        claim "the commands of docs/command-line.md print what it shows" prints_what_it_shows
        claim "the examples of --help lead from a folder of pictures to a table of predictions" leads_to_predictions
    fi
else
    echo "skip pictures: libpng and TurboJPEG are not installed (libpng-dev, libturbojpeg0-dev)"
fi

# ---- export and speed ------------------------------------------------------------------------------

# What integers cost is measured: the accuracy with floats is that of stride eval.
exports_int8() {
    local small=$tmp/small.c constants
    refuses '--int8 is for .c, not .*x.onnx' export --model "$model" --int8 "$tmp/x.onnx" &&
        refuses '--calibrate is for --int8' export --model "$model" --calibrate "$digits" "$small" &&
        refuses '--calibrate needs a value' export --int8 "$small" --calibrate &&
        fails '.*nowhere' export --model "$model" --int8 --calibrate "$tmp/nowhere" "$small" &&
        fails '.*' export --model "$model" --int8 --calibrate "$digits/train-y.npy" "$small" &&
        [ ! -e "$small" ] || because "a file after an error" || return
    succeeds eval --model "$model" "$digits" && mv "$out" "$tmp/evaluated" &&
        succeeds export --model "$model" --int8 --calibrate "$digits" "$small" || return
    constants=$(awk '$2 == "constants" { print $3 }' "$small")
    says '^80 samples of ' && grep -q "^$(sed -n 's/^floats: *\(accuracy=[0-9.]*\) .*/\1/p' "$out") " "$tmp/evaluated" &&
        says "^8-bit integers: accuracy=.* constants=$constants bytes$" && awk -F '[= ]+' '
            /^floats/ { accuracy = $3; bytes = $7 }
            /^8-bit/ { exit !($4 >= accuracy - 0.05 && $4 <= 1 && 3 * $8 < bytes && 4 * $8 > bytes) }' "$out" || because "what integers cost"
}
claim "export: with 8-bit integers, and what they cost" exports_int8
exports() {
    succeeds export "$model" "$tmp/weights" && [ -s "$tmp/weights/0.weight.npy" ] && [ -s "$tmp/weights/4.bias.npy" ] || because "a folder" || return
    succeeds export --model "$model" "$tmp/same.safetensors" && cmp "$model" "$tmp/same.safetensors" &&
        succeeds export --model "$model" "$tmp/layers.net" && grep -q '^conv2d 6 5 stride=2$' "$tmp/layers.net" &&
        succeeds summary "$tmp/layers.net" || because ".net" || return
    fails '.*nowhere/weights: No such file' export --model "$model" "$tmp/nowhere/weights"
}
benches() {
    succeeds bench-model "$networks/mlp.net" --batches 1,8 --seconds 0.01 --threads 1 && says '^ +1 +[0-9]+ +[0-9]+$' && says '^ +8 +[0-9]+ +[0-9]+$' &&
        says '% +[0-9.]+ %  dense\(out_features=512\)$'
}
claim "export: a folder, safetensors, text" exports
claim "bench-model: images a second, and the layers' shares" benches

# ---- terminals -------------------------------------------------------------------------------------

on_terminal() { # WIDTH COMMAND: into $out
    script -q -e -c "stty cols $1; $2" /dev/null >"$out" 2>"$err" </dev/null
    status=$?
    [ $status = 0 ] || because "$2"
}
colours() { grep -q "$escape\[[0-9;]*m" "$out"; }
# The longest that is drawn between two returns, in characters, escapes left out.
widest() { sed "s/$escape\[[0-9;]*[mK]//g" "$out" | tr '\r' '\n' | awk '/ %/ && length > most { most = length } END { print most + 0 }'; }
draws() {
    local command="'$stride' train --net '$net 10' --data '$digits' --epochs 2 --batch 2 --save '$tmp/terminal.safetensors'" width
    for width in 30 60 120; do
        on_terminal $width "$command" && ! colours && [ "$(widest)" -gt $((width * 2 / 3)) ] && [ "$(widest)" -lt $width ] || because "$width columns: $(widest) are used" || return
    done
    on_terminal 80 "TERM=dumb $command" && ! grep -q "$escape" "$out" || because "TERM=dumb"
}
stops_when_interrupted() {
    local job
    begin train --net "$net 10" --data "$digits" --epochs 100000 --save "$tmp/stopped.safetensors"
    kill -INT $job
    ends
    [ $status = 0 ] && [ -s "$tmp/stopped.safetensors" ] && says '^validation accuracy=' &&
        says '^interrupted after step [0-9]+: to train these weights further, use --from .*stopped.safetensors$' || because "interrupted"
}
# Within a step, and it goes on as if nothing had been.
goes_on_after_an_interrupt() {
    local maps=${SANITIZE:+4} heavy job epochs # with a sanitizer an epoch of 24 maps takes half a minute
    heavy="conv ${maps:=24} 5x5, relu, conv $maps 5x5, relu, maxpool 4, dense 10"
    local run="train --data $digits --batch 4 --schedule constant --checkpoint $tmp/stop"
    # shellcheck disable=SC2086
    begin $run "$heavy" --epochs 1000 --save "$tmp/stopped"
    sleep 0.1
    kill -INT $job
    ends
    [ $status = 0 ] && says '^interrupted after step [0-9]+: to continue, repeat the command with --resume from .*stop$' &&
        { ! grep -q '^epoch' "$err" || says '^best: epoch [0-9]+, validation loss'; } || because "interrupted" || return
    epochs=$(($(sed -n 's/.* epochs=\([0-9]*\) .*/\1/p' "$out") + 1))
    # shellcheck disable=SC2086
    succeeds $run "$heavy" --epochs $epochs --quiet --resume --save "$tmp/again" &&
        succeeds ${run%--checkpoint*} "$heavy" --epochs $epochs --quiet --save "$tmp/straight" && cmp "$tmp/again" "$tmp/straight"
}
if script --version 2>/dev/null | grep -q util-linux; then
    claim "progress on a terminal of any width, TERM=dumb" draws
else
    echo "skip terminals: no script of util-linux"
fi
# A shell's background jobs ignore interrupts unless it has job control.
set -m
claim "an interrupt ends a run, saved" stops_when_interrupted
claim "an interrupted run goes on from its step to the same net" goes_on_after_an_interrupt
set +m

caps_threads() {
    succeeds eval "$model" "$digits" --threads 99 && grep -qxE 'stride eval: warning: --threads 99: [0-9]+ are used, this machine has [0-9]+ processors?' "$err" ||
        because "expected one line" || return
    [ "$(getconf _NPROCESSORS_ONLN)" -lt 2 ] || { succeeds eval "$model" "$digits" --threads 2 && [ ! -s "$err" ] || because "two threads"; }
}
claim "more threads than there are get one line" caps_threads
zero_is_meant() {
    succeeds train --net "$net 10" --data "$digits" --epochs 1 --quiet --lr 0 --optim sgd --log "$tmp/zero.csv" --save "$tmp/zero" &&
        [ "$(tail -n 1 "$tmp/zero.csv" | cut -d , -f 3)" = -0 ] || because "--lr 0 takes another learning rate"
}
claim "a learning rate of 0 is not the default" zero_is_meant

# ---- completion and the manual ---------------------------------------------------------------------

complete_as_bash() { # WORDS...: what bash offers for the last
    bash --norc -c 'source "$1"; stride=$2; shift 2; COMP_WORDS=(stride "$@"); COMP_CWORD=$#; _stride "$stride"; printf "%s\n" "${COMPREPLY[@]}"' \
        - "$tmp/completion" "$stride" "$@"
}
offers() { # EXPECTED WORDS...
    local expected=$1 offered
    shift
    offered=$(complete_as_bash "$@" | sort | tr '\n' ' ')
    [ "$offered" = "$expected" ] || { echo "stride $*: offered $offered, expected $expected"; return 1; }
}
completes() {
    local name missing
    succeeds completion bash && cp "$out" "$tmp/completion" && bash -n "$tmp/completion" || return
    offers 'predict ' pr && offers 'eval export ' e && offers '--epochs --every ' train --e && offers 'adam adamw ' train --optim ad &&
        offers 'adam adamw ' train --optim = ad && offers 'adam adamw ' train -O ad && offers 'constant cosine ' train --net x --schedule co &&
        offers 'bash ' completion b && offers '--json ' eval --model x --j && offers ' ' train --net net- && offers ' ' summary net- || return
    grep -q 'complete -o default' "$tmp/completion" || because "no files where nothing else is offered" || return
    for name in $subcommands; do # every option that help shows is offered
        succeeds "$name" --help || return
        missing=$(sed -n 's/^ .* \(--[a-z0-9-]*\).*/\1/p' "$out" | grep -v '^--$' | LC_ALL=C sort -u |
            LC_ALL=C comm -23 - <(complete_as_bash "$name" -- | LC_ALL=C sort))
        [ -z "$missing" ] || { echo "stride $name: not offered: $missing"; return 1; }
    done
}
other_shells() { # the same candidates, asked for by their own words
    succeeds completion zsh && says '^#compdef stride' && [ "$(lines "$out")" -le 3 ] || return
    if command -v zsh >/dev/null; then zsh -n "$out" || return; fi
    succeeds completion fish && says '^complete -c stride .*stride complete' || return
    if command -v fish >/dev/null; then fish --no-execute "$out" || return; fi
    succeeds complete train --optim ad && [ "$(tr '\n' ' ' <"$out")" = 'adam adamw ' ] || because "stride complete"
}
manual() {
    local name
    succeeds help man && says '^\.TH STRIDE 1' && says '^\.SH NETWORKS' || return
    for name in $subcommands; do says "^\.SH \"STRIDE $name\"" || return; done
}
claim "bash completes subcommands, options, choices and files" completes
claim "zsh and fish have theirs" other_shells
claim "the manual page has every subcommand" manual
exit $failed
