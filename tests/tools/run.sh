#!/bin/sh
# run.sh BASE COMMAND...: runs one test program, prints one line for it, and what it said if it failed.
#
# Leaves BASE.log, BASE.seconds (of processor time) and BASE.count ("passed failed skipped"); never fails itself,
# total.sh does. Counts what cmocka reports, and the lines "ok NAME", "not ok NAME" and "skip NAME: REASON" of a
# script. A test that began and neither passed nor was skipped has failed, and so has one that cmocka reports to be
# skipped without a line "skipped NAME: REASON".
base=$1
shift
folder=${base%/*}
name=${folder##*/}/${base##*/}

export STRIDE_TEST_TMP="$base.tmp" CMOCKA_MESSAGE_OUTPUT=STDOUT
[ ! -e "$STRIDE_TEST_TMP" ] || rm -rf "$STRIDE_TEST_TMP"
mkdir -p "$STRIDE_TEST_TMP"
if command -v timeout >/dev/null; then set -- timeout "${TEST_TIMEOUT:-600}" "$@"; fi
"$@" >"$base.log" 2>&1 </dev/null
status=$?
# The second line that times prints is the processor time of what ran: "0m1.250s 0m0.110s".
times >"$base.seconds"

# cmocka 1.1.7 and later name the group of tests before a count.
counts=$(awk -v status="$status" '
    FNR == NR {
        if (NR == 2) { split($0, t, /[ms ]+/); seconds = sprintf("%.1f", 60 * (t[1] + t[3]) + t[2] + t[4]) }
        next
    }
    function count() { return match($0, /[0-9]+ test\(s\)/) ? substr($0, RSTART) + 0 : 0 }
    /^\[==========\].* Running [0-9]+ test/ { sub(/.* Running /, ""); begun += $1; next }
    /^\[  PASSED  \]/                       { passed += count() }
    /^\[  FAILED  \]/                       { failed += count() }
    /^\[  SKIPPED \]/                       { skipped += count(); silent += count() }
    /^ok /                                  { passed++; begun++ }
    /^not ok /                              { failed++; begun++ }
    /^skip /                                { skipped++; begun++ }
    /^skipped [^ ]+: /                      { silent-- }
    END {
        if (failed < begun - passed - skipped) failed = begun - passed - skipped
        if (failed == 0 && (status != 0 || passed + skipped == 0)) failed = 1
        if (silent > 0) failed += silent
        print passed + 0, failed + 0, skipped + 0, begun + 0, silent + 0, seconds
    }' "$base.seconds" "$base.log")
# shellcheck disable=SC2086
set -- $counts
echo "$1 $2 $3" >"$base.count"
echo "$6" >"$base.seconds"

line="$1 passed"
if [ "$2" -gt 0 ]; then line="$line, $2 failed (exit status $status)"; fi
if [ "$4" -eq 0 ]; then line="$line, it reported no test"; fi
if [ "$3" -gt 0 ]; then line="$line, $3 skipped"; fi
if [ "$5" -gt 0 ]; then line="$line, $5 without a reason"; fi
if [ "$2" -gt 0 ]; then
    printf 'FAIL %s: %s\n%s\n' "$name" "$line" "$(grep -vE '^(ok|skip|skipped) ' "$base.log" | sed 's/^/     | /')"
else
    printf 'ok   %s: %s\n' "$name" "$line"
    if [ "$3" -eq 0 ]; then
        :
    elif [ "$3" -le 20 ]; then
        sed -nE 's/^(skip|skipped) /     skip /p' "$base.log"
    else
        echo "     skipped: see $base.log"
    fi
    rm -rf "$STRIDE_TEST_TMP"
fi
exit 0
