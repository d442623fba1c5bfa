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
# Nets this small are trained no faster by two threads.
export STRIDE_OFFLINE=1 TERM=xterm STRIDE_THREADS=1
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
data_of() { sed -n '/ id="data">$/{ n; p; q; }' "$1"; } # PAGE: its JSON, in one line
holds() { # PAGE PATTERN
    data_of "$1" | grep -qE -- "$2" || because "$1: expected /$2/"
}
begin() { # ARGUMENTS...: in the background, as $job, until its first epoch is over
    local i
    : >"$err"
    "$stride" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
    for i in $(seq 1000); do grep -q '^epoch 1/' "$err" && break || sleep 0.02; done
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
        refuses 'unknown option --frobnicate; try: stride train --help' train --frobnicate &&
        refuses 'unknown option -z' train -z && refuses 'unexpected "two"' train one two &&
        refuses '--epochs needs a value, N' train --epochs && refuses '--quiet takes no value' train --quiet=1 &&
        refuses '--epochs: expected a whole number from 1 to .*, not "0"' train --epochs 0 &&
        refuses '--epochs: expected .* not "2x"' train --epochs=2x && refuses '-e: expected .*, not ""' train -e '' &&
        refuses '--lr: expected a number .*"nan"' train --lr nan && refuses '--flip: .*"1.5"' train --flip=1.5 &&
        refuses '--optim: expected one of sgd\|adam\|adamw.*, not "adma"' train --optim adma &&
        refuses 'no network' train && refuses '. is data, not a network; it is given by --data' train . &&
        refuses 'iris.csv is data, not a network' train iris.csv && refuses '--validation or --split' train --net relu --split .1 --validation x &&
        refuses '--save: expected FILE, not ""' train --net relu --save '' && refuses 'an argument is ""; usage' predict '' &&
        refuses '--resume needs --checkpoint FILE' train --net relu --resume &&
        refuses '--checkpoint-every needs' train --net relu --checkpoint-every 3 &&
        refuses '--freeze: given more than 8 times' train relu --freeze={0,1,2,3,4,5,6,7,8} &&
        refuses '--save and --checkpoint are the same file, a' train --net relu --checkpoint "../${PWD##*/}/a" --save a &&
        refuses '--log and --report are the same file, a.csv' train --net relu --log a.csv --report a.csv &&
        refuses '7 arguments, expected at most 6; usage: stride report' report a.csv b.csv c.csv d.csv e.csv f.csv g.csv && refuses 'no network' summary && refuses 'unexpected "b"' summary a b && refuses '--net is given twice' summary relu --net tanh && refuses 'a network is given more than once' summary --net relu --model a &&
        refuses '--model is given twice' eval a.safetensors --model b && refuses 'unexpected "c"' eval a.safetensors b c &&
        refuses 'a: No such file' export a b.onnx && refuses 'files, or --data' predict a.png --index 3 &&
        refuses '.*expected .onnx' export model.txt && refuses '--batches: expected a list .*"1,x"' bench-model relu --batches 1,x &&
        refuses 'expected one of bash\|zsh\|fish, not "tcsh"' completion tcsh && refuses 'expected one of .*, not "netwrok"; did you mean network\?' help netwrok
}
means() { # NAME WORDS...: the last of them is unknown, and NAME is suggested
    local name=$1
    shift
    refuses ".*; did you mean $name\? Try: stride [a-z -]*--help$" "$@"
}
suggests() {
    local pair
    means train trian && means eval evaluate && means train fit && means bench-model help benchmark &&
        means --epochs train --epohcs=3 && means --batch train --batch-size=8 && means --lr train --learning-rate &&
        means --optim train --optimizer && means --colour train --color=grey && means --schedule train --lr_scheduler &&
        means --weight-decay train --wd && means --data eval --dataset=x &&
        means --lr train -lr 0.1 && means --epochs train relu -epochs 3 && means --quiet train -quiet || return
    for pair in optim:adma:adam optim:SGD:sgd loss:mean_squared_error:mse loss:CrossEntropyLoss:cross-entropy loss:L2:mse \
        schedule:OneCycleLR:one-cycle schedule:cosine_annealing:cosine colour:gray:grey; do
        means "${pair##*:}" train "--${pair%%:*}" "$(echo "$pair" | cut -d : -f 2)" || return
    done
}
claim "every subcommand helps, with examples" helps
claim "unknown words get the nearest name, or that of other frameworks" suggests
claim "wrong words and options get status 2 and one line" refuses_words

# ---- networks --------------------------------------------------------------------------------------

summarises() {
    local net
    for net in lenet5 example bnnet mlp; do
        succeeds summary "$networks/$net.net" && says '^total' || return
        succeeds summary "$networks/$net.net" --as-text && cp "$out" "$tmp/again.net" && says '^input [0-9]' || return
        succeeds summary "$tmp/again.net" --as-text && cmp -s "$out" "$tmp/again.net" || because "$net is not read back" || return
    done
    if [ -z "${SANITIZE:-}" ]; then # which reserves more
        (ulimit -v 600000 && "$stride" summary 'dense 40000, dense 10' --input 40000 >"$out" 2>"$err") &&
            says 'peak.* 12.0 GiB|24.0 GiB' || because "a net that is only planned takes memory" || return
    fi
    succeeds summary 'conv 8 3x3, relu, dense 10' --input 1x28x28 --batch 7 && says '\[7, 8, 26, 26\]' &&
        says '^2 flatten' && says '^total +54,170 ' || return
    succeeds summary 'conv 4 2x4 dilation=1x3 padding=same' --input 1x5x7 --batch 2 && says '\[2, 4, 5, 7\]' || because "padding=same" || return
    printf 'relu\n covn 3\n' >"$tmp/bad.net"
    fails ".*bad.net: line 2, column 2: 'covn' is not a layer" summary "$tmp/bad.net" --input 1x2x3 &&
        fails "the network's input is not known" summary relu && fails "line 1, column 1: 'modle' is not a layer" summary modle && fails "--input: '3x' is not a size" summary relu --input 3x &&
        fails 'line 1, column 1: conv2d: kernel' summary 'conv 3 9' --input 1x5x5 &&
        fails '.*none.net: No such file' summary none.net && fails '.*none.safetensors: .*No such file' summary none.safetensors
}
checks_gradients() {
    succeeds gradcheck 'conv 3 3 padding=same, tanh, maxpool 2, dense 4' --input 2x6x6 --batch 2 && says '^passed: .*float64' &&
        says '^  0.weight ' || return
    succeeds gradcheck 'dense 3' --input 5 --loss mse && says '^passed' || return
    succeeds gradcheck 'conv 3 3, tanh, dense 4' --input 2x6x6 --directions 2 && says '^passed: .* of 2 directions' || return
    # Batch normalisation takes the bias off again: its gradient is 0 but for rounding. A softmax of one output is 1.
    succeeds gradcheck 'conv 2 3, batchnorm, dense 3' --input 1x5x5 && says '^passed' || return
    run "$stride" gradcheck 'dense 1, softmax' --input 5
    [ $status = 1 ] && grep -q '^stride gradcheck: .*VACUOUS' "$err" || because "an output without gradients" || return
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
claim_in_double "gradcheck runs in double" checks_gradients

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
net4="$net 4"
digits=$tmp/digits model=$tmp/model.safetensors
train() { succeeds train --epochs 4 --batch 16 --lr 0.01 --threads 1 "$@"; }
same_tensor() { # NAME FILE FILE
    "$stride" export "$2" "$tmp/left" && "$stride" export "$3" "$tmp/right" && cmp -s "$tmp/left/$1.npy" "$tmp/right/$1.npy"
}
learnt() { # NAME: the last line says so
    awk -F '[= ]' -v name="$1" 'END { exit !($1 == name && $2 == "accuracy" && $3 >= 0.85) }' "$out" || because "has not learnt"
}
trains() {
    train --net "$net 10" --data "$digits" --save "$model" --log "$tmp/log.jsonl" --report "$tmp/run.html" || return
    says '320 samples to train on, 80 to validate' && says '^total' && says '^training loss .*█' && says '^validation loss' && says "^net: $model" &&
        learnt validation || return
    [ "$(lines "$tmp/log.jsonl")" = 4 ] && [ "$(grep -c '^epoch [1-4]/4 .*validation accuracy' "$err")" = 4 ] || because "its epochs" || return
    tail -n 1 "$tmp/run.html" | grep -qx '</html>' && ! grep -q resumed "$tmp/run.html" || because "the report" || return
    cp "$out" "$tmp/first"
    ! grep -q "$(printf '\033')" "$out" "$err" || because "escapes into a file"
}
reports() { # what a run was, and several of them in one page
    local page=$tmp/run.html
    holds "$page" '\["date","20[0-9-]* ' && holds "$page" "\[\"command\",\"stride train .*--epochs 4.*--net '$net 10'" &&
        holds "$page" '\["preparation","normalize mean' && holds "$page" '\["training","cross-entropy, adam, lr 0.01, schedule cosine' &&
        holds "$page" '\["machine","[A-Z][^"]*, float32"\]' && holds "$page" "\"network\":\"$net 10\"" || return
    # A relu before a max pooling has the shape that it was given, though it runs on less.
    data_of "$page" | tr '{' '\n' | sed -n 's|^"depth":0,"name":"\([0-9]\)","output":"\([^"]*\)".*"type":"\([a-z0-9]*\)".*|\1 \3 \2|p' | tr '\n' ' ' >"$tmp/shapes"
    grep -qF '0 conv2d [6, 12, 12] 1 relu [6, 12, 12] 2 maxpool [6, 6, 6] 3 flatten [216] 4 dense [10]' "$tmp/shapes" || { cat "$tmp/shapes"; return 1; }
    head -n 3 "$tmp/log.jsonl" >"$tmp/other.jsonl"
    succeeds report "$tmp/log.jsonl" "$tmp/other.jsonl" --output "$tmp/compared.html" && holds "$tmp/compared.html" 'log.jsonl","of":0,"count":4,.*other.jsonl","of":0,"count":3,' || return
    fails '.*none.csv: No such file' report "$tmp/none.csv" && fails '.*expected a log.s name to end in' report "$tmp/first" &&
        refuses '--output and .* are the same file' report "$tmp/log.jsonl" --output "$tmp/log.jsonl" &&
        fails '.*train.csv: line 1 is not of a log' report "$digits/train.csv" --output "$tmp/none.html"
}
needs_no_flags() {
    succeeds eval --model "$model" --data "$digits" || return
    [ "$(awk 'END { print $1 }' "$out")" = "$(awk 'END { print $2 }' "$tmp/first")" ] || because "expected the score of training" || return
    says '^ *class +samples' && says '^ +3 +20 ' || return
    MNIST_DIR=$digits succeeds eval --model "$model" && says '^accuracy' || return
    succeeds eval --model "$model" --data "$digits" --part train && says '320 samples' || return
    succeeds summary "$model" && says '^normalization: .*"mean"' && says '^classes: \["0","1"' || return
    refuses ".*/model.safetensors is a saved net; to train it further, use --from" train "$model" --data "$digits" || return
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
    epochs_of() { data_of "$1" | grep -o '"epochs":\[\[[^]]*\(\],\[[^]]*\)*\]\]' | tr ']' '\n' | sed -n 's/^.*\[\([0-9].*\),[^,]*$/\1/p'; }
    local over="$tmp/it's over.html"
    checkpointed 4 --save "$tmp/rest" --log "$tmp/parts.csv" --report "$over" && ! grep -q resumed "$tmp/parts.html" "$over" &&
        holds "$over" "/it'\\\\\\\\''s over.html'" && [ "$(epochs_of "$tmp/parts.html" | grep -c '^[1-4],')" = 4 ] &&
        [ "$(epochs_of "$tmp/parts.html")" = "$(epochs_of "$over")" ] || because "the page of a run in parts" || return
    echo words >"$tmp/old.csv" # what is no log is kept
    fails '.*old.csv: ' $run --net "$net 10" --epochs 5 --checkpoint "$tmp/run" --resume --log "$tmp/old.csv" --save "$tmp/half" &&
        [ "$(cat "$tmp/old.csv")" = words ]
}
hints() {
    succeeds train --net 'dense 4, softmax' --data "$digits/train.csv" --epochs 1 --save "$tmp/hint" && says 'remove it from the end of the network' &&
        fails '.*trained on .*/train.csv: give --data' predict --model "$tmp/hint" --index 6 &&
        fails '.*trained on .*/train.csv: give --data' predict --model "$tmp/hint" &&
        succeeds train --net 'dense 4, softmax' --data "$digits/train.csv" --epochs 1 --loss mse --save "$tmp/hint" &&
        ! grep -q 'remove it from the end' "$out" || because "a softmax that mse does not include" || return
    succeeds train --net 'dense 4, sigmoid' --data "$digits/train.csv" --epochs 1 --loss bce --save "$tmp/hint" && says '.*includes the sigmoid: remove it' &&
        succeeds train --net 'dense 4' --data "$digits/train.csv" --epochs 1 --loss nll --save "$tmp/hint" && says '.*nll takes logarithms.* end the network with log_softmax' &&
        succeeds train --net 'dense 4, log_softmax' --data "$digits/train.csv" --epochs 1 --loss nll --save "$tmp/hint" &&
        ! grep -q 'takes logarithms' "$out" || because "a log_softmax that nll needs" || return
    steps=$(wc -l <"$digits/train.csv") # an epoch has, with batches of 1
    succeeds train --net 'dense 4' --data "$digits/train.csv" --epochs 2 --batch 1 --warmup $((2 * steps)) --save "$tmp/hint" && says 'The run ends before the warm-up' &&
        succeeds train --net 'dense 4' --data "$digits/train.csv" --epochs 2 --batch 1 --warmup $((2 * steps - 1)) --save "$tmp/hint" &&
        ! grep -q 'warm-up' "$out" || because "a warm-up that ends with the run"
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
spares_others_files() { # whose names end as temporary files do; standard output
    local images="$tmp/s.stride.tmp" labels="$tmp/s.1-0.stride.tmp.labels"
    cp "$digits/train-images-idx3-ubyte" "$images" && cp "$digits/train-labels-idx1-ubyte" "$labels" || return
    set -- train "$net 10" --data "$images,$labels" --epochs 1 --quiet
    succeeds "$@" --save "$tmp/s" --checkpoint "$tmp/t" && cmp "$images" "$digits/train-images-idx3-ubyte" &&
        cmp "$labels" "$digits/train-labels-idx1-ubyte" || because "the data are lost" || return
    succeeds "$@" --save "$tmp/t" --checkpoint "$tmp/t.stride.tmp" && succeeds summary --model "$tmp/t" && succeeds summary --model "$tmp/t.stride.tmp" || return
    refuses "--save and --checkpoint are the same file" "$@" --save "$tmp/t" --checkpoint "$tmp/t.1-0.stride.tmp" &&
        refuses "--save and --log are the same file" "$@" --save "$tmp/t.csv.stride.lock" --log "$tmp/../${tmp##*/}/t.csv" || return
    echo kept >"$tmp/f" && "$stride" "$@" --save "$tmp/t" --checkpoint /dev/stdout >>"$tmp/f" 2>"$err" && because "it replaces its standard output"
    [ "$(cat "$tmp/f")" = kept ] && grep -q '^stride train: /dev/stdout: .* standard' "$err" || because "standard output: $(cat "$tmp/f")"
}
damages() { # BYTES: the last two parameters, in float
    cp "$model" "$tmp/damaged" && printf "$1$1" |
        dd of="$tmp/damaged" bs=1 seek=$(($(wc -c <"$model") - 8)) conv=notrunc 2>"$err"
}
tells_damage() { # NaN; an infinity, whose softmax would look like a certainty; one that makes a class impossible
    local bytes number
    for bytes in '\377\377\377\377 nan' '\000\000\200\177 inf' '\000\000\200\377 -inf'; do
        number=${bytes#* }
        damages "${bytes% *}" && fails ".*damaged: element 8 of 4.bias is $number" predict --model "$tmp/damaged" --data "$digits" &&
            fails ".*damaged: element 8 of 4.bias is $number" predict --model "$tmp/damaged" "$digits/t10k-x.npy" --json &&
            [ ! -s "$out" ] || return
        [ "$number" = -inf ] || fails 'samples 0 to 63: the loss is ' eval --model "$tmp/damaged" --data "$digits" || return
    done
}
reads_idx() {
    train --net "$net 4" --data "$digits/train-images-idx3-ubyte,$digits/train-labels-idx1-ubyte" --validation "$digits/t10k-images-idx3-ubyte,$digits/t10k-labels-idx1-ubyte" \
        --save "$tmp/idx.safetensors" && learnt validation
}
reads_npy() {
    train --net "$net 4" --data "$digits/train-x.npy,$digits/train-y.npy" --split 0.25 --save "$tmp/npy.safetensors" &&
        says '240 samples to train on, 80 to validate' && learnt validation &&
        succeeds eval --model "$tmp/npy.safetensors" --data "$digits/t10k-x.npy,$digits/t10k-y.npy" && says '^accuracy=(0.[89]|1)' &&
        fails '.*train-y.npy: a single number per sample, expected .N, ....; ' train --net relu --data "$digits/train-y.npy,$digits/train-x.npy" &&
        fails '.*no labels' train --net relu --data "$digits/train-x.npy" &&
        fails '.*train-x.npy: 3 files, expected two' train --net relu --data "$digits/train-x.npy,$digits/train-y.npy,$digits/train-y.npy" &&
        fails '.*train-x.npy,: an empty name beside a comma' train --net relu --data "$digits/train-x.npy," &&
        fails 'arrays in .*: --label is an option of tables' train --net "$net 4" --data "$digits/train-x.npy,$digits/train-y.npy" --label 0
}
reads_tables() {
    train --net "$net 4" --data "$digits/train.csv" --image 1x28x28 --validation "$digits/t10k.csv" --save "$tmp/csv.safetensors" &&
        learnt validation && succeeds eval --model "$tmp/csv.safetensors" --data "$digits/t10k.csv" && says '^accuracy=(0.[89]|1)' &&
        fails '.*seven.png: pictures have numbers from 0 to 1; those .* have a mean of' predict --model "$tmp/csv.safetensors" seven.png || return
    awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) { a = rand(); b = rand(); print a "," b "," 2 * a - b } }' >"$tmp/plane.csv"
    succeeds train --net 'dense 1' --data "$tmp/plane.csv" --label -1 --targets 1 --loss mse --split 0.2 --epochs 40 --batch 8 --lr 0.02 \
        --patience 40 --save "$tmp/plane.safetensors" && awk -F '[= ]' 'END { exit !($3 < 1e-3) }' "$out" || because "a plane is not found" || return
    cp "$out" "$tmp/first"
    succeeds eval --model "$tmp/plane.safetensors" --data "$tmp/plane.csv" && says '^loss=0\.000' &&
        fails '--loss cross-entropy needs classes' train --net 'dense 1' --data "$tmp/plane.csv" --label -1 --targets 1 --loss cross_entropy &&
        fails ".*label: expected a column's number" train --net relu --data "$tmp/plane.csv" --label x
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
makes_pairs() { awk 'BEGIN { srand(7); print "a,b,species"; for (k = 0; k < 90; k++) { a = rand(); b = rand(); print a "," b "," (a > b ? "cat" : "dog") } }'; }
# Classes are one-hot; training, evaluation and prediction agree, with names of classes and without.
trains_on_other_losses() {
    local loss net table=$tmp/pairs.csv
    for loss in mse huber 'huber delta=0.2' bce; do
        net=$tmp/${loss%% *}.safetensors
        succeeds train "$net4" --data "$digits/train.csv" --image 1x28x28 --loss "$loss" --split 0.25 --epochs 6 --batch 16 --lr 0.01 --quiet --save "$net" &&
            says '^validation .*loss=0\.' && grep -o ' loss=[0-9.]*' "$out" >"$tmp/first" || return
        succeeds eval "$net" "$digits/train.csv" --split && awk -F '[= ]' 'END { exit !($1 == "accuracy" && $2 >= 0.85) }' "$out" || because "$loss has not learnt" || return
        tail -n 1 "$out" | grep -o ' loss=[0-9.]*' | cmp -s - "$tmp/first" || because "the loss of training" || return
        succeeds predict "$net" "$digits/t10k.csv" --output "$tmp/${loss%% *}.csv" && head -n 1 "$tmp/${loss%% *}.csv" | grep -qx 'input,class,probability,0,1,2,3' &&
            awk -F , 'NR > 1 { hits += $2 == (NR - 2) % 4 } END { exit !(hits >= 68) }' "$tmp/${loss%% *}.csv" || because "$loss: predict" || return
    done
    awk -F , 'NR > 1 { for (i = 4; i <= 7; i++) wrong += $i < 0 || $i > 1; } END { exit wrong != 0 }' "$tmp/bce.csv" || because "bce: probabilities" || return
    awk 'BEGIN { srand(1); print "x,y"; for (i = 0; i < 200; i++) { x = 2 * rand() - 1; print x "," (x > 0) } }' >"$tmp/signs.csv"
    succeeds train 'dense 1' --data "$tmp/signs.csv" --label y --targets 1 --loss bce --epochs 60 --batch 8 --lr 0.1 --quiet --save "$tmp/signs.st" &&
        printf 'x\n-1\n1\n' >"$tmp/ends.csv" && succeeds predict "$tmp/signs.st" "$tmp/ends.csv" &&
        awk '{ p[NR] = $2 } END { exit !(p[1] >= 0 && p[1] < 0.1 && p[2] > 0.9 && p[2] <= 1) }' "$out" || because "bce: the probability of a target" || return
    succeeds eval "$tmp/signs.st" "$tmp/signs.csv" && says '^accuracy=(0.9|1)' && succeeds eval "$tmp/signs.st" "$tmp/signs.csv" --json &&
        grep -Eq '"accuracy": (0.9|1)' "$out" || because "bce: the accuracy of a target" || return
    makes_pairs >"$table" && succeeds train 'dense 2' --data "$table" --loss bce --epochs 30 --batch 8 --lr 0.05 --quiet --save "$tmp/named.st" &&
        succeeds predict "$tmp/named.st" "$table" --top 1 && says 'pairs.csv\[0\]: (cat|dog) [01]\.' && succeeds eval "$tmp/named.st" "$table" --json &&
        tr -d ' \n' <"$out" | grep -q '"name":"cat"' || because "names of classes" || return
    fails '.*classes 0 to 3, the network.s output is .3.: classes are numbered from 0 to 2' train 'flatten, dense 3' --data "$digits/train.csv" --loss mse --quiet --save "$tmp/none"
}
splits_by_class() { # 90 samples of class 0 and 10 of class 1: a fifth is 18 and 2, whatever the seed
    local seed
    awk 'BEGIN { for (i = 0; i < 100; i++) print (i >= 90) "," i % 7 }' >"$tmp/rare.csv"
    for seed in 1 2 3 4; do
        succeeds train 'dense 2' --data "$tmp/rare.csv" --split 0.2 --seed $seed --epochs 1 --quiet --save "$tmp/rare" --report "$tmp/rare.html" &&
            holds "$tmp/rare.html" '80 to train on, 20 to validate' || return
        data_of "$tmp/rare.html" | sed 's/.*"confusion":\[\[\(.*\)\]\],"confused".*/\1/; s/\],\[/\n/g' |
            awk -F , '{ sum[$1] += $3 } END { exit !(sum[0] == 18 && sum[1] == 2) }' || because "seed $seed" || return
    done
    fails '--split: st_dataset_split: fraction 0.001 of 100 samples leaves a part empty' train 'dense 2' --data "$tmp/rare.csv" --split 0.001
}
# A saved net is known by what is in it, and needs no ending; a table of a whole set has a line for each sample.
knows_models() {
    local net=$tmp/pairs.st table=$tmp/pairs.csv
    makes_pairs >"$table" && succeeds train 'dense 2' --data "$table" --split 0.2 --seed 3 --epochs 30 --batch 8 --lr 0.05 --quiet --save "$net" &&
        cp "$out" "$tmp/first" || return
    succeeds predict "$net" "$table" --top 1 && [ "$(lines "$out")" = 90 ] && says 'pairs.csv\[89\]: (cat|dog) ' || because "predict NET.st DATA.csv" || return
    succeeds eval "$net" "$table" && succeeds summary "$net" && says '^2? *total|^total' && succeeds export "$net" "$tmp/pairs.c" || return
    # The first eight bytes of no other file are the length of a header.
    printf 'abcdefgh{' >"$tmp/brace" && fails '.*brace: ' summary "$tmp/brace" && refuses '.*brace: not a saved net' export "$tmp/brace" "$tmp/pairs.c" || return
    succeeds predict "$net" --data "$table" --output "$tmp/whole.csv" && [ ! -s "$out" ] && [ "$(lines "$tmp/whole.csv")" = 91 ] &&
        grep -q "^$table\\[89\\],[cd][a-z]*,0*[.0-9]" "$tmp/whole.csv" || because "the whole set" || return
    succeeds predict "$net" "$table" --output "$tmp/rows.csv" && cmp "$tmp/rows.csv" "$tmp/whole.csv" || return
    succeeds predict "$net" --data "$table" --index 3 --output "$tmp/one.csv" && [ "$(lines "$tmp/one.csv")" = 2 ] || because "--index" || return
    succeeds predict "$net" --data "$table" && [ "$(lines "$out")" = 1 ] || because "sample 0" || return
    fails 'no saved net: model.safetensors, the default of --model, does not exist; stride train saves it$' predict "$table" &&
        fails 'no saved net: model.safetensors, the default' export "$tmp/none.c" &&
        refuses '.*none.st: No such file' predict none.st "$table" && refuses '.*none.st: No such file' eval none.st "$table" &&
        refuses '.*none.st: No such file' export none.st "$tmp/none.c" && fails 'none.st: No such file' summary none.st || because "a missing net" || return
    refuses '--index: expected a whole number from 0, not "2x"' predict "$net" --data "$table" --index 2x
}
scores_what_was_held_out() {
    local net=$tmp/pairs.st table=$tmp/pairs.csv score
    score=$(sed -n 's/^validation \(accuracy=[0-9.]* loss=[0-9.]*\) .*/\1/p' "$tmp/first")
    succeeds eval "$net" "$table" && says ': 90 samples' && says '^the net was trained on these samples, so this is no test of it; --split evaluates the part of 0.2 that was held out$' && [ ! -s "$err" ] ||
        because "a set that was trained on" || return
    for option in --split '--split 0.2' --split=0.2 '--split --seed 3'; do
        # shellcheck disable=SC2086
        succeeds eval "$net" "$table" $option && [ "$(tail -n 1 "$out")" = "$score" ] && ! grep -Eq 'trained|training' "$out" || because "expected $score" || return
    done
    succeeds eval "$net" "$table" --split --json && tr -d ' \n' <"$out" | grep -q '"samples":18' || because "--json" || return
    succeeds eval "$net" "$table" --split 0.3 && says '^training held out another part: --split 0.2$' || because "another part" || return
    head -n 41 "$table" >"$tmp/some.csv" && succeeds eval "$net" "$tmp/some.csv" && ! grep -Eq 'trained|training' "$out" || because "another set" || return
    succeeds eval "$net" "$tmp/some.csv" --split && says '^the net was not trained on this set, so no part of it was held out$' || because "another set, split" || return
    succeeds train 'dense 2' --data "$table" --epochs 1 --quiet --save "$tmp/all.st" && fails '--split: the net was trained without' eval "$tmp/all.st" "$table" --split &&
        succeeds eval "$tmp/all.st" "$table" && says '^the net was trained on these samples, so this is no test of it$' &&
        succeeds eval "$tmp/all.st" "$table" --json && grep -q '"remark": "the net was trained on these samples' "$out" || because "without a split" || return
    succeeds eval --model "$model" --data "$digits" && ! grep -q 'trained on' "$out" && succeeds eval --model "$model" --data "$digits" --part train &&
        says '^the net was trained on these samples' || because "a training part"
}
says_how_to_go_on() { # cosine needs the number of epochs
    local schedule
    for schedule in cosine one-cycle; do
        rm -f "$tmp/pairs.run"
        succeeds train 'dense 2' --data "$tmp/pairs.csv" --schedule $schedule --epochs 2 --quiet --checkpoint "$tmp/pairs.run" --save "$tmp/more.st" &&
            fails ".*epochs 2, this one has 4: schedule ${schedule/-/_} depends on their number; finish with epochs 2 and train the saved net further, or begin with schedule constant$" \
                train 'dense 2' --data "$tmp/pairs.csv" --schedule $schedule --epochs 4 --quiet --checkpoint "$tmp/pairs.run" --resume --save "$tmp/more.st" || return
    done
    rm -f "$tmp/pairs.run"
    succeeds train 'dense 2' --data "$tmp/pairs.csv" --schedule constant --epochs 2 --quiet --checkpoint "$tmp/pairs.run" --save "$tmp/more.st" &&
        succeeds train 'dense 2' --data "$tmp/pairs.csv" --schedule constant --epochs 4 --quiet --checkpoint "$tmp/pairs.run" --resume --save "$tmp/more.st" &&
        fails '.*the position is not in this run: 4 epochs are done, .*; the run has 3 epochs of' \
            train 'dense 2' --data "$tmp/pairs.csv" --schedule constant --epochs 3 --quiet --checkpoint "$tmp/pairs.run" --resume --save "$tmp/more.st"
}
fits_data_and_net() {
    fails 'the network.s output is \[7\], there are 10 classes: end it with dense 10' train --net "$net 7" --data "$digits" &&
        fails 'the network.s output is \[1, 10\], there are 10 classes: end it with flatten, dense 10' train --net 'unflatten 1, dense 10' --data "$digits" &&
        fails 'line 1, column 7: .1x9x9. is not the shape of the samples, \[1, 28, 28\]' train --net 'input 1x9x9, dense 10' --data "$digits" &&
        fails '.*class' train --net "$net 2" --data "$digits/train.csv" --image 1x28x28 --quiet --save "$tmp/none" &&
        fails '.*nothing: No such file' train --net "$net 10" --data nothing && mkdir -p "$tmp/empty" &&
        fails '.*empty: expected a folder of MNIST; a folder of CIFAR-10 .*; a folder of pictures by class; see --help$' train --net relu --data "$tmp/empty" &&
        fails '.*empty/model: cannot be written|.*nowhere/model: ' train --net relu --data "$digits" --save "$tmp/nowhere/model" &&
        fails '.*log.txt: ' train --net relu --data "$digits" --log "$tmp/log.txt" --save "$tmp/none" &&
        fails 'a table in .*: samples are \[784\], and only images \[C, H, W\] can be augmented' train --net 'dense 4' --data "$digits/train.csv" --flip 0.5 &&
        STRIDE_ENGINE=fast fails 'STRIDE_ENGINE=fast: expected' summary relu --input 3 &&
        fails '.*train.csv,.*train.csv,.*: expected a folder' train --net relu --data "$digits/train.csv,$digits/train.csv,$digits/train.csv" &&
        fails '--patience needs' train --net 'dense 4' --data "$digits/train.csv" --patience 3 --save "$tmp/none" && [ ! -e "$tmp/none" ] &&
        fails 'MNIST in .*: --size is an option of pictures' train --net "$net 10" --data "$digits" --size 9x9 &&
        fails 'a table in .*: --layout is an option of .npy arrays' train --net 'dense 4' --data "$digits/train.csv" --layout nhwc &&
        fails 'the network.s output is \[2\], the targets are \[1\]' train --net 'dense 2' --data "$digits/train.csv" --targets 1 --loss mse
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
claim "files whose names end as those of temporary files do stay, and so does standard output" spares_others_files
claim "a net of numbers that are none says nothing, and that it does" tells_damage
claim "IDX files by name" reads_idx
claim "pairs of .npy, a part held out" reads_npy
claim "tables of classes and of numbers" reads_tables
claim "targets that are numbers are normalised, and predicted in their own unit" undoes_targets
claim "losses of numbers on classes, which are one-hot" trains_on_other_losses
claim "--split holds out the same part of each class" splits_by_class
claim "a saved net is known by its content; predict --data --output writes the whole set" knows_models
claim "eval --split scores what training held out, and a set that was trained on is said to be so" scores_what_was_held_out
claim "resuming with more epochs says what a schedule needs" says_how_to_go_on
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
    fails '.*no column specie; the columns are species, a, b, c; did you mean species\?$' train 'dense 2' --data "$tmp/flowers.csv" --label specie
}
finds_it_first() { # before data are read, drawn or opened
    fails "line 1, column 1: 'covn' is not a layer" train 'covn 3, relu' && fails '.*nothing: No such file' train relu --validation nothing &&
        fails "line 1, column 8: 'stide' is not an option" train 'conv 3 stide=2' --data nothing &&
        fails '.*is too long for an option' train relu --optim "adam $(printf %0200d 0)" --data nothing &&
        fails '.*more than 16 files' train relu --data "$(printf x,%.0s {1..17})" &&
        refuses '--net is given twice' train relu --net relu || return
    printf 'relu\0' >"$tmp/zero.net" && fails '.*zero.net: not text' summary "$tmp/zero.net" --input 3
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
many=${SANITIZE:+30} many=${many:-150} # epochs of a run that something happens to; with a sanitizer they are slow
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
    fails '.*line 2, column 1, id: "x0" is not a number; the label and features options' train 'dense 2' --data "$tmp/words.csv" || return
    succeeds train 'dense 8, relu, dense 2' --data "$tmp/words.csv" --features 'petal_*' --epochs 60 --batch 8 --lr 0.02 --quiet --save "$tmp/words" \
        && learnt training && succeeds summary --model "$tmp/words" && says '^classes: ."iris, blue","rose".$' && says '^columns: ."petal_w","petal_l".$' || return
    cut -d , -f 1-3 "$tmp/words.csv" | head -n 4 >"$tmp/new.csv"
    succeeds predict "$tmp/new.csv" --model "$tmp/words" --output "$tmp/words.out.csv" && [ "$(lines "$tmp/words.out.csv")" = 4 ] &&
        head -n 1 "$tmp/words.out.csv" | grep -qx 'input,class,probability,"iris, blue",rose' || because "a table of predictions" || return
    sed -E 's/^([^,]*),([^,]*),([^,]*),(.*)$/\4,\3,\2/' "$tmp/words.csv" >"$tmp/turned.csv" # the class comes first, a feature last
    succeeds eval "$tmp/words.csv" --model "$tmp/words" && tail -n 1 "$out" >"$tmp/first" && succeeds eval "$tmp/turned.csv" --model "$tmp/words" &&
        tail -n 1 "$out" | cmp -s - "$tmp/first" || because "columns in another order" || return
    cut -d , -f 2-3 "$tmp/words.csv" >"$tmp/new.csv"
    fails '.*new.csv: no column the, species; the columns are petal_w, petal_l' eval "$tmp/new.csv" --model "$tmp/words" || return
    fails '.*label: petal_w is a feature of the net' eval "$tmp/turned.csv" --label petal_w --model "$tmp/words" || return
    fails 'the network.s output is \[3\], there are 2 classes' train 'dense 3' --data "$tmp/words.csv" --features 'petal_*'
}
# Controls of the direction of text, in the names of classes, columns and files, do not reach the terminal.
turn=$(printf '\342\200\256') mark=$(printf '\330\234')
plain() { # ARGUMENTS...: whatever the status, neither stream has one of them, and one has it escaped
    run "$stride" "$@"
    ! grep -qF -e "$turn" -e "$mark" "$out" "$err" || because "stride $*: reaches the terminal" || return
    grep -qF -e '\xe2\x80\xae' -e '\u202e' "$out" "$err" || because "stride $*: not escaped"
}
turns_no_text() {
    local name="$tmp/fl${turn}vsc.csv" net="$tmp/n${turn}et"
    awk -v turn="$turn" -v mark="$mark" 'BEGIN { srand(5); print "a" turn ",b" mark ",species"
        for (k = 0; k < 40; k++) { a = rand(); b = rand(); print a "," b "," (a > b ? "cat" turn : "dog" mark) } }' >"$name"
    plain train 'dense 2' --data "$name" --split 0.2 --epochs 1 --save "$net" --report "$tmp/turn.html" && [ $status = 0 ] || return
    plain train 'dense 2' --data "$name" --features "x$turn" --save "$net" && plain train "covn$turn 2" --data "$name" &&
        plain train 'dense 2' --data "$name" --epochs "1$turn" && plain train 'dense 2' --data "$name$turn" || return
    plain eval "$name" --model "$net" && [ $status = 0 ] && plain eval "$name" --model "$net" --json && [ $status = 0 ] &&
        plain predict "$name" --model "$net" && [ $status = 0 ] && plain predict "$name" --model "$net" --json && [ $status = 0 ] &&
        plain summary --model "$net" && [ $status = 0 ] && ! grep -qF -e "$turn" "$tmp/turn.html" || because "a text turned" || return
    succeeds eval "$name" --model "$net" --json &&
        [ "$(sed -n '/^ *"name": /{ s///p; q; }' "$out")" = '"cat\u202e",' ] || because "JSON has another name"
}
claim "names cannot change the direction of text in a terminal" turns_no_text
# Tables that are not quite right: one line, or understood.
refuses_tables() {
    printf 'a,b\n1,caf\351\n2,the\n' >"$tmp/latin.csv" # not in UTF-8: it names the table and the class
    fails '.*latin.csv: .*name 0, "caf.", is not UTF-8' train 'dense 2' --data "$tmp/latin.csv" --quiet --save "$tmp/none" || return
    printf 'a,b\n1,2,0\n1,3,1\n' >"$tmp/fewer.csv" && printf 'a,b,c,d\n1,2,0\n1,3,1\n' >"$tmp/more.csv" || return
    local name
    for name in fewer more; do
        fails ".*$name.csv: line 2: 3 columns, the header names [24]" train 'dense 2' --data "$tmp/$name.csv" &&
            fails '.*the header names [24]' train 'dense 2' --data "$tmp/$name.csv" --label x --features a || return
    done
    printf '"a","b","y"\n"1",0,1,0\n"2",1,0,1\n' >"$tmp/r.csv" # as R writes it
    succeeds train 'dense 2' --data "$tmp/r.csv" --label y --epochs 1 --save "$tmp/r" && says '^label: column y; features: 2 of 3 columns$' || return
    printf 'y,a,a\n0,1,2\n1,2,3\n' >"$tmp/twice.csv"
    fails '.*twice.csv: columns 2 and 3 are both named a' train 'dense 2' --data "$tmp/twice.csv" &&
        fails '.*label: column 4294967296, the table has 3 columns' train 'dense 2' --data "$tmp/r.csv" --label 4294967296 || return
    printf '0,1\n1,2\0003\n' >"$tmp/zero.csv" && fails '.*zero.csv: line 2: a zero byte' train 'dense 2' --data "$tmp/zero.csv" &&
        printf '0,0x1p3\n1,2\n' >"$tmp/hex.csv" && fails '.*line 1, column 2: "0x1p3" is not a number' train 'dense 2' --data "$tmp/hex.csv" &&
        printf 'a,y\n1,u\n2,\n3,v\n' >"$tmp/empty.csv" && fails '.*line 3, column 2, y: missing value ""' train 'dense 2' --data "$tmp/empty.csv" &&
        fails "--delimiter: expected a character, tab or space, not .pipe" train 'dense 2' --data "$tmp/r.csv" --delimiter pipe
}
# z fits as the class, too: only the net knows that it was not.
keeps_the_label() {
    awk 'BEGIN { srand(1); print "label,a,b,z"; for (i = 0; i < 200; i++) { a = rand(); b = rand(); print (a > b) "," a "," b "," i % 2 } }' >"$tmp/z.csv"
    cut -d , -f 2-4 "$tmp/z.csv" >"$tmp/unlabelled.csv"
    succeeds train 'dense 2' --data "$tmp/z.csv" --features a,b --validation "$tmp/z.csv" --epochs 60 --batch 8 --lr 0.05 --quiet --save "$tmp/z" && learnt validation &&
        succeeds eval --model "$tmp/z" "$tmp/z.csv" && says '^accuracy=(0.9|1)' &&
        succeeds train --from "$tmp/z" --data "$tmp/z.csv" --epochs 1 --lr 1e-9 --quiet --save "$tmp/z2" && learnt training &&
        succeeds export --model "$tmp/z" --int8 --calibrate "$tmp/z.csv" "$tmp/z.c" && says '^floats: +accuracy=(0.9|1)' || return
    fails '.*unlabelled.csv: no column label' eval --model "$tmp/z" "$tmp/unlabelled.csv" &&
        succeeds predict --model "$tmp/z" "$tmp/unlabelled.csv" && [ "$(lines "$out")" = 200 ] || return
    LC_ALL=C sed 's/"note.label"/"note.lavel"/; s/"note.table"/"note.tabel"/' "$tmp/z" >"$tmp/z3" # of another version, which has not kept it
    fails '.*the net does not say which column is the class: set the label option' eval --model "$tmp/z3" "$tmp/z.csv" &&
        succeeds eval --model "$tmp/z3" "$tmp/z.csv" --label label && says '^accuracy=(0.9|1)' || return
    awk -F , -v OFS=, '{ print $4, $2, $3, $1 }' "$tmp/z.csv" | tail -n +2 >"$tmp/bare.csv" # without a header, columns by number
    succeeds train 'dense 2' --data "$tmp/bare.csv" --features 1,2 --label 3 --epochs 60 --batch 8 --lr 0.05 --quiet --save "$tmp/bare" && learnt training &&
        succeeds eval --model "$tmp/bare" "$tmp/bare.csv" && says '^accuracy=(0.9|1)' &&
        fails '.*3 columns, the net.s table has 4, of which 2 are features' predict --model "$tmp/bare" "$tmp/unlabelled.csv" || return
    cp "$tmp/z.csv" "$tmp/renamed.csv" &&
        succeeds train 'dense 2' --data "$tmp/renamed.csv" --label label --epochs 2 --checkpoint "$tmp/rc" --quiet --save "$tmp/rs" &&
        sed -i '1s/a,b,z/a,c,z/' "$tmp/renamed.csv" &&
        fails '.*columns a, b, z to label.*' train 'dense 2' --data "$tmp/renamed.csv" --label label --epochs 3 --checkpoint "$tmp/rc" --resume --quiet --save "$tmp/rs"
}
finds_the_label() {
    awk 'BEGIN { print "a,b,z"; for (i = 0; i < 100; i++) print 5 "," i "," i % 2 }' >"$tmp/five.csv"
    succeeds train 'dense 2' --data "$tmp/five.csv" --epochs 1 --save "$tmp/five" && says '^label: column z; features: 2 of 3' &&
        fails '.*five.csv, column b: classes 0 to 99, the network.s output is .3.: .*--label chooses the column' train 'dense 3' --data "$tmp/five.csv" --label b || return
    awk 'BEGIN { for (i = 0; i < 90; i++) print 16777217 + i % 3 "," i % 3 / 2 }' >"$tmp/ids.csv" # classes that are large, or have gaps
    succeeds train 'dense 3' --data "$tmp/ids.csv" --label 0 --epochs 40 --lr 0.05 --quiet --save "$tmp/ids" && learnt training &&
        succeeds summary --model "$tmp/ids" && says '^classes: .*"16777217","16777218","16777219"' && succeeds eval --model "$tmp/ids" "$tmp/ids.csv" && says '^accuracy=(0.9|1)' || return
    awk 'BEGIN { for (i = 0; i < 90; i++) print 3 * (i % 3) + 1 "," i % 3 / 2 }' >"$tmp/gaps.csv" # 1, 4, 7
    awk 'BEGIN { print "a,z"; for (i = 0; i < 9; i++) print i ",no" }' >"$tmp/one.csv"
    awk 'BEGIN { for (i = 0; i < 90; i++) print i "," i % 2 }' >"$tmp/halves.csv"
    succeeds train 'dense 3' --data "$tmp/gaps.csv" --label 0 --epochs 1 --quiet --save "$tmp/gaps" && succeeds summary --model "$tmp/gaps" && says '^classes: ."1","4","7".$' &&
        succeeds train 'dense 8' --data "$tmp/gaps.csv" --label 0 --epochs 1 --quiet --save "$tmp/gaps" && succeeds summary --model "$tmp/gaps" && ! grep -q '^classes' "$out" &&
        fails 'the network.s output is .4., there are 3 classes, column 0: end it with dense 3; --label chooses the column' train 'dense 4' --data "$tmp/gaps.csv" --label 0 &&
        fails 'the network.s output is .4., there is 1 class, column z: end it with dense 1; --label' train 'dense 4' --data "$tmp/one.csv" &&
        fails '.*halves.csv, column 1: classes 0 to 1, .*; --targets 1 is for a number to predict' train 'dense 1' --data "$tmp/halves.csv" --label 1 --loss mse &&
        fails '.*there are 3 classes, column 0: .*; --targets 1 is for a number to predict' train 'dense 1' --data "$tmp/gaps.csv" --label 0 --loss mse
}
fills_missing() {
    awk 'BEGIN { srand(2); print "a;b;y"; for (i = 0; i < 120; i++) { a = rand(); b = rand(); print (i % 10 ? a : "NA") ";" (i % 15 ? b : "") ";" (a > b ? "up" : "down") } }' >"$tmp/holes.csv"
    fails '.*line 2, column 1, a: missing value "NA"; the missing option' train 'dense 2' --data "$tmp/holes.csv" &&
        succeeds train 'dense 2' --data "$tmp/holes.csv" --missing drop --epochs 60 --batch 8 --lr 0.05 --save "$tmp/holes" && says '; 16 rows left out$' && learnt training &&
        succeeds train 'dense 2' --data "$tmp/holes.csv" --missing mean --epochs 60 --batch 8 --lr 0.05 --save "$tmp/holes" && says '; 20 missing values are means$' || return
    printf 'y|b|a\n?|0.25|NA\n' >"$tmp/hole.csv"
    succeeds predict --model "$tmp/holes" "$tmp/hole.csv" --delimiter '|' && says '^.*hole.csv.*: up 0.[5-9]' || because "the mean of a is above 0.25" || return
    fails '--missing drop leaves rows without a prediction' predict --model "$tmp/holes" "$tmp/hole.csv" --missing drop
}
# Times in seconds: a float holds each to 128.
keeps_digits() {
    awk 'BEGIN { for (i = 0; i < 100; i++) print 1700000000 + i "," (i >= 50) }' >"$tmp/times.csv"
    succeeds train 'dense 2' --data "$tmp/times.csv" --label 1 --epochs 100 --batch 10 --lr 0.1 --quiet --save "$tmp/times" && learnt training &&
        succeeds eval --model "$tmp/times" "$tmp/times.csv" && says '^accuracy=(0.9|1)' && cp "$out" "$tmp/first" &&
        succeeds predict --model "$tmp/times" "$tmp/times.csv" --top 1 &&
        awk -F '[: ]+' '{ hits += $2 == (NR > 50) } END { exit !(hits >= 90) }' "$out" || because "predict has fewer digits"
}
reads_layouts() { # [N, 12, 10, 3]: channels last
    python3 - "$tmp" <<'END' || return
import struct, sys
def save(name, shape, values):
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)).ljust(117) + "\n"
    open(sys.argv[1] + "/" + name, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%df" % len(values), *values))
n = 40
save("last-x.npy", (n, 12, 10, 3), [float(c == i % 3) for i in range(n) for _ in range(120) for c in range(3)])
for name, shift, shape in (("y", 0, (n, 1)), ("minus", -1, (n,)), ("one", 1, (n, 1))): save("last-%s.npy" % name, shape, [i % 3 + shift for i in range(n)])
save("last-half.npy", (n,), [i % 3 / 2 for i in range(n)])
save("last-none.npy", (0, 12, 10, 3), [])
save("last-nan.npy", (n, 1), [i if i != 7 else float("nan") for i in range(n)])
END
    fails '.*x .40, 12, 10, 3. looks like images with their channels last: set the layout option' train 'dense 3' --data "$tmp/last-x.npy,$tmp/last-y.npy" &&
        succeeds train 'global_avgpool, flatten, dense 3' --data "$tmp/last-x.npy,$tmp/last-y.npy" --layout nhwc --epochs 60 --batch 8 --lr 0.1 --save "$tmp/last" && learnt training &&
        says '^input +.*, 3, 12, 10.' && succeeds eval --model "$tmp/last" "$tmp/last-x.npy,$tmp/last-y.npy" && says '^accuracy=(0.9|1)' &&
        succeeds predict --model "$tmp/last" "$tmp/last-x.npy" --top 1 && awk -F '[: ]+' '{ hits += $2 == (NR - 1) % 3 } END { exit hits != 40 }' "$out" || return
    fails '.*classes -1 to 1, the network.s output is .3.: classes are numbered from 0 to 2' train 'dense 3' --data "$tmp/last-x.npy,$tmp/last-minus.npy" --layout nchw &&
        fails '.*classes 1 to 3, the network.s output is .3.: classes are numbered from 0 to 2; subtract 1' train 'dense 3' --data "$tmp/last-x.npy,$tmp/last-one.npy" --layout nchw &&
        fails '.*: a class is 0.5, expected whole numbers; numbers to predict are arrays y of .N, 1., with --loss mse' train 'dense 3' --data "$tmp/last-x.npy,$tmp/last-half.npy" --layout nchw --loss mse &&
        fails '--validation: samples .1, 28, 28. with targets .., those of the data are .12, 10, 3. with ..' train 'dense 4' --data "$tmp/last-x.npy,$tmp/last-y.npy" --layout nchw --validation "$digits/train-x.npy,$digits/train-y.npy" &&
        fails 'arrays in .*last-nan.npy: .*sample 7 has elements in channel 0 that are not finite' train 'dense 3' --data "$tmp/last-nan.npy,$tmp/last-y.npy" &&
        fails '.*last-none.npy is .0, 3, 12, 10.: no sample' predict --model "$tmp/last" "$tmp/last-none.npy" &&
        fails '.*classes -1 to 1, the network.s output is .1.: .*; numbers to predict are arrays y of .N, 1.' train 'dense 1' --data "$tmp/last-x.npy,$tmp/last-minus.npy" --layout nchw --loss mse
}
claim "tables that are not quite right are refused in one line" refuses_tables
claim "the column of the class is kept with the net" keeps_the_label
claim "the column of the class is found, and its classes" finds_the_label
claim "missing values: the mean, or without the row; semicolons" fills_missing
claim "large whole numbers keep their digits" keeps_digits
if command -v python3 >/dev/null; then
    claim "arrays: channels last, classes as a column, classes that begin elsewhere" reads_layouts
else
    echo "skip arrays: python3, which writes them, is not installed"
fi
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
    holds "$tmp/pictures.html" "\"file\":\"$digits/pictures/test/[a-d]/0[0-9]*\.[pj][np]g\"" || because "mistakes name no file" || return
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
        holds "$tmp/tuned.html" '"network":"input 1x28x28.n' || because "a page of a net without a text" || return
    same_tensor 4.weight "$source" "$tuned" && ! same_tensor 4.bias "$source" "$tuned" || because "all but a bias is frozen" || return
    fails 'parameters "conv": the name matches no parameter; there are 0.weight, 0.bias, 4.weight, 4.bias$' train --quiet $data --from "$source" --freeze conv || return
    fails '.*every parameter is frozen' train --quiet $data --from "$source" --freeze '*' || return
    fails '.*no tensor has the name and shape' train 'flatten, relu, dense 4' --quiet $data --from "$source" || return
    LC_ALL=C sed 's/"architecture"/"architectura"/' "$source" >"$tmp/tensors"
    train "$net 4" $data --from "$tmp/tensors" --freeze 0 --save "$tuned" && says '^4 tensors from .*tensors$' &&
        same_tensor 0.weight "$source" "$tuned" || because "tensors alone" || return
    fails '.*tensors without an architecture: give the network, too$' train $data --from "$tmp/tensors" || return
    local subcommand
    for subcommand in summary predict eval export; do
        fails '.*tensors without an architecture, .*; stride train NET --from .*tensors reads' "$subcommand" --model "$tmp/tensors" $([ "$subcommand" = export ] && echo a.onnx) || return
    done
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
    head -c 90 "$digits/t10k-x.npy" | "$stride" predict - --model "$tmp/pictures.safetensors" 2>"$err" && because "a cut input" && return 1
    grep -q '^stride predict: standard input: truncated' "$err" || because "the name of standard input" || return
    TMPDIR=$tmp/nowhere fails "$tmp/nowhere/stride-.*: No such file" predict - --model "$tmp/pictures.safetensors" || return
    # A net that cannot be read is not a picture: another net would be used, model.safetensors.
    cp "$tmp/pictures.safetensors" "$tmp/secret.safetensors" && chmod 0 "$tmp/secret.safetensors" &&
        { [ -r "$tmp/secret.safetensors" ] || fails '.*secret.safetensors: Permission denied' predict "$tmp/secret.safetensors" "$digits/t10k-x.npy"; } || return
    rm -f "$tmp/secret.safetensors"
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
    run "$stride" train 'dense 4' --data "$tmp/bad" --epochs 1 --quiet --save "$tmp/none"
    [ $status = 1 ] && grep -q 'zz1.png: neither' "$err" && grep -q 'zz2.jpg: neither' "$err" &&
        tail -n 1 "$err" | grep -q '2 pictures cannot be read: --skip-bad leaves them out' && [ ! -e "$tmp/none" ] || because "bad pictures" || return
    succeeds train 'dense 4' --data "$tmp/bad" --skip-bad --epochs 1 --quiet --save "$tmp/skipped" && tail -n 1 "$err" | grep -q '2 pictures left out, 320 read' &&
        grep -q 'empty: contains no picture that can be read: not a class' "$err" && succeeds summary --model "$tmp/skipped" && says '^classes: \["a","b","c","d"\]$' ||
        because "--skip-bad, and an empty folder" || return
    rm -rf "$tmp/sizes" && mkdir -p "$tmp/sizes/a" "$tmp/sizes/b" && cp "$digits/pictures/test/d/000.png" "$tmp/sizes/a" || return
    echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d >"$tmp/sizes/b/one.png"
    fails '.*one.png is \[3, 1, 1\] and .*000.png is \[3, 28, 28\]: resize them with --size HxW$' train 'dense 2' --data "$tmp/sizes" --save "$tmp/none" &&
        succeeds train 'dense 2' --data "$tmp/sizes" --size 9x9 --epochs 1 --quiet --save "$tmp/sizes/net"
}
# Formats that are not read are counted and named, in training and in prediction.
names_other_formats() {
    local bad=$tmp/formats
    rm -rf "$bad" && cp -r "$digits/pictures/train" "$bad" && touch "$bad/a/zz.bmp" "$bad/b/zz.webp" "$bad/b/zz.TIFF" "$bad/b/zz.txt" || return
    run "$stride" train 'dense 4' --data "$bad" --epochs 1 --quiet --save "$tmp/none"
    [ $status = 1 ] && [ "$(lines "$err")" = 2 ] && [ ! -e "$tmp/none" ] && tail -n 1 "$err" | grep -q 'formats: 3 pictures cannot be read: --skip-bad' &&
        head -n 1 "$err" | grep -q 'formats: 3 pictures not read, only PNG and JPEG are read: a/zz.bmp, b/zz.TIFF, b/zz.webp$' || because "three other formats" || return
    succeeds train 'dense 4' --data "$bad" --skip-bad --epochs 1 --quiet --save "$tmp/skipped" && [ "$(lines "$err")" = 2 ] &&
        tail -n 1 "$err" | grep -q '^3 pictures left out, 320 read$' || because "--skip-bad" || return
    run "$stride" predict "$bad/b" --model "$tmp/skipped"
    [ $status = 1 ] && [ "$(lines "$out")" = 80 ] && [ "$(lines "$err")" = 1 ] &&
        grep -q '^stride predict: .*/b: 2 pictures not read, only PNG and JPEG are read: zz.TIFF, zz.webp$' "$err" || because "predict FOLDER" || return
    mkdir "$bad/c/only" && mv "$bad/b/zz.webp" "$bad/c/only"
    run "$stride" predict "$bad/c/only" --model "$tmp/skipped"
    [ $status = 1 ] && grep -q '1 picture not read' "$err" || because "a folder of nothing else" || return
    run "$stride" predict "$bad/c" --model "$tmp/skipped"
    [ $status = 1 ] && grep -q ': only/zz.webp$' "$err" || because "a folder in a folder"
}
# Without the library of a format one line names it, and nothing is offered.
without_libraries() {
    local build=${BIN%/bin}
    # shellcheck disable=SC2086
    $CC $CFLAGS -c "$root/nn/pictures/image.c" -o "$tmp/image.o" &&
        $CC -pthread "$build/examples/stride/main.o" "$tmp/image.o" "$build/nn/pictures/folder.o" "$build/examples/helpers.a" "$LIB" $LIBS -o "$tmp/without" || return
    mkdir -p "$tmp/jpegs/a" "$tmp/jpegs/b" && for i in $(seq 30); do touch "$tmp/jpegs/a/$i.jpg" "$tmp/jpegs/b/$i.jpeg"; done
    run "$tmp/without" train 'dense 2' --data "$tmp/jpegs" --epochs 1
    [ $status = 1 ] && [ "$(lines "$err")" = 1 ] && [ ! -s "$out" ] &&
        grep -q 'jpegs: 60 JPEG pictures, but built without TurboJPEG (libturbojpeg0-dev): install it and build again$' "$err" || because "60 lines" || return
    run "$tmp/without" predict "$tmp/jpegs" --model "$model"
    [ $status = 1 ] && [ "$(lines "$err")" = 1 ] && grep -q '60 pictures not read, built without TurboJPEG' "$err" || because "predict FOLDER" || return
    touch "$tmp/jpegs/a/1.png"
    run "$tmp/without" predict "$tmp/jpegs/a/1.png" --model "$model"
    [ $status = 1 ] && grep -q '1.png: neither PNG nor JPEG' "$err" || because "an empty file"
}
claim "without libpng and TurboJPEG one line names the package" without_libraries
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
# A library without ONNX says so.
without_onnx=$("$stride" export --model "$model" "$tmp/x.onnx" 2>&1 | grep 'built without ONNX')
# From a folder of pictures to a table, by the examples of `stride --help` alone.
leads_to_predictions() {
    local walk=$tmp/walk command
    rm -rf "$walk" && mkdir -p "$walk/pictures" "$walk/new" && cp -r "$digits/pictures/train/"[ab] "$walk/pictures" &&
        cp "$digits/pictures/test/a/"* "$walk/new" && cp "$digits/pictures/test/b/006.jpg" "$walk/cat.jpg" || return
    succeeds --help && sed -n '/^examples/,$ s/^  \(stride .*\)/\1/p' "$out" | sed 's/  .*//' >"$walk/commands" && [ "$(lines "$walk/commands")" = 6 ] || return
    while read -r command; do
        [[ $command = *.onnx && $without_onnx ]] && continue
        (cd "$walk" && PATH=$BIN:$PATH bash -c "$command") >"$out" 2>"$err" </dev/null || { status=$?; because "$command"; return 1; }
        [ "${command#stride eval}" = "$command" ] || awk -F '[= ]' 'END { exit !($2 > 0.9) }' "$out" || because "$command" || return
    done <"$walk/commands"
    [ "$(lines "$walk/n.csv")" = 21 ] && grep -q '^new/003.png,a,0\.' "$walk/n.csv" || because "no table"
}
if [ -d "$digits/pictures" ]; then
    if "$stride" predict --model "$model" "$digits/pictures/test/d/000.png" "$digits/pictures/test/c/005.jpg" 2>&1 | grep -q 'built without'; then
        echo "skip pictures: stride is built without libpng or TurboJPEG"
    else
        claim "folders of pictures by class, their names, another size, grey and colour" reads_pictures
        claim "classes are matched by name" matches_classes
        claim "a saved net gets a new head, and what is frozen stays" fine_tunes
        claim "predict goes on after a bad file, and writes tables" writes_predictions
        claim "bad pictures are listed at once, or left out" skips_bad
        claim "pictures of other formats are counted and named" names_other_formats
        if command -v python3 >/dev/null; then
            claim "the commands of docs/command-line.md print what it shows" prints_what_it_shows
        else
            echo "skip the commands of docs/command-line.md: python3 is not installed"
        fi
        claim "the examples of --help lead from a folder of pictures to a table of predictions" leads_to_predictions
    fi
else
    echo "skip pictures: libpng and TurboJPEG are not both installed (libpng-dev, libturbojpeg0-dev)"
fi

# ---- export and speed ------------------------------------------------------------------------------

# What integers cost is measured: the accuracy with floats is that of stride eval.
exports_int8() {
    local small=$tmp/small.c constants
    refuses '--int8 is for .c, not .*x.onnx' export --model "$model" --int8 "$tmp/x.onnx" &&
        refuses '--calibrate is for --int8' export --model "$model" --calibrate "$digits" "$small" &&
        refuses '--calibrate needs a value' export --int8 "$small" --calibrate &&
        fails '.*nowhere' export --model "$model" --int8 --calibrate "$tmp/nowhere" "$small" &&
        fails '.*trained on .*/train.csv: give --calibrate' export --model "$tmp/hint" --int8 "$small" &&
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
names_c() {
    local c=$tmp/small.c
    succeeds export "$model" "$c" && grep -q 'model_predict(' "$c" && succeeds export "$model" "$c" --name digits &&
        grep -q 'digits_predict(' "$c" && grep -q 'DIGITS_INPUTS' "$c" && ! grep -q 'model_' "$c" || because "--name" || return
    succeeds export "$model" "$c" --name small --int8 --calibrate "$digits" && grep -q 'small_predict(' "$c" || because "--int8" || return
    fails '.*the name is "1x", expected a C identifier' export "$model" "$c" --name 1x &&
        refuses '--name is for .c, not .*x.onnx' export "$model" "$tmp/x.onnx" --name digits
}
claim "export: --name is what the names of a C file begin with" names_c
exports() {
    succeeds export "$model" "$tmp/weights" && [ -s "$tmp/weights/0.weight.npy" ] && [ -s "$tmp/weights/4.bias.npy" ] || because "a folder" || return
    succeeds export --model "$model" "$tmp/same.safetensors" && cmp "$model" "$tmp/same.safetensors" &&
        succeeds export --model "$model" "$tmp/layers.net" && grep -q '^conv2d 6 5 stride=2$' "$tmp/layers.net" &&
        succeeds summary "$tmp/layers.net" || because ".net" || return
    fails '.*nowhere/weights: No such file' export --model "$model" "$tmp/nowhere/weights" &&
        refuses '.*same.safetensors is a saved net: give the file to write, too' export "$tmp/same.safetensors" && cmp "$model" "$tmp/same.safetensors"
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
        on_terminal $width "$command" && colours && grep -q "best$escape" "$out" && [ "$(widest)" -gt $((width * 2 / 3)) ] && [ "$(widest)" -lt $width ] || because "$width columns: $(widest) are used" || return
    done
    on_terminal 80 "NO_COLOR=1 $command" && ! colours && [ "$(widest)" -gt 40 ] || because "NO_COLOR" || return
    on_terminal 80 "NO_COLOR= $command" && colours || because "an empty NO_COLOR" || return
    on_terminal 80 "TERM=dumb $command" && ! grep -q "$escape" "$out" || because "TERM=dumb"
}
folds() { # the summary's table and memory, and the lines of epochs
    on_terminal 40 "'$stride' train --net '$net 10' --data '$digits' --epochs 2 --save '$tmp/terminal.safetensors'" || return
    sed "s/$escape\[[0-9;]*[mK]//g" "$out" | tr '\r' '\n' | awk '/^layer/ { table = 1 } /^epoch/ { table = 0 } /^epoch.*  loss/ { epoch = 1 } /^training loss/ { epoch = 0 }
        (table || epoch) && ! / %/ { if (!/=/ && length > most) most = length; text = text $0 } END { print most, text }' >"$tmp/narrow"
    [ "$(cut -d ' ' -f 1 "$tmp/narrow")" -le 40 ] && grep -q ' validation loss.*samples/s.*  best' "$tmp/narrow" && grep -q 'FLOPs.*conv2d.*parameters and their gradients.*peak' "$tmp/narrow" || { cat "$tmp/narrow"; return 1; }
}
draws_predictions() { # the picture and a bar for each class; plain text elsewhere
    local command="'$stride' predict --model '$model' --data '$digits' --index 1"
    on_terminal 80 "$command" && colours && grep -q '█.* %' "$out" && [ "$(grep -c '▀' "$out")" = 14 ] && [ "$(grep -c ' %' "$out")" = 10 ] || because "a picture and bars" || return
    on_terminal 25 "$command" && [ "$(grep -m 1 '▀' "$out" | grep -o '▀' | wc -l)" = 25 ] && [ "$(grep -m 1 '█.* %' "$out" | grep -o '█' | wc -l)" -le 14 ] || because "25 columns" || return
    on_terminal 80 "$command --top 3" && [ "$(grep -c ' %' "$out")" = 3 ] || because "--top" || return
    on_terminal 80 "NO_COLOR=1 $command" && ! grep -q "$escape" "$out" && ! grep -q '▀' "$out" && grep -q '█.* %' "$out" || because "NO_COLOR" || return
    on_terminal 80 "TERM=dumb $command" && ! grep -q "$escape" "$out" && ! grep -q '█' "$out" && [ "$(lines "$out")" = 1 ] || because "TERM=dumb" || return
    succeeds predict --model "$model" --data "$digits" --index 1 && [ "$(lines "$out")" = 1 ] && ! grep -q '█' "$out" || because "into a file" || return
    on_terminal 80 "$command --json" && ! grep -q '█' "$out" && ! grep -q "$escape" "$out" || because "--json"
}
stops_when_interrupted() {
    local job
    begin train --net "$net 10" --data "$digits" --epochs 100000 --save "$tmp/stopped.safetensors"
    kill -INT $job
    ends
    [ $status = 130 ] && says '^validation accuracy=' &&
        says '^interrupted after step [0-9]+: to train these weights further, use --from .*stopped.safetensors$' || because "interrupted" || return
    succeeds summary --model "$tmp/stopped.safetensors"
}
# Within a step, and it goes on as if nothing had been.
goes_on_after_an_interrupt() {
    local maps=${SANITIZE:+4} heavy job epochs # with a sanitizer an epoch of 24 maps takes half a minute
    heavy="conv ${maps:=24} 5x5, relu, conv $maps 5x5, relu, maxpool 4, dense 10"
    local run="train --data $digits --batch 4 --schedule constant --checkpoint $tmp/stop"
    # shellcheck disable=SC2086
    begin $run "$heavy" --epochs 1000 --save "$tmp/stopped"
    sleep 0.03
    kill -INT $job
    ends
    [ $status = 130 ] && says '^interrupted after step [0-9]+: to continue from .*stop, repeat the command with --resume$' &&
        { ! grep -q '^epoch' "$err" || says '^best: epoch [0-9]+, validation loss'; } || because "interrupted" || return
    epochs=$(($(sed -n 's/.* epochs=\([0-9]*\) .*/\1/p' "$out") + 1))
    # shellcheck disable=SC2086
    succeeds $run "$heavy" --epochs $epochs --quiet --resume --save "$tmp/again" &&
        succeeds ${run%--checkpoint*} "$heavy" --epochs $epochs --quiet --save "$tmp/straight" && cmp "$tmp/again" "$tmp/straight"
}
if ! script --version 2>/dev/null | grep -q util-linux; then
    echo "skip terminals: no script of util-linux"
elif ! script -q -e -c true /dev/null >/dev/null 2>&1 </dev/null; then
    echo "skip terminals: there is no pseudo-terminal"
else
    claim "progress on a terminal of any width, in colour unless NO_COLOR is set; TERM=dumb" draws
    claim "a table or a line of an epoch that is wider than the terminal is folded" folds
    claim "predict draws pictures and bars on a terminal" draws_predictions
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
        [ "$(tail -n 1 "$tmp/zero.csv" | cut -d , -f 3)" = 0 ] || because "--lr 0 takes another learning rate"
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
    offers 'predict ' pr && offers 'eval export ' e && offers '--epochs --every ' train --e && offers 'adam adamw ' train --optim adam &&
        offers 'adam adamw ' train --optim = adam && offers 'adam adamw ' train -O adam && offers 'constant cosine ' train --net x --schedule co &&
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
    succeeds complete train --optim adam && [ "$(tr '\n' ' ' <"$out")" = 'adam adamw ' ] || because "stride complete"
}
manual() {
    local name
    succeeds help man && says '^\.TH STRIDE 1' && says '^\.SH NETWORKS' || return
    for name in $subcommands; do says "^\.SH \"STRIDE $name\"" || return; done
}
lists_kinds() {
    succeeds help training && says '^  huber \[delta=1\]' && says '^  sgd \[lr=0\.01\] \[momentum=0\.9\]' && says '^  one-cycle \[pct_start=0\.3\]'
}
claim "bash completes subcommands, options, choices and files" completes
claim "zsh and fish have theirs" other_shells
claim "the manual page has every subcommand" manual
claim "stride help training lists losses, optimizers and schedules with their options" lists_kinds
exit $failed
