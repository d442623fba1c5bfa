#!/bin/sh
# total.sh COUNTS...: adds up what run.sh counted. A file that is missing is a test that did not build.
# Fails unless something passed and nothing failed.
for file; do
    if [ -f "$file" ]; then
        cat "$file"
    else
        name=$(basename "$(dirname "$file")")/$(basename "$file" .count)
        echo "FAIL $name: did not build" >&2
        echo "0 1 0"
    fi
done | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
        exit failed > 0 || passed == 0
    }'
