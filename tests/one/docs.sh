#!/usr/bin/env bash
# docs.sh FOLDER: runs the shell blocks of docs/one-file.md beside FOLDER/stride.c and stride.h. All is as it stands
# but -O3 and the fast algorithms, which take a minute each, and with which check.sh compiles the same file.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(cd "$1" && pwd)
tmp=$folder/one/docs
rm -rf "$tmp" && mkdir -p "$tmp" && ln -s "$folder" "$tmp/build" && cd "$tmp" || exit 1
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/one-file.md" |
    sed 's/^cc -O3 /cc -O1 /; s/^cc /cc -DST_OMIT_FAST /' >run.sh
if sh -e run.sh >log 2>&1 && [ -s digits.safetensors ] && grep -q '^passed' log; then echo "ok   docs/one-file.md runs"
else tail -n 20 log && echo "FAIL docs/one-file.md runs" && exit 1; fi
