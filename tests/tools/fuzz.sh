#!/bin/sh
# fuzz.sh RUNS|smoke SECONDS FOLDER PROGRAM...: gives each reader's fuzzer inputs, until it has had so many, or for so
# many seconds where these are given.
#
# Each begins with the seeds that it writes; FOLDER/READER is the corpus, to which what reaches new code is added.
# `smoke` leaves it alone and draws the same inputs each time. A line for each reader: executions, how many a second,
# edges of code covered, the most memory of the process; and the total. What failed is kept in FOLDER.
runs=$1 seconds=$2 folder=$3
shift 3
mkdir -p "$folder"
scratch=$(mktemp -d "$folder/scratch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

export STRIDE_THREADS=1
# The allocator refuses more, and the reader has to report it.
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=256:quarantine_size_mb=16"
export UBSAN_OPTIONS="print_stacktrace=1"

number() { # of "stat::NAME: 123" in the log
    sed -n "s/^stat::$1: *//p" "$log" | tail -n 1
}

fuzz() { # PROGRAM: what it says goes to the log
    reader=$(basename "$1")
    reader=${reader#fuzz_}
    log=$folder/$reader.log
    corpus=$scratch/$reader
    mkdir -p "$scratch/$reader" "$folder/$reader"
    {
        "$1" --seeds "$scratch/$reader" && "$1" --large || return 1
        if [ "$runs" = smoke ]; then
            set -- "$1" -seed=1 -max_total_time="$seconds"
        else
            set -- "$1" -runs="$([ -n "$seconds" ] && echo -1 || echo "$runs")" ${seconds:+-max_total_time=$seconds}
            corpus=$folder/$reader
        fi
        if [ -s "$scratch/$reader.dict" ]; then set -- "$@" -dict="$scratch/$reader.dict"; fi
        "$@" -max_len=4096 -timeout=20 -rss_limit_mb=2048 -reload=0 \
            -artifact_prefix="$folder/$reader-" -print_final_stats=1 "$corpus" "$scratch/$reader"
    } >"$log" 2>&1
}

passed=0 failed=0
for program; do
    if fuzz "$program"; then
        passed=$((passed + 1))
        printf 'ok   %-12s %10d executions %7d /s %6d edges %6d MiB\n' "$reader" "$(number number_of_executed_units)" \
            "$(number average_exec_per_sec)" "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)" "$(number peak_rss_mb)"
    else
        failed=$((failed + 1))
        grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|INITED|RELOAD)' "$log" | head -n 60 | sed 's/^/     | /'
        printf 'FAIL %s: see %s\n' "$reader" "$log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
