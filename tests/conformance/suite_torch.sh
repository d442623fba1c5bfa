#!/usr/bin/env bash
# Parity with PyTorch: layers, losses, optimizers and schedules of random configurations, in both
# precisions, and files read by either side; and ONNX's own cases. torch/cases.py, torch/onnx_cases.py and
# torch/onnx_tensors.py have the cases; torch/parity.c and torch/tensors.c compare them. Skipped where no python3 has
# PyTorch, and by sanitizers, which see the layers in other tests already.
set -u
. tests/tools/claims.sh
skip_sanitized "torch: numbers are compared without sanitizers"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/torch
if [ -n "${STRIDE_TEST_TMP:-}" ]; then
    tmp=$STRIDE_TEST_TMP/torch
else
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
fi
count=30
[ "${STRIDE_FAST:-0}" = 1 ] && count=2

# Importing them takes seconds: torch/steps.py imports PyTorch once.
finds() { "$1" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$2" >/dev/null 2>&1; } # PYTHON PACKAGE
python=
for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    if finds "$candidate" torch; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "skip torch: no ${PYTHON:-python3} imports torch (Debian: python3-torch)"
    exit 0
fi

# shellcheck disable=SC2046,SC2086,SC2317
build() { # PROGRAM LIBRARY FLAGS...
    local program=$1 library=$2
    shift 2
    $CC $CFLAGS $(pkg-config --cflags jansson 2>/dev/null) -Wall -Wextra -Werror \
        -Wno-missing-field-initializers "$@" "$here/parity.c" "$here/tensors.c" "$library" $LIBS -o "$program"
}

both_ways() { # PROGRAM FOLDER: files of PyTorch into Stride; those of Stride are for PyTorch, below
    local name i file
    mkdir -p "$2"
    for name in conv_batchnorm_dense sequence residual concat conv2d conv_transpose2d linear batchnorm2d \
                layernorm groupnorm; do
        for i in 00 01; do
            file=$tmp/cases/$name-$i.safetensors
            if ! "$1" --save "$file" "$2/$name-$i.saved" "$2/$name-$i.run"; then
                echo "not ok $name-$i~saved: it was not saved"
                failed=1
            fi
        done
    done
    for file in "$tmp"/cases/*.state_dict; do
        name=${file%.state_dict}
        "$1" --state-dict "$file" "${name%.*}.safetensors" | sed "s/~state_dict/&.${name##*.}/"
        [ "${PIPESTATUS[0]}" = 0 ] || failed=1
    done
}

# Which cases are skipped, and why, is for `make conformance`.
write_onnx() {
    local data=/usr/share/libonnx-testdata/data skipped=cat
    [ -d "$data" ] || { echo "skip onnx: there is no $data (make deps-conformance)"; return; }
    finds "$python" onnx || { echo "skip onnx: no python3 imports onnx (make deps-onnx)"; return; }
    [ "${STRIDE_FAST:-0}" = 1 ] && skipped=true
    step onnx "$data" "$tmp/onnx" >"$tmp/skipped" || echo "not ok ONNX's cases are read"
    $skipped "$tmp/skipped"
    claim "as many of ONNX's cases are claimed as there were" test "$(find "$tmp/onnx" -name '*.safetensors' | wc -l)" -ge 453
}

# Every instruction set of this processor, but for the fast run of `make test`.
engines=
if [ "${STRIDE_FAST:-0}" != 1 ]; then
    engines="reference generic"
    for set in avx2 avx512; do
        if grep -q "\<$set" /proc/cpuinfo 2>/dev/null; then engines="$engines $set"; fi
    done
fi
# shellcheck disable=SC2317
all_with() { # ENGINE PROGRAM: the cases that fail
    STRIDE_ENGINE=$1 "$2" "$tmp"/cases/*.safetensors "$tmp"/onnx/*.safetensors >"$tmp/all" && return
    grep '^not ok' "$tmp/all" | sed 's/^not //'
    return 1
}

rm -rf "${tmp:?}"/* # an earlier run's
mkdir -p "$tmp/cases" "$tmp/onnx"
mkfifo "$tmp/asked" "$tmp/said"
"$python" "$here/steps.py" <"$tmp/asked" >"$tmp/said" 2>&1 &
exec 4>"$tmp/asked" 3<"$tmp/said"
# shellcheck disable=SC2317
step() { # WORDS...: of steps.py, until it says "done STATUS"
    local line
    (echo "$*" >&4) # a subshell, as a write to a process that has ended ends the shell
    while IFS= read -r line <&3; do
        case $line in
            'done '*) return "${line#done }" ;;
            *) echo "$line" ;;
        esac
    done
    return 1
}
claim "PyTorch writes the cases" step write "$tmp/cases" "$count"
write_onnx
shopt -s nullglob
# parity.c calls private readers of files, which only the tests' libraries show.
for precision in float32 float64; do
    if [ $precision = float32 ]; then library=$LIB flags=; else library=$LIB_DOUBLE flags=-DSTRIDE_DOUBLE; fi
    library=$(lighter "${library%.a}-all.a")
    program=$tmp/parity_$precision
    claim "parity.c compiles $precision" build "$program" "$library" $flags
    [ -x "$program" ] || continue
    "$program" "$tmp"/cases/*.safetensors "$tmp"/onnx/*.safetensors || failed=1
    for engine in $engines; do
        claim "every case with STRIDE_ENGINE=$engine in $precision" all_with "$engine" "$program"
    done
    both_ways "$program" "$tmp/$precision"
done
step loads "$tmp"/float32 "$tmp"/float64 || failed=1
exec 4>&-
wait
exit $failed
