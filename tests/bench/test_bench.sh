#!/usr/bin/env bash
# The benchmarks' programs: their options, what they print and write, and how they treat peers. Not their figures.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/bench
. tests/tools/claims.sh
skip_sanitized "the benchmarks: a sanitizer sees what they call in the tests"
mkdir -p "$tmp"
export BENCH_FOLDER=$tmp
out=$tmp/out err=$tmp/err

run() { # COMMAND...: into $out, $err and $status
    "$@" >"$out" 2>"$err"
    status=$?
}
succeeds() { # COMMAND...
    run "$@"
    [ $status = 0 ] && [ ! -s "$err" ] || because "$*"
}
fails() { # STATUS PATTERN COMMAND...: one line on stderr, nothing on stdout
    local expected=$1 pattern=$2
    shift 2
    run "$@"
    [ $status = "$expected" ] || because "$*: expected status $expected" || return
    [ "$(lines "$err")" = 1 ] && [ ! -s "$out" ] || because "$*: expected one line, on stderr" || return
    grep -qE -- "$pattern" "$err" || because "$*: expected /$pattern/"
}

# ---- options ---------------------------------------------------------------------------------------

helps() {
    local option
    for option in --help -h; do
        succeeds "$BENCH/bench" $option && grep -q '^usage: bench' "$out" || because "$option" || return
    done
}
refuses_options() {
    local option
    for option in --no-such-option --rounds --rounds= --rounds=0 --rounds=2x --rounds=100 --seconds=0 --quick=1; do
        fails 2 . "$BENCH/bench" $option || return
    done
    for option in --peer=torch --peer==command --peer=torch=; do fails 2 NAME=COMMAND "$BENCH/bench" $option || return; done
}
refuses_names() { fails 2 'nothing .* "deconvolution"' "$BENCH/bench" --quick relu deconvolution; }
refuses_files() { fails 1 "^bench: $tmp/nowhere/csv: No such file" "$BENCH/bench" --quick --csv="$tmp/nowhere/csv" relu; }

claim "it helps on stdout" helps
claim "options that there are not, and values out of range, are refused" refuses_options
claim "a name that selects nothing is refused" refuses_names
claim "a file that cannot be written is refused before anything is measured" refuses_files

# ---- a run -----------------------------------------------------------------------------------------

# The machine, relu both ways, training alone and beside a busy process, and inference: each with one thread and with two.
prints_rows() {
    succeeds "$BENCH/bench" --quick --csv="$tmp/csv" "relu " mlp || return
    local what
    for what in fma 'sgemm 256x256x256' 'copy 8 MiB' 'copy 9 MiB' 'relu 4x64x24x24 +forward' 'relu 4x64x24x24 +backward' 'mlp +train' 'mlp +infer'; do
        [ "$(grep -cE "^$what +[12] +[0-9.]+ " "$out")" = 2 ] || because "no two lines of $what" || return
    done
    ! grep -q '^conv' "$out" || because "conv was not asked for"
}
writes_csv() { # that run
    [ "$(head -n 1 "$tmp/csv")" = "peer,subject,pass,threads,seconds,spread,gflops,share_of_peak,gigabytes,share_of_copy,images_per_second,process_peak_mb,allocations" ] &&
        awk -F , 'NF != 13 || (NR > 1 && !($5 > 0)) { wrong = 1 } END { exit wrong || NR != 1 + 9 * 2 }' "$tmp/csv" || { cat "$tmp/csv"; because "--csv"; }
}
# Nominal operations: training the multilayer perceptron, 3 forward passes less the first layer's dx, batches of 4.
counts_operations() { # of that run
    awk -F , '$2 == "mlp" && $3 == "train" {
        flops = $5 * $7 * 1e9
        expected = 4 * 2 * (3 * (784 * 512 + 512 * 512 + 512 * 10) - 784 * 512)
        wrong = wrong || flops < 0.99 * expected || flops > 1.01 * expected
        seen++
    } END { exit wrong || seen != 2 }' "$tmp/csv" || { cat "$tmp/csv"; because "operations"; }
}
answers_nonsense() {
    printf '%s\n' '' words 'layer 2x3 relu sideways' 'layer relu forward' 'layer 2x3 covn forward' 'layer 2x3 relu gradient' \
        'layer 2x3 conv 4 3 forward result' 'net nothing 4 train' 'sgemm 0 run' 'fma run result' 'layer 2x3 relu forward' \
        'layer 2x3 relu forward result' >"$tmp/requests"
    run "$BENCH/stride_peer" <"$tmp/requests"
    [ "$status" = 0 ] && [ "$(cut -d ' ' -f 1 "$out" | tr '\n' ' ')" = "ready error error error error error error error error error skip ok result " ] ||
        because "answers" || return
    [ "$(head -n 1 "$tmp/given") $(head -n 1 "$tmp/result")" = "2x3 2x3 2x3" ] || because "its result"
}

claim "a quick run prints what was asked for, with one thread and with two" prints_rows
claim "--csv writes the promised columns" writes_csv
claim "operations are the nominal ones" counts_operations
claim "a request that makes no sense is answered with an error" answers_nonsense

# ---- peers -----------------------------------------------------------------------------------------

# A peer that copies Stride's result, and takes a second for everything; with an argument, so many.
cat >"$tmp/slow" <<'END'
echo ready
while read -r line; do
    case $line in
        *result) cp "$BENCH_FOLDER/expected" "$BENCH_FOLDER/result" && echo result ;;
        *relu*) echo "ok ${1:-1} -1" ;;
        *) echo "skip not measured here" ;;
    esac
done
END
against() { succeeds "$BENCH/bench" --quick --csv="$tmp/csv" --peer="slow=sh '$tmp/slow'" --peer="slow slower=sh '$tmp/slow' 2" "$@"; }
compares() {
    against relu || return
    grep -qE '^relu .*forward +1 +[0-9.]+ +1000\.0000 +[0-9.]+x' "$out" || because "the peer's better setting" || return
    awk -F , '$1 == "slow" { one++; wrong = wrong || $5 != 1 } $1 == "slow slower" { two++; wrong = wrong || $5 != 2 }
        END { exit wrong || one != 4 || two != 4 }' "$tmp/csv" || { cat "$tmp/csv"; because "--csv"; }
}
# What is asked of the setting that takes thrice the time, and of one that is for `forward` only.
gives_up() {
    rm -f "$tmp/asked" "$tmp/half"
    succeeds "$BENCH/bench" --quick --rounds=3 --peer="a=sh '$tmp/slow'" --peer="a slower=tee -a '$tmp/asked' | sh '$tmp/slow' 3" \
        --peer="a half@forward=tee -a '$tmp/half' | sh '$tmp/slow'" relu || return
    [ "$(grep -c 'forward$' "$tmp/asked")" = 2 ] && [ "$(grep -c 'forward$' "$tmp/half")" = 6 ] && ! grep -q backward "$tmp/half" ||
        because "$(cat "$tmp/asked" "$tmp/half")"
}
tells_goals() {
    against relu || return
    grep -q '^the moonshot' "$out" && grep -qE '^train example, .* torch .*not measured$' "$out" || because "goals"
}
leaves_out() { # PATTERN COMMAND
    succeeds "$BENCH/bench" --quick --peer="none=$2" relu && grep -qE "^none: relu .*: $1" "$out" || because "$2"
}
absent_peers() {
    leaves_out 'it is not here' 'echo skip it is not here' && leaves_out 'it does not start' true && leaves_out 'it ended' 'echo ready' &&
        leaves_out 'out of order' 'sh -c "echo ready; while read -r _; do echo error out of order; done"'
}
# Stride's own copy is given no longer, on a busy machine as well.
late_peers() { BENCH_FOLDER=$tmp BENCH_PATIENCE=3 leaves_out 'it gave no answer in time' 'sh -c "echo ready; cat >/dev/null"'; }
# A peer whose results are spoilt when it has written them, by a command.
cat >"$tmp/spoilt" <<'END'
echo 'to stderr' >&2
echo 'to stdout'
spoil=$1
shift
"$@" | while read -r line; do
    if [ "$line" = result ]; then (cd "$BENCH_FOLDER" && eval "$spoil"); fi
    echo "$line"
done
END
# One number in the middle becomes 77; fewer numbers; another shape of as many; nothing at all.
number='n=$(wc -c <result) && printf "\\000\\000\\232\\102" | dd of=result bs=1 seek=$((n - n / 8 * 4)) conv=notrunc 2>/dev/null'
fewer='n=$(wc -c <result) && head -c $((n - 4)) result >less && mv less result'
shape='sed -i "1s/x/ /" result'
nothing='rm result'
# Stride asked for something else than the driver asks for: with sed, by lines.
cat >"$tmp/changed" <<'END'
edit=$1
shift
while read -r line; do echo "$line" | sed "$edit"; done | "$@"
END
changed() { # NAME EDIT COMMAND
    printf '%s' "--peer=$1=sh '$tmp/changed' '$2' $3"
}
spoilt() { # NAME SPOIL COMMAND
    printf '%s' "--peer=$1=sh '$tmp/spoilt' '$2' $3"
}
compares_results() {
    local stride="'$BENCH/stride_peer'" what
    succeeds "$BENCH/bench" --quick --log="$tmp/chatter.log" --csv="$tmp/csv" "$(spoilt same : "$stride")" \
        "$(spoilt number "$number" "$stride")" "$(spoilt fewer "$fewer" "$stride")" "$(spoilt shape "$shape" "$stride")" \
        "$(spoilt nothing "$nothing" "$stride")" "$(changed mute 's/ result$/ absent/' "$stride")" \
        --peer="times=sh -c 'echo ready; while read -r line; do echo ok 1 -1; done'" \
        "$(changed results 's/ward$/& result/; s/gradient$/& result/' "$stride")" mlp "dense 4x784" || return
    for what in 'mlp train' 'mlp infer' 'dense 4x784 to 512 forward' 'dense 4x784 to 512 backward' 'dense 4x784 to 512 gradient'; do
        grep -q "^same,${what% *},${what##* }," "$tmp/csv" || { cat "$tmp/csv"; because "same: $what"; } || return
    done
    ! grep -E '^(number|fewer|shape|nothing|mute|times),' "$tmp/csv" && ! grep '^results,dense' "$tmp/csv" || because "their times count" || return
    grep -qE '^number: dense .*: its result is another: array 1 differs by .* of its size' "$out" || because "a number" || return
    grep -qE '^fewer: mlp .*: its result is \[4x10.*, expected \[4x10' "$out" || because "fewer" || return
    grep -qE '^shape: dense .*: its result is \[4 512\], 2048 numbers, expected \[4x512\], 2048' "$out" || because "a shape" || return
    grep -qE '^nothing: dense .*: it has written no result' "$out" || because "nothing" || return
    grep -qE "^mute: dense .*'forward' is not an option of dense" "$out" || because "mute" || return
    grep -qE '^results: dense .*: it gives a result rather than a time' "$out" || because "results" || return
    grep -q 'to stderr' "$tmp/chatter.log" && grep -q 'to stdout' "$tmp/chatter.log" && ! grep -q 'to std' "$out" "$err" || because "chatter"
}
runs_programs() {
    succeeds "$BENCH/bench" --quick --peer="none=echo skip it" --mnist='echo test accuracy=0.9912' --once="'$BENCH/once' sleep 0.02" relu || return
    grep -qE '^make mnist, accuracy +99\.12% .* met$' "$out" || because "accuracy" || return
    grep -qE '^predicting one picture, from exec on +[2-9][0-9.]+ms .* NOT MET$' "$out" || because "its time" || return
    grep -qE '^predicting one picture, peak memory +[1-3]\.[0-9]+MB .* met$' "$out" || because "its memory" || return
    run "$BENCH/bench" --quick --mnist=false relu
    [ $status = 1 ] && grep -q '^bench: false: it gives no accuracy' "$err" || because "--mnist=false" || return
    run "$BENCH/once" false
    [ $status = 1 ] || because "once false"
}
# A busy machine: so is it only while that is measured, and not afterwards.
keeps_busy() {
    succeeds "$BENCH/bench" --quick 'mlp beside' || return
    [ "$(grep -cE '^mlp beside a busy process +train +[12] +[0-9.]+ ' "$out")" = 2 ] || because "no two lines" || return
    ! ps -eo ppid,args | grep "^ *1 sh -c while :; do :; don[e]" || because "it is still busy"
}

# A peer that spins in the background, as idle threads do, while another looks at it.
cat >"$tmp/spins" <<'END'
while :; do :; done &
echo $! >"$1"
echo ready
while read -r line; do
    case $line in
        *result) cp "$BENCH_FOLDER/expected" "$BENCH_FOLDER/result" && echo result ;;
        *) echo ok 1 -1 ;;
    esac
done
kill -KILL $!
END
cat >"$tmp/looks" <<'END'
echo ready
while read -r line; do
    case $line in *result) cp "$BENCH_FOLDER/expected" "$BENCH_FOLDER/result" && echo result && continue ;; esac
    state=$(sed 's/.*) //; s/ .*//' "/proc/$(cat "$1")/stat")
    if [ "$state" = T ]; then echo ok 1 -1; else echo "error the other is in state $state"; fi
done
END
stops_others() {
    [ -d /proc/self ] || return 0
    succeeds "$BENCH/bench" --quick --peer="spins=sh '$tmp/spins' '$tmp/id'" --peer="looks=sh '$tmp/looks' '$tmp/id'" relu || return
    grep -qE '^relu .* 1000\.0000 .* 1000\.0000 ' "$out" || because "the other"
}
# A peer that never answers: the driver waits for it, and is killed.
ends_with_driver() {
    rm -f "$tmp/id"
    BENCH_FOLDER=$tmp "$BENCH/bench" --quick --peer="mute=sh -c 'echo \$\$ >>\"$tmp/id\"; echo ready; while read -r _; do :; done'" relu >"$out" 2>"$err" &
    local driver=$! tries=0
    while [ "$(cat "$tmp/id" 2>/dev/null | wc -l)" -lt 2 ] && [ $((tries += 1)) -lt 100 ]; do sleep 0.1; done
    kill -KILL $driver && wait $driver 2>/dev/null
    while kill -0 $(cat "$tmp/id") 2>/dev/null && [ $((tries += 1)) -lt 200 ]; do sleep 0.1; done
    status=$tries
    [ $tries -lt 100 ] || because "the peer goes on"
}

claim "ratios are those to a peer's best setting" compares
claim "a setting that is much slower is measured once, and one for some subjects on those only" gives_up
claim "while one is measured, the others are stopped" stops_others
claim_beside "peers end with the driver, even if that is killed" ends_with_driver
claim "goals that were not measured are said to be so" tells_goals
claim "a peer that cannot run is left out, with its reason" absent_peers
claim_beside "so is a peer that does not answer in time" late_peers
claim "a peer's time counts only after a result that is Stride's; chatter goes to a log" compares_results
claim "training MNIST and predicting once are run, and their figures read" runs_programs
claim "a process is busy while training is measured beside it, and ended" keeps_busy

# ---- lists -----------------------------------------------------------------------------------------

list() { printf '%s\n' "$@" >"$tmp/list"; }
listed() { run "$BENCH/bench" --quick --threads=1 --cpu-time --list="$tmp/list" --csv="$tmp/csv" --log="$tmp/list.log" "$@"; }
reads_lists() {
    list '# a comment' '' 'layer 2x3x8x8 conv 4 3, relu   # two layers' 'layer 2x3 relu' 'net lenet5-1998 2'
    listed --peer="slow=sh '$tmp/slow'" --peer="slow slower=sh '$tmp/slow' 2"
    [ $status = 0 ] || because "a list" || return
    # Forward, backward and gradient of the first, forward and backward of the second; no relu in the net's name.
    [ "$(cut -d , -f 3 "$tmp/csv" | sort | uniq -c | tr -s ' \n' ' ')" = " 2 backward 2 forward 1 gradient 1 pass " ] ||
        { cat "$tmp/csv"; because "--csv"; } || return
    grep -qE '^all +1 +5 +[0-9.]+x +[0-9.]+x' "$out" && grep -qE '^ *[0-9.]+x +[0-9]+% gradient +1 .* slow +2x3x8x8 conv 4 3, relu$' "$out" ||
        because "means and rows" || return
    grep -q '^left out, 1 of 3' "$out" && grep -q '^lenet5-1998 2: not measured here$' "$out" || because "left out" || return
    listed relu && [ "$(grep -c relu "$out")" = 0 ] || because "without peers"
}
# The backward pass of a product has twice its multiply-adds; one of relu reads y besides.
prints_limits() {
    list 'layer 64x512 dense 512' 'layer 64x4096 relu'
    listed --peer="good='$BENCH/stride_peer'"
    [ $status = 0 ] || because "a list" || return
    awk -F , '{ limit[$9, $3] = $7 }
        function about(pass, what, expected, ratio) {
            ratio = limit["\"" what "\"", pass] / limit["\"" what "\"", "forward"]
            return ratio > 0.9 * expected && ratio < 1.6 * expected
        }
        END {
            product = "64x512 dense 512"
            exit !(about("backward", product, 2) && about("gradient", product, 1) && about("backward", "64x4096 relu", 1.5))
        }' "$tmp/csv" || { cat "$tmp/csv"; because "limits"; }
}
refuses_lists() {
    local line
    for line in 'layer 2x3x8x8 covn 4 3' 'layer 2x3x8x8' 'layer 2x3x2x2 conv 4 3' 'net nothing 4' 'net lenet5' 'relu'; do
        list 'layer 2x3 relu' "$line"
        fails 1 "^bench: $tmp/list, line 2: " "$BENCH/bench" --list="$tmp/list" || return
    done
    list '# nothing'
    fails 1 'it lists nothing' "$BENCH/bench" --list="$tmp/list"
}
names_failures() {
    list 'layer 2x3x8x8 conv 4 3' 'layer 2x3 relu'
    listed "$(spoilt spoilt "$number" "'$BENCH/stride_peer'")" --peer="good='$BENCH/stride_peer'"
    [ $status = 1 ] && grep -q '^bench: results that are missing, or not Stride.s: 5' "$err" || because "the status" || return
    [ "$(grep -c '^FAIL 2x3.*, spoilt: its result is another' "$out")" = 5 ] || because "their names" || return
    [ "$(lines "$tmp/csv")" = 1 ] || { cat "$tmp/csv"; because "a row that fails"; }
}
# Stride, or a peer, that gives no answer at one layer.
cat >"$tmp/hangs" <<'END'
while read -r line; do
    case $line in *2x3x8x8*) sleep 60 ;; esac
    echo "$line"
done | "$@"
END
hangs=$tmp/hangs
goes_on() {
    export BENCH_FOLDER=$tmp
    list 'layer 2x3x8x8 conv 4 3' 'layer 2x3 relu'
    BENCH_PATIENCE=2 listed --peer="hangs=sh '$hangs' '$BENCH/stride_peer'"
    [ $status = 1 ] && grep -q '^bench: results that are missing, .*: 1' "$err" && grep -q '^FAIL 2x3x8x8 conv.* forward, hangs: it gave no answer in time$' "$out" &&
        [ "$(grep -c relu "$tmp/csv")" = 2 ] && ! grep conv "$tmp/csv" || { cat "$out"; because "a peer"; } || return
    mkdir -p "$tmp/hung" && cp "$BENCH/bench" "$tmp/hung" &&
        printf '#!/bin/sh\nexec sh "%s" "%s"\n' "$hangs" "$BENCH/stride_peer" >"$tmp/hung/stride_peer" && chmod +x "$tmp/hung/stride_peer" || return
    BENCH_PATIENCE=2 run "$tmp/hung/bench" --quick --threads=1 --cpu-time --list="$tmp/list" --csv="$tmp/csv" --log="$tmp/list.log" --peer="good='$BENCH/stride_peer'"
    [ $status = 1 ] && grep -q '^bench: results that are missing, .*: 3' "$err" && [ "$(grep -c '^FAIL 2x3x8x8 conv.*, stride: it gave no answer in time$' "$out")" = 3 ] &&
        [ "$(grep -c relu "$tmp/csv")" = 2 ] && ! grep conv "$tmp/csv" || { cat "$out"; because "Stride"; }
}
draws_layers() {
    "$BENCH/draw" 7 60 >"$tmp/seven" && "$BENCH/draw" 7 60 >"$tmp/again" && "$BENCH/draw" 8 60 >"$tmp/eight" &&
        cmp "$tmp/seven" "$tmp/again" && ! cmp -s "$tmp/seven" "$tmp/eight" || return
    [ "$(lines "$tmp/seven")" = 60 ] && ! grep -vE '^(layer [0-9x]+ [a-z].*|# left out: .*)$' "$tmp/seven" || return
    fails 2 '^usage: draw' "$BENCH/draw" && fails 2 '^usage: draw' "$BENCH/draw" 7x
}
# Every drawn layer is read again, and every network of the list that is measured.
reads_what_is_drawn() {
    fails 2 'nothing to measure is called "nobody"' "$BENCH/bench" --list="$tmp/seven" nobody &&
        fails 2 'nothing to measure is called "nobody"' "$BENCH/bench" --list=tests/bench/networks/list.txt nobody
}
claim "a list's layers and networks are measured, and means and rows printed" reads_lists
claim "the limits of a layer follow from its multiply-adds and bytes" prints_limits
claim "a list that makes no sense is refused, with its line" refuses_lists
claim "what a peer computes differently is a failure that is named, not a row" names_failures
claim_beside "a layer that is not answered in time fails, and the next ones are measured" goes_on
claim "drawn layers are the same for the same seed" draws_layers
claim "drawn layers and the networks of the list can be read" reads_what_is_drawn

# ---- poolings --------------------------------------------------------------------------------------

poolings() {
    SHAPE=2x4x24x24 BENCH_SECONDS=1e-6 succeeds tests/bench/poolings.sh "$BENCH/stride_peer" 1 &&
        grep -qE '^maxpool +1\.00 +[0-9.]+ ms +1\.00 +[0-9.]+ ms +1\.00 ' "$out" && [ "$(lines "$out")" = 23 ] || because "its table"
}
errs() {
    run tests/bench/poolings.sh "$tmp/errs" 1
    [ $status = 1 ] && grep -q '^error no such layer$' "$err" || because "an error"
}
printf '%s\n' '#!/bin/sh' 'echo ready; while read -r _; do echo error no such layer; done' >"$tmp/errs"
chmod +x "$tmp/errs"
claim "poolings are measured, relative to max pooling" poolings
claim "a pooling that cannot be measured is a failure" errs

# ---- the peers themselves ---------------------------------------------------------------------------

# What is installed of them: each computes what Stride computes, or else it would have no time, as above.
torch="/usr/bin/python3 -B tests/bench/torch_peer.py"
dnnl="$BENCH/dnnl_peer_usr"
node="node tests/bench/onnx_peer.js $BENCH/../../peers"
onnx="/usr/bin/python3 -B tests/bench/onnx_peer.py $BENCH/../../peers CPUExecutionProvider"
is_there() { # COMMAND...: it does not skip
    "$@" </dev/null 2>/dev/null | grep -q '^ready'
}
computes_as_stride() { # COMMAND NAME...: each pass of these has a time
    local command=$1 name
    shift
    run "$BENCH/bench" --quick --threads=1 --log="$tmp/peer.log" --csv="$tmp/csv" --peer="good=$command" "$@"
    [ $status = 0 ] || because "a run" || return
    for name; do grep -q "^good,.*$name" "$tmp/csv" || { cat "$tmp/csv"; because "no time of $name"; } || return; done
    ! grep '^good: .*its result is' "$out" || because "another result"
}
same_as_dnnl() { computes_as_stride "'$dnnl' direct" "conv 4x6" "maxpool 4" "avgpool 4" "dense 4x784" relu batchnorm; }
same_as_node() { computes_as_stride "$node" mlp; }
same_as_onnx() { computes_as_stride "$onnx" mlp; }
# A layer of each kind that a twin is more than one module for, and networks with every container.
twins() {
    list 'layer 2x4x9x8 conv 6 3x2 padding=1x0 stride=2 groups=2 pad_height=2x0' 'layer 2x3x8x8 conv_transpose 4 3 stride=2 output_padding=1' \
        'layer 3x2x9x9 maxpool 3 stride=2 padding=2' 'layer 3x2x9x9 maxpool 2 pad_height=1x0 pad_value=zero' \
        'layer 3x2x9x9 avgpool 3 stride=2 padding=1 ceil_mode count_exclude_pad' 'layer 3x2x9x9 lppool 3 stride=2 padding=1x0 p=3' \
        'layer 3x2x7x7 upsample size=9x3 mode=bilinear' 'layer 4x3x5x6 pad height=1x2 width=2x0 mode=reflect' 'layer 4x6x5x5 channel_dropout 0.25' \
        'layer 4x6x5 batchnorm 0.5' 'layer 4x6x5 layernorm 1 no_affine' 'layer 4x6x5x5 groupnorm 2' 'layer 4x3x5 dense 7' 'layer 5x6 prelu 6' \
        'layer 2x3x6x6 avgpool 2 dilation=2' 'layer 2x3 identity' 'layer 4x6x5 dropout 0.5' 'net lenet5 2' 'net tcn 2' 'net senet 2' 'net densenet 2' 'net unet 1' 'net style 1'
    listed --peer="torch=$torch" --peer="torch channels-last=$torch --channels-last"
    [ $status = 0 ] && grep -q '^left out, 2 of 23' "$out" && [ "$(grep -c ',train,' "$tmp/csv")" = 6 ] || because "twins"
}
if /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))' 2>/dev/null; then
    claim "PyTorch's twins of layers and networks compute what the text says" twins
else
    echo "skip PyTorch's results: /usr/bin/python3 has no PyTorch (make deps-bench)"
fi
if is_there "$dnnl"; then claim "oneDNN computes what Stride computes" same_as_dnnl
else echo "skip oneDNN's results: it is not installed (make deps-bench)"; fi
if [ -f "$BENCH/../../peers/mlp.onnx" ] && is_there $node; then claim "onnxruntime computes what Stride computes" same_as_node
else echo "skip onnxruntime's results: it, protobuf-c or onnx.proto is not installed (make deps-bench)"; fi
if [ -f "$BENCH/../../peers/mlp.onnx" ] && is_there $onnx; then claim "so does onnxruntime in Python" same_as_onnx
else echo "skip results of onnxruntime in Python: /usr/bin/python3 has none, or protobuf-c or onnx.proto is not installed"; fi

# ---- scaling ---------------------------------------------------------------------------------------

scales() {
    BENCH_QUICK=1 BENCH_SECONDS=0.0001 succeeds "$BENCH/scaling" 1e6 && [ "$(tail -n 1 "$out")" = ok ] &&
        [ "$(grep -c '^  batch 4 ' "$out")" -ge 10 ] || because "scaling"
}
# A unit never comes to cost a millionth, however long the machine was busy with something else.
scales_too_well() {
    BENCH_QUICK=1 BENCH_SECONDS=0.0001 run "$BENCH/scaling" 1e-6 relu
    [ $status = 1 ] && [ "$(tail -n 1 "$out")" = FAIL ] && grep -q '^FAIL relu .* limit 0.00$' "$out" && ! grep -Eq '^ok|conv' "$out" || because "limit 1e-6"
}
claim "scaling prints its curves, and ok within the limit" scales
claim "beyond the limit it fails" scales_too_well
end_claims
exit $failed
