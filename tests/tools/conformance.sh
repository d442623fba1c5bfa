#!/bin/sh
# conformance.sh FOLDER COUNTS...: the table of what the suites left, its skips by reason, and the total.
#
# Every case that was skipped is named under its reason in FOLDER/skipped.txt. Fails unless something
# passed and nothing failed.
folder=$1
shift
mkdir -p "$folder"

name() { # COUNT: "suite precision" of …/precision/suite_name.count, "suite" of a script's
    kind=$(basename "$(dirname "$1")")
    suite=$(basename "$1" .count)
    if [ "$kind" = script ]; then echo "${suite#suite_}"; else echo "${suite#suite_} $kind"; fi
}

printf '\n%-24s %8s %8s %8s %8s\n' suite cases passed failed skipped
for count; do
    if [ -f "$count" ]; then
        read -r passed failed skipped <"$count"
    else
        passed=0 failed=1 skipped=0
    fi
    printf '%-24s %8d %8d %8d %8d%s\n' "$(name "$count")" $((passed + failed + skipped)) "$passed" "$failed" "$skipped" \
        "$([ -f "$count" ] || echo '  did not build')"
done

# Lines "suite<tab>case<tab>reason" of what each log tells to be skipped, once for both precisions.
for count; do
    log=${count%.count}.log
    [ ! -f "$log" ] || sed -n 's/^skip //p' "$log" | awk -v suite="$(name "$count")" '
        { sub(/ .*/, "", suite)
          at = index($0, ": ")
          print suite "\t" (at ? substr($0, 1, at - 1) : $0) "\t" (at ? substr($0, at + 2) : "no reason given") }'
done | LC_ALL=C sort -u | awk -F '\t' -v list="$folder/skipped.txt" '
    { key = $1 ": " $3; count[key]++; names[key] = names[key] " " $2 }
    END {
        for (key in count) {
            printf "%6d  %s\n", count[key], key
            print key " (" count[key] ")\n   " names[key] >list
        }
    }' | sort -k 1,1nr -k 2 >"$folder/reasons.txt"
if [ -s "$folder/reasons.txt" ]; then
    printf '\nskipped, a case of both precisions once; by name in %s\n' "$folder/skipped.txt"
    cat "$folder/reasons.txt"
fi

for count; do
    if [ -f "$count" ]; then cat "$count"; else echo "0 1 0"; fi
done | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        printf "\n%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
        exit failed > 0 || passed == 0
    }'
