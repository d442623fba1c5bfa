#!/usr/bin/env bash
# The benchmarks' programs: their options, what they print and write, and how they treat peers. Not their figures.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/bench
. tests/tools/claims.sh
skip_sanitized "the benchmarks: a sanitizer sees what they call in the tests"
mkdir -p "$tmp"
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

quick() { succeeds "$BENCH/bench" --quick --csv="$tmp/csv" "relu " mlp; }
# The machine, relu both ways, training alone and beside a busy process, and inference: each with one thread and with two.
prints_rows() {
    quick || return
    local what
    for what in fma 'sgemm 256x256x256' 'copy 8 MiB' 'copy 9 MiB' 'relu 4x64x24x24 +forward' 'relu 4x64x24x24 +backward' 'mlp +train' 'mlp +infer'; do
        [ "$(grep -cE "^$what +[12] +[0-9.]+ " "$out")" = 2 ] || because "no two lines of $what" || return
    done
    ! grep -q '^conv' "$out" || because "conv was not asked for"
}
writes_csv() {
    quick || return
    [ "$(head -n 1 "$tmp/csv")" = "peer,subject,pass,threads,seconds,spread,gflops,share_of_peak,gigabytes,share_of_copy,images_per_second,process_peak_mb,allocations" ] &&
        awk -F , 'NF != 13 || (NR > 1 && !($5 > 0)) { wrong = 1 } END { exit wrong || NR != 1 + 9 * 2 }' "$tmp/csv" || { cat "$tmp/csv"; because "--csv"; }
}
# Nominal operations: training the multilayer perceptron, 3 forward passes less the first layer's dx, batches of 4.
counts_operations() {
    quick || return
    awk -F , '$2 == "mlp" && $3 == "train" {
        flops = $5 * $7 * 1e9
        expected = 4 * 2 * (3 * (784 * 512 + 512 * 512 + 512 * 10) - 784 * 512)
        wrong = wrong || flops < 0.99 * expected || flops > 1.01 * expected
        seen++
    } END { exit wrong || seen != 2 }' "$tmp/csv" || { cat "$tmp/csv"; because "operations"; }
}
answers_nonsense() {
    printf '%s\n' '' words 'relu 1 2 3 4 sideways' 'relu 1 2 3 forward' 'relu 1 2 3 x forward' 'net nothing 4 train' 'sgemm 0 run' 'relu 1 2 3 4 forward' >"$tmp/requests"
    run "$BENCH/stride_peer" <"$tmp/requests"
    [ "$status" = 0 ] && [ "$(cut -d ' ' -f 1 "$out" | tr '\n' ' ')" = "ready error error error error error error error ok " ] ||
        because "answers"
}

claim "a quick run prints what was asked for, with one thread and with two" prints_rows
claim "--csv writes the promised columns" writes_csv
claim "operations are the nominal ones" counts_operations
claim "a request that makes no sense is answered with an error" answers_nonsense

# ---- peers -----------------------------------------------------------------------------------------

# Answers of the peers below: true where the line asks for an output, which is then Stride's own.
cat >"$tmp/tells" <<'END'
tells() {
    case $1 in *output) echo "$1" | "$BENCH/stride_peer" | grep '^output' || echo skip ;; *) return 1 ;; esac
}
END
export BENCH
# A peer that takes a second for everything; with an argument, so many.
cat >"$tmp/slow" <<'END'
. "${0%/*}/tells"
echo ready
while read -r line; do
    tells "$line" && continue
    case $line in relu*) echo "ok ${1:-1} -1" ;; *) echo "skip not measured here" ;; esac
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
    rm -f "$tmp/asked"
    succeeds "$BENCH/bench" --rounds=3 --peer="a=sh '$tmp/slow'" --peer="a slower=tee -a '$tmp/asked' | sh '$tmp/slow' 3" \
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
    leaves_out 'it is not here' 'echo skip it is not here' && leaves_out 'it does not start' true &&
        leaves_out 'it ended' 'echo ready' && leaves_out 'out of order' 'sh -c "echo ready; while read -r _; do echo error out of order; done"'
}
# Stride's own program as a peer, chattering, as it is and with another answer each.
compares_outputs() {
    cat >"$tmp/chatter" <<'END'
echo 'to stderr' >&2
echo 'to stdout'
exec "$1" | sed -uE "$2"
END
    succeeds "$BENCH/bench" --quick --log="$tmp/chatter.log" --peer="same=sh '$tmp/chatter' '$BENCH/stride_peer' ''" \
        --peer="short=sh '$tmp/chatter' '$BENCH/stride_peer' 's/^output [0-9x]*/output 1x10/'" \
        --peer="wrong=sh '$tmp/chatter' '$BENCH/stride_peer' 's/^(output .*) [^ ]*$/\1 7.5/'" \
        --peer="largest=sh '$tmp/chatter' '$BENCH/stride_peer' 's/^(output [^ ]*) [^ ]*/\1 1e9/'" \
        --peer="product=sh '$tmp/chatter' '$BENCH/stride_peer' 's/^(output [^ ]* [^ ]*) [^ ]*/\1 1e9/'" \
        --peer="mute=sh '$tmp/chatter' '$BENCH/stride_peer' 's/^output.*/skip/'" --csv="$tmp/csv" mlp 'relu ' 'dense 4x784' || return
    grep -qE '^short: mlp infer.*: its output is \[1x10\], expected \[4x10\]: its time does not count$' "$out" || because "a shape" || return
    for pass in 'mlp train' 'mlp infer' 'relu .* forward' 'relu .* backward' 'dense .* gradient'; do
        grep -qE "^wrong: $pass.*: its output is another: 7.5, expected .* \\(an element\\)" "$out" || because "an element, $pass" || return
        grep -qE "^largest: $pass.*: its output is another: 1e\\+09, expected .* \\(the largest\\)" "$out" || because "the largest, $pass" || return
        grep -qE "^product: $pass.*: its output is another: 1e\\+09, expected .* \\(of all" "$out" || because "a product, $pass" || return
    done
    [ "$(grep -c '^same,' "$tmp/csv")" = 14 ] && ! grep -qE '^(short|wrong|largest|product|mute),' "$tmp/csv" || { cat "$tmp/csv"; because "their times"; } || return
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
. "${0%/*}/tells"
while :; do :; done &
echo $! >"$1"
echo ready
while read -r line; do tells "$line" || echo ok 1 -1; done
kill -KILL $!
END
cat >"$tmp/looks" <<'END'
. "${0%/*}/tells"
echo ready
while read -r line; do
    tells "$line" && continue
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
    "$BENCH/bench" --quick --peer="mute=sh -c 'echo \$\$ >>\"$tmp/id\"; echo ready; while read -r _; do :; done'" relu >"$out" 2>"$err" &
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
claim "peers end with the driver, even if that is killed" ends_with_driver
claim "goals that were not measured are said to be so" tells_goals
claim "a peer that cannot run is left out, with its reason" absent_peers
claim "a peer's time counts only after the output that is Stride's; chatter goes to a log" compares_outputs
claim "training MNIST and predicting once are run, and their figures read" runs_programs
claim "a process is busy while training is measured beside it, and ended" keeps_busy

# ---- scaling ---------------------------------------------------------------------------------------

scales() {
    BENCH_QUICK=1 succeeds "$BENCH/scaling" 1e6 && [ "$(tail -n 1 "$out")" = ok ] &&
        [ "$(grep -c '^  batch 4 ' "$out")" -ge 10 ] || because "scaling"
}
# Not every one of so many quick measurements can be below the one before.
scales_too_well() {
    BENCH_QUICK=1 run "$BENCH/scaling" 1
    [ $status = 1 ] && [ "$(tail -n 1 "$out")" = FAIL ] && grep -q '^FAIL .* limit 1.00' "$out" || because "limit 1"
}
claim "scaling prints its curves, and ok within the limit" scales
claim "beyond the limit it fails" scales_too_well
exit $failed
