#!/usr/bin/env bash
# Pages of runs: a real browser shows them without a complaint, without a request, and no wider than a phone, and what
# it shows is what the log says.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/report
. tests/tools/claims.sh
mkdir -p "$tmp"

parts=(report scores page log layer_times text paths one_hot sketch)
# shellcheck disable=SC2086
pages_are_written() {
    $CC $CFLAGS tests/examples/report/pages.c "${parts[@]/#/${BIN%/bin}/examples/stride/}" "${LIB%.a}-all.a" $LIBS -o "$tmp/pages" && "$tmp/pages" "$tmp"
}
parts=("${parts[@]/%/.o}")
runs_are_compared() { "$BIN/stride" report "$tmp/digits.csv" "$tmp/digits.jsonl" --output "$tmp/compared.html"; }
claim "pages of all kinds are written" pages_are_written
claim "and one that compares runs" runs_are_compared
[ $failed = 0 ] || exit 1
[ -z "${SANITIZE:-}" ] || exit 0 # what is on the pages is the same
pages=$(cd "$tmp" && echo *.html)

# Nothing but data is referred to.
refers_to_nothing() {
    local page found
    for page in $pages; do
        found=$(grep -noE '(src|href)=".{0,24}|url\(.{0,24}|@import.{0,24}' "$tmp/$page" | grep -vE 'href="data:,"')
        [ -z "$found" ] || { echo "$page: $found" && return 1; }
    done
}
claim "pages refer to nothing outside" refers_to_nothing

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
    sed 's|</main>|<img src="http://localhost:9/x.png"><script src="http://localhost:9/x.js"></script></main>|' "$tmp/digits.html" >"$tmp/bad.html"
    sed 's|<main>|<main><div style="width: 500px">wide</div>|' "$tmp/digits.html" >"$tmp/wide.html"
    sed 's|^putHead();|undefined.x;|' "$tmp/digits.html" >"$tmp/throws.html"
    browse bad.html wide.html throws.html && says 'bad.html: .*img-src' && says 'bad.html: .*script-src' &&
        says 'wide.html: [0-9]* pixels wide' && says 'throws.html: TypeError'
}
is_silent() {
    # shellcheck disable=SC2086
    browse $pages && [ ! -s "$tmp/said" ] || { cat "$tmp/said" && return 1; }
}
claim "a browser would say what a page tries to load, what throws, and that it is wider than a phone" complains_of_bad_pages
claim "it says nothing of these pages" is_silent

# What the script makes of the data, in the browser itself.
examine() { # PAGE LOG TEXT...: the lines of claims.js
    local page=$1 log=$2
    shift 2
    node -e 'console.log("{ const [log, ...texts] =", JSON.stringify(process.argv.slice(1)))' "$([ -z "$log" ] || cat "$tmp/$log")" "$@" >"$tmp/$page.js"
    { cat tests/examples/report/claims.js && echo '}'; } >>"$tmp/$page.js"
    browse "$page"
    rm "$tmp/$page.js"
    grep -v "'TrustedHTML' assignment" "$tmp/said" >"$tmp/claims" # what the claim about markup tries
    sed "s|^\(not \)\{0,1\}ok |&$page: |" "$tmp/claims"
    ! grep -qv '^ok ' "$tmp/claims" || failed=1
}
examine digits.html digits.csv 'Drawn digits' '500 drawn digits; 300 others for validation'
examine compared.html digits.csv digits.jsonl 'Runs compared'
examine hostile.html '' '<img src=x onerror=alert(1)> & "friends" <!--<script>' '</script><script>alert(1)</script>' \
    'cat & "dog"' '<b>bird</b>' 'bär' '�� broken' "<none> & 'none'"
exit $failed
