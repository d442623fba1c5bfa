#!/usr/bin/env bash
# Pages of runs: they say what the log says, are well formed, and a real browser shows them without a complaint,
# without a request, and no wider than a phone.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/report
. tests/tools/claims.sh
mkdir -p "$tmp"

# ---- pages -----------------------------------------------------------------------------------------

parts=(report chart scores page style picture log layer_times text paths)
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
if [ -z "$browser" ]; then
    echo "skip a real browser: Chromium is not installed (make deps-report)"
    exit $failed
fi
options=(--headless --disable-gpu --no-first-run --disable-background-networking --disable-extensions --disable-sync
    --mute-audio "--user-data-dir=$tmp/profile")
[ "$(id -u)" != 0 ] || options+=(--no-sandbox)

# The page after it has loaded, into $tmp/dom, and its complaints, into $tmp/console. The browser writes of
# itself there, too: a page's complaints are those of CONSOLE.
look() { # PAGE
    timeout 60 "$browser" "${options[@]}" --enable-logging=stderr --v=0 --dump-dom "file://$1" >"$tmp/dom" 2>"$tmp/stderr" </dev/null || {
        echo "$1: status $?"
        tail -n 5 "$tmp/stderr"
        return 1
    }
    grep CONSOLE "$tmp/stderr" >"$tmp/console"
    grep -q '</html>' "$tmp/dom"
}
if ! look "$tmp/empty.html" >"$tmp/log" 2>&1; then
    echo "skip a real browser: $browser does not run here: $(tail -n 1 "$tmp/log")"
    exit $failed
fi

complains_of_a_bad_page() {
    sed 's|</main>|<img src="http://localhost:9/x.png"/><script>1</script></main>|' "$tmp/digits.html" >"$tmp/bad.html"
    look "$tmp/bad.html" && grep -q 'img-src' "$tmp/console" && grep -q 'script-src\|inline script' "$tmp/console"
}
is_silent() {
    local page
    for page in $pages; do
        look "$tmp/$page" || return
        [ ! -s "$tmp/console" ] || { echo "$page:" && cat "$tmp/console" && return 1; }
    done
}
shows_the_log() {
    look "$tmp/digits.html" && table_is_the_logs "$tmp/dom"
}
# Names that are markup are text.
stays_text() {
    look "$tmp/hostile.html" && grep -qF '<h1>&lt;img src=x onerror=alert(1)&gt; &amp; "friends" &lt;!--&lt;script&gt;</h1>' "$tmp/dom" &&
        grep -qF '&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</th>' "$tmp/dom" && ! grep -q '<script' "$tmp/dom"
}
claim "a browser would say what a page tries to load or run" complains_of_a_bad_page
claim "it says nothing of these pages: they try neither" is_silent
claim "what a browser shows is what the log says" shows_the_log
claim "names that look like markup are shown as they are" stays_text

if command -v node >/dev/null; then
    fits_a_phone() {
        local page paths=()
        for page in $pages; do paths+=("$tmp/$page"); done
        node tests/examples/report/width.js "$browser" "$tmp/node" 390 "${paths[@]}" || return
        sed 's|<main>|<main><div style="width: 500px">wide</div>|' "$tmp/digits.html" >"$tmp/wide.html"
        node tests/examples/report/width.js "$browser" "$tmp/node" 390 "$tmp/wide.html" | grep -q 'wide.html, light: [0-9]* pixels wide'
    }
    claim "pages are no wider than a phone" fits_a_phone
else
    echo "skip pages on a phone: node is not installed"
fi
exit $failed
