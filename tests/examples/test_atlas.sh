#!/usr/bin/env bash
# The atlas of poolings at its smallest: it runs, keeps its results, goes on where it was, and its page shows them.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/atlas
. tests/tools/claims.sh
mkdir -p "$tmp"
out=$tmp/out err=$tmp/err kept=$tmp/kept
unset MNIST_DIR

run() { # OPTION...: into $out, $err and $status
    "$BIN/atlas" "$@" >"$out" 2>"$err"
    status=$?
}

# ---- command lines ---------------------------------------------------------------------------------

helps() { run --help && grep -q '^usage: atlas' "$out"; }
refuses() {
    local options
    for options in --scale=huge --only=nothing --no-such-option a-file; do
        run $options
        [ $status = 2 ] && [ ! -s "$out" ] && [ "$(lines "$err")" -le 2 ] || because "$options" || return
    done
    run --scale=smoke --folder=
    [ $status = 1 ] && grep -q 'expected 1 to 256 bytes' "$err" || because 'an empty folder' || return
    run --scale=smoke --folder="$tmp/out/folder"
    [ $status = 1 ] && grep -q 'Not a directory' "$err" || because 'a folder in a file'
}
claim "it has help" helps
claim "it refuses scales, options and folders that there are not" refuses

# ---- runs ------------------------------------------------------------------------------------------

smoke() { run --scale=smoke --folder="$kept" "$@"; [ $status = 0 ] || because "smoke $*"; }
runs_it_all() {
    smoke || return
    ! grep '^skip' "$err" || because 'a layer of the plan is not in the library' || return
    ! grep -qi 'nan\|inf ' "$out" || because 'numbers that are not finite' || return
    grep -q 'not comparable' "$out" || because 'drawn digits that it does not tell'
}
is_exact() {
    awk -F '|' '/^## /{ inside = /Golden/ } inside && /^\| `/ { seen++; if ($4 > (/gem/ ? 1e-5 : 0) || $5 > 0) { print; bad = 1 } }
        END { exit bad || seen < 6 }' "$out"
}
learns() { # in 40 steps, from 90 % errors
    awk -F '|' '/^## /{ inside = /Stochastic/ } inside && $2 == " max " { good = $3 < 85 } END { exit !good }' "$out"
}
claim "every experiment runs, with every pooling of the plan" runs_it_all
claim "golden cases have no error" is_exact
claim "nets learn" learns

# Results but for the times.
results() { grep -vh seconds "$kept"/*-1.json; }
goes_on() {
    results >"$tmp/before" && smoke || return
    ! grep -q 'errors' "$err" || because 'a run that was kept was made again' || return
    rm "$kept/zhang-max-1.json" "$kept/atlas.json" && smoke || return
    [ "$(grep -c 'errors' "$err")" = 1 ] && [ -s "$kept/atlas.json" ] || because 'expected one run' || return
    results | cmp - "$tmp/before"
}
follows_the_plan() {
    sed -i.old 's/epochs=1/epochs=9/' "$kept/zhang-max-1.json" && rm "$kept/zhang-max-1.json.old"
    printf '{ "plan": 3' >"$kept/learned-max-1.json"
    run --scale=smoke --folder="$kept" --kept
    [ $status = 0 ] && grep -q '| max | – | – | – |' "$out" || because 'a result of another plan was used' || return
    smoke || return
    [ "$(grep -c 'errors' "$err")" = 2 ] || because 'expected two runs' || return
    results | cmp - "$tmp/before"
}
claim "an interrupted atlas goes on, and comes to the same bits" goes_on
claim "results of another plan, or cut off, are not used" follows_the_plan

# ---- the page --------------------------------------------------------------------------------------

page=$tmp/atlas.html
makes_a_page() {
    ${MAKE:-make} -s atlas-page ATLAS_FOLDER="$kept" ATLAS_PAGE="$page" && grep -q '^{"facts"' "$page" &&
        ! grep -nE '(src|href)="[^d#]|url\(|@import|^(STYLE|DATA|SCRIPT)$' "$page"
}
claim "its page is one file that refers to nothing" makes_a_page

browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name)
done
if [ -n "${SANITIZE:-}" ] || [ -z "$browser" ] || ! command -v node >/dev/null; then
    echo "skip a real browser: Chromium and node are not both installed (make deps-web), or a sanitizer's build"
    exit $failed
fi
cat >"$page.js" <<'END'
(() => {
    const said = (ok, what) => `${ok ? "ok" : "not ok"} ${what}`, all = selector => document.querySelectorAll(selector).length;
    const there = data.poolings.filter(p => !p.missing).length, runs = data.experiments.flatMap(e => e.rows).filter(r => r.error);
    return [said(all(".cards canvas") === 2 * there && there > 2, "a card for each pooling, with two pictures"),
        said(all(".plot .mean") >= runs.length && runs.length > 9, "a mean in a plot for each result"),
        said(!document.body.innerText.match(/NaN|undefined|null/), "no number is missing")];
})()
END
browse() { timeout 120 node tests/examples/report/browse.js "$browser" "$tmp/profile" "$1" "$page" >"$tmp/said" 2>&1; } # WIDTH
shows() { # WIDTH
    browse "$1" && [ -s "$tmp/said" ] && ! grep -v '^ok ' "$tmp/said" || { cat "$tmp/said" && return 1; }
}
if ! browse 390; then
    echo "skip a real browser: $browser does not run here: $(tail -n 1 "$tmp/said")"
    exit $failed
fi
claim "a browser shows it without a complaint, no wider than a phone" shows 390
claim "and on a large screen" shows 1280
exit $failed
