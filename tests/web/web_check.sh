#!/bin/bash
# web_check.sh STRIDE FOLDER: builds the page, uses it in a headless browser, and reads what it saved with
# `stride`.
set -u
cd "$(dirname "$0")/../.." || exit 1
stride=$1 folder=$2 out=$2/check
for need in "${EMCC%% *}:emscripten" chromedriver:chromedriver node:node; do
    command -v "${need%%:*}" >/dev/null ||
        { echo "skip web-check: there is no ${need#*:} (make deps-web)"; exit 0; }
done
"$MAKE" web || exit 1
rm -rf "$out" && mkdir -p "$out"
wc -c <"$folder/stride.html" | awk '{ printf "the page has %d bytes\n", $1 }'

coproc chromedriver --port=0 2>&1
driver=$COPROC_PID
trap 'kill $driver' EXIT
while read -r line <&"${COPROC[0]}"; do
    case $line in *'successfully on port '*) port=${line##* on port } && port=${port%.} && break ;; esac
done
[ -n "${port:-}" ] || { echo 'skip web-check: chromedriver does not run here'; exit 0; }
DRIVER=http://127.0.0.1:$port node tests/web/drive.js "$folder/stride.html" "$out" || exit 1

# The class of the drawing is what the page saw.
claim='stride predict reads the saved net and sees a 7'
"$stride" predict --model "$out/digits.safetensors" "$out/seven.npy" >"$out/predicted" 2>&1
grep -q 'npy\[0\]: 7 ' "$out/predicted" || { echo "not ok $claim: $(cat "$out/predicted")"; exit 1; }
echo "ok $claim"
