#!/usr/bin/env bash
# Ranks that are processes: whatever their number, the same bytes come of a run; what fails at one ends all; and what is
# left when one is killed is gone on from. KILLS says how many runs are killed. Nothing may take longer than a minute.
# shellcheck disable=SC2317 # functions are called by name
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}
mkdir -p "$tmp"
. tests/tools/claims.sh
export STRIDE_THREADS=1
kills=${KILLS:-8}
out=$tmp/out err=$tmp/err status=0

ranks() { # NUMBER PROGRAM ARGUMENTS...
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$1" "${@:2}" >"$out" 2>"$err" </dev/null
    status=$?
    [ "$status" -ne 124 ] || because "it did not end within a minute"
}
train() { # NUMBER FILE SETTINGS...: with the program of $precision
    ranks "$1" "$ROOT/$precision/tests/mpi/train_mpi" "${@:2}"
}
trains() { train "$@" && [ "$status" -eq 0 ] && grep -q '^done' "$out" || because "ranks $1: it failed"; }

same_bytes() {
    local number
    trains 1 "$tmp/1" micro=4 || return
    for number in 2 4; do
        trains $number "$tmp/$number" micro=4 && cmp "$tmp/1" "$tmp/$number" || return
    done
    trains 1 "$tmp/5" micro=2 || return
    ! cmp -s "$tmp/1" "$tmp/5" # so that the comparison means something
}
three_ranks() {
    trains 3 "$tmp/3" && trains 1 "$tmp/1" micro=3 && cmp "$tmp/1" "$tmp/3" || return
    train 3 "$tmp/3" micro=4 && [ "$status" -ne 0 ] && grep -q 'micro_batches is 4, expected a multiple of 3 ranks' "$out" || because "not refused"
}

# As numbers, each within 1e-6 of the greatest.
near() { # FILE FILE
    local width=4
    [ "$precision" = float ] || width=8
    paste <(od -A n -v -w$width -t f$width "$1") <(od -A n -v -w$width -t f$width "$2") | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (d > away) away = d; a = $1 < 0 ? -$1 : $1; if (a > most) most = a }
        END { print NR " numbers, " away " of " most " apart"; exit !(NR > 1000 && away <= 1e-6 * most) }'
}
near_bytes() {
    local number
    trains 1 "$tmp/1" micro=4 || return
    for number in 2 4; do trains $number "$tmp/$number" micro=4 unordered=1 && near "$tmp/1" "$tmp/$number" || return; done
}

# Each line of progress once, whatever the number of ranks.
one_writes() {
    trains 1 "$tmp/1" show=1 micro=4 || return
    local count
    count=$(grep -c epoch "$err")
    trains 4 "$tmp/4" show=1 micro=4 && [ "$count" -gt 0 ] && [ "$(grep -c epoch "$err")" -eq "$count" ] && [ "$(wc -l <"$out")" -eq 1 ] ||
        because "expected $count lines"
}

one_fails() {
    train 4 "$tmp/4" refuse=2 && [ "$status" -ne 0 ] && grep -qx 'rank 2: train: sample [0-9]*: class 17 is not a whole number from 0 to 9' "$out" || because "not refused"
}
bad_checkpoint() {
    echo nonsense >"$tmp/4.safetensors"
    train 4 "$tmp/4" checkpoint=1 && [ "$status" -ne 0 ] && grep -q "^rank 0: $tmp/4.safetensors: " "$out" && rm "$tmp/4.safetensors" || because "not refused"
}

# One of four ranks dies at any time; another run goes on, and so forth until one is let. There are steps enough for all.
killed() {
    local k many=(micro=4 "epochs=$((10 * kills))")
    trains 1 "$tmp/1" "${many[@]}" || return
    rm -f "$tmp/4" "$tmp/4.safetensors"
    for ((k = 0; k < kills; k++)); do
        train 4 "$tmp/4" "${many[@]}" checkpoint=1 kill=$((RANDOM % 4)) after=$((RANDOM % 20 + 1)) later=$((RANDOM % 1000)) || return
        [ "$status" -ne 0 ] || because "it was not killed" || return
    done
    trains 4 "$tmp/4" "${many[@]}" checkpoint=1 && cmp "$tmp/1" "$tmp/4" && ! grep -q 'done after 0 steps' "$out" || because "other bytes"
}

for precision in float double; do
    claim "$precision: 1, 2 and 4 ranks come to the same bytes" same_bytes
    claim "$precision: 3 ranks have 3 micro-batches, and 4 are refused" three_ranks
    claim "$precision: with MPI's own sum they are within 1e-6" near_bytes
    claim "$precision: rank 0 alone writes" one_writes
    claim "$precision: what fails at one rank ends all, with its name" one_fails
    claim "$precision: a checkpoint that is none ends all" bad_checkpoint
    claim "$precision: after one of 4 ranks was killed, $kills times, the same bytes" killed
done

# ---- the program -----------------------------------------------------------------------------------------

learns() {
    local number
    for number in 1 2; do
        ranks $number "$BIN/mnist_mpi" --quiet --micro-batches=2 --epochs=1 --save="$tmp/$number.safetensors" && [ "$status" -eq 0 ] ||
            because "it failed" || return
        awk -F '[= ]' '/^test accuracy=/ { ok = $3 > 0.95 } END { exit !ok }' "$out" || because "expected 95 %" || return
    done
    cmp "$tmp/1.safetensors" "$tmp/2.safetensors"
}
says_how() {
    "$BIN/mnist_mpi" --help >"$out" && grep -q micro-batches "$out" && ! "$BIN/mnist_mpi" --nonsense 2>/dev/null &&
        ranks 2 env MNIST_DIR=/nowhere "$BIN/mnist_mpi" && [ "$status" -ne 0 ] && [ "$(grep -c '^mnist_mpi: ' "$err")" -eq 1 ] || because "no help"
}
claim "mnist_mpi learns the same at 1 rank and 2" learns
claim "mnist_mpi says how it is used, and what is wrong, once" says_how
exit "$failed"
