#!/usr/bin/env bash
# Pages of runs: they say what the log says, are well formed, and refer to nothing outside.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/report
. tests/tools/claims.sh
mkdir -p "$tmp"

parts=(report chart scores page style png log layer_times text paths)
# shellcheck disable=SC2086
pages_are_written() {
    $CC $CFLAGS tests/examples/report/pages.c "${parts[@]/#/${BIN%/bin}/examples/stride/}" "${LIB%.a}-all.a" $LIBS -o "$tmp/pages" && "$tmp/pages" "$tmp"
}
parts=("${parts[@]/%/.o}")
claim "pages of all kinds are written" pages_are_written
[ $failed = 0 ] || exit 1
[ -z "${SANITIZE:-}" ] || exit 0 # what is on the pages is the same
pages=$(cd "$tmp" && echo *.html)

# The numbers of each epoch are those of the other log, rounded.
table_is_the_logs() { # PAGE
    awk -F , 'FNR == NR { if (FNR > 1) { n++; for (i = 3; i <= 7; i++) v[n, i] = $i; best[n] = $8 } next }
        /^<tr.*<th scope="row">[0-9]+( \(best\))?<\/th>/ && $0 ~ / s<\/td><\/tr>$/ {
            row++
            gsub(/<[^>]*>/, "|")
            gsub(/ %/, "")
            split($0, cell, /\|+/)
            # an empty field, epoch, loss, accuracy, validation loss and accuracy, learning rate
            order = "4 5 6 7 3"
            split(order, column, " ")
            marked += cell[2] ~ /best/
            for (i = 1; i <= 5; i++) {
                value = v[row, column[i]]
                text = column[i] == 5 || column[i] == 7 ? sprintf("%.2f", 100 * value) : sprintf("%.4g", value)
                if (cell[i + 2] != text) { print "epoch " row ": " cell[i + 2] ", expected " text; wrong = 1 }
            }
        }
        END { if (row != n || n != 3) print row + 0 " rows, expected " n; exit wrong || row != n || n != 3 || marked != 1 }' \
        "$tmp/digits.csv" "$1"
}
claim "the numbers in a page's table are the log's" table_is_the_logs "$tmp/digits.html"

# Nothing but data is referred to, nothing is script.
refers_to_nothing() {
    local page found
    for page in $pages; do
        found=$(grep -noE '(src|href)=".{0,24}|url\(.{0,24}|@import.{0,24}' "$tmp/$page" | grep -vE '="data:(,"|image/png;base64,)')
        [ -z "$found" ] || { echo "$page: $found" && return 1; }
        ! grep -q '<script[ >]' "$tmp/$page" || { echo "$page: a script" && return 1; }
    done
}
claim "pages refer to nothing outside, and hold no script" refers_to_nothing

well_formed() {
    local page
    for page in $pages; do "${parser[@]}" "$tmp/$page" || return; done
    sed 's|</section>||' "$tmp/digits.html" >"$tmp/broken.xml"
    ! "${parser[@]}" "$tmp/broken.xml" 2>/dev/null
}
parser=(xmllint --noout)
command -v xmllint >/dev/null || parser=(python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])')
if command -v "${parser[0]}" >/dev/null; then
    claim "pages are well formed" well_formed
else
    echo "skip well-formedness: neither xmllint nor python3 is installed"
fi

exit $failed
