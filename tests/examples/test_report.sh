#!/usr/bin/env bash
# Pages of runs: they say what the log says, are well formed, and a real browser shows them without a complaint,
# without a request, and no wider than a phone.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/report
. tests/tools/claims.sh
mkdir -p "$tmp"

parts=(report chart scores page style png log layer_times text paths one_hot sketch)
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

# ---- a browser -------------------------------------------------------------------------------------

browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name)
done
if [ -z "$browser" ] || ! command -v node >/dev/null; then
    echo "skip a real browser: Chromium and node are not both installed (make deps-web)"
    exit $failed
fi
browse() { timeout 120 node tests/examples/report/browse.js "$browser" "$tmp/profile" 390 "${@/#/$tmp/}" >"$tmp/said" 2>&1; } # PAGE...
if ! browse empty.html; then
    echo "skip a real browser: $browser does not run here: $(tail -n 1 "$tmp/said")"
    exit $failed
fi

says() { grep -q "$1" "$tmp/said" || { cat "$tmp/said" && return 1; }; }
complains_of_bad_pages() {
    sed 's|</main>|<img src="http://localhost:9/x.png"/><script>1</script></main>|' "$tmp/digits.html" >"$tmp/bad.html"
    sed 's|<main>|<main><div style="width: 500px">wide</div>|' "$tmp/digits.html" >"$tmp/wide.html"
    browse bad.html wide.html && says 'bad.html: .*img-src' && says 'bad.html: .*script' && says 'wide.html: [0-9]* pixels wide'
}
is_silent() {
    # shellcheck disable=SC2086
    browse $pages && [ ! -s "$tmp/said" ] || { cat "$tmp/said" && return 1; }
}
# Names that are markup are text.
stays_text() {
    local dom=$tmp/hostile.html.dom
    grep -qF '<h1>&lt;img src=x onerror=alert(1)&gt; &amp; "friends" &lt;!--&lt;script&gt;</h1>' "$dom" &&
        grep -qF '&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</th>' "$dom" && ! grep -q '<script' "$dom"
}
claim "a browser would say what a page tries to load or run, and that it is wider than a phone" complains_of_bad_pages
claim "it says nothing of these pages" is_silent
claim "what a browser shows is what the log says" table_is_the_logs "$tmp/digits.html.dom"
claim "names that look like markup are shown as they are" stays_text
exit $failed
