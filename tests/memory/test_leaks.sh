#!/usr/bin/env bash
# A program that trains with two threads and frees what it made leaves nothing that valgrind calls lost.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/leaks
. tests/tools/claims.sh
skip_sanitized "leaks of a program with threads: valgrind does not run a sanitizer's programs"
command -v valgrind >/dev/null || { echo "skip leaks of a program with threads: valgrind is not installed"; exit 0; }
mkdir -p "$tmp"
cat >"$tmp/threads.c" <<'END'
#include <stride.h>
int main(void)
{
    st_set_num_threads(2);
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_maxpool(.kernel = { 4 }), st_flatten(), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(64, 1);
    st_optim *o = st_sgd(.lr = 0.1);
    st_train(n, digits, .loss = st_cross_entropy(), .optim = o);
    st_net_free(n), st_dataset_free(digits), st_optim_free(o);
    return st_error() != NULL || st_num_threads() != 2;
}
END
leaves_nothing() { # FLAG...
    $CC $CFLAGS "$tmp/threads.c" "$@" -o "$tmp/threads" &&
        valgrind --leak-check=full --error-exitcode=9 "$tmp/threads" >"$tmp/said" 2>&1 || { cat "$tmp/said"; return 1; }
}
claim "two threads, the archive: nothing is lost" leaves_nothing "$LIB" $LIBS
claim "two threads, the shared library: nothing is lost" leaves_nothing "-L${LIB%/*}" -lstride "-Wl,-rpath,${LIB%/*}"
exit $failed
