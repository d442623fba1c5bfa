#!/usr/bin/env bash
# Programs that include <stride.h>: in C and in C++, with gcc and clang, linked with the archive and with the shared
# library, and beside any names of their own.
# shellcheck disable=SC2086
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/door
. tests/tools/claims.sh
skip_sanitized "programs in C and C++: a sanitizer's library needs the sanitizer's compiler"
root=$PWD
mkdir -p "$tmp/away"
cd "$tmp/away" || exit 1
archive=$(lighter "$LIB")
shared="-L${LIB%/*} -lstride -Wl,-rpath,${LIB%/*}"

# SOURCE COMPILER FLAG...: compiles, links with the shared library, and runs.
runs() {
    local source=$1
    shift
    "$@" -Werror -I"$root" -c "$source" -o program.o && "$@" program.o $shared -o shared && ./shared
}
# The same, and with the archive.
runs_either() {
    runs "$@" || return
    shift
    "$@" program.o "$archive" $LIBS -pthread -o static && ./static
}
# COMPILER FLAG...: each public header alone, which one compiler of a language tells.
headers_compile() {
    local header
    for header in $(make -s -C "$root" headers); do
        printf '#include "%s"\nextern int declared;\n' "$header" >header.$suffix
        "$@" -Werror -I"$root" -fsyntax-only header.$suffix || { echo "$header"; return 1; }
    done
}
# COMPILER FLAG...: all of them.
all_compile() {
    make -s -C "$root" headers | tr ' ' '\n' | sed 's/.*/#include "&"/; $a extern int declared;' >headers.$suffix
    "$@" -Werror -I"$root" -fsyntax-only headers.$suffix
}
# CLAIM COMPILER ...: where there is such a compiler.
where_there_is() { # COMPILER CLAIM COMMAND...
    local compiler=$1
    shift
    if command -v "$compiler" >/dev/null; then claim "$@"; else echo "skip $1: $compiler is not installed"; fi
}

# The README's first program, with fewer digits.
awk '/^```c$/ { n++; inside = n == 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" |
    sed 's/6000/600/; s/1000/100/; s/epochs = 3/epochs = 1/' >first.c
cp first.c first.cc
# Macros whose options are all left out, or given.
cat >options.c <<'END'
#include <stride.h>
int main(void)
{
    st_net *none = st_net_load("none"), *also = st_net_load("none", .batch = 1, .known = { .max_memory = 1 });
    st_dataset *table = st_dataset_csv("none"), *other = st_dataset_csv("none", .label = -1), *drawn = st_dataset_augment(table);
    return none || also || table || other || drawn || !st_error();
}
END
cp options.c options.cc
warnings='-Wall -Wextra -pedantic -Wshadow'
suffix=c
for flags in "gcc -std=c11 $warnings" "clang -std=c17 $warnings"; do
    where_there_is ${flags%% *} "the first program runs: $flags" runs_either first.c $flags
    where_there_is ${flags%% *} "options may be left out: $flags" runs options.c $flags
    where_there_is ${flags%% *} "all headers: $flags" all_compile $flags
done
claim "every header alone" headers_compile ${CC:-cc} -std=c11 $warnings
suffix=cc
for compiler in g++ clang++; do
    flags="$compiler -std=c++17 $warnings -Wold-style-cast"
    strict="$compiler -std=c++20 $warnings -Wold-style-cast"
    where_there_is $compiler "the same program runs as C++20: $strict" runs_either first.cc $strict
    where_there_is $compiler "options may be left out: $strict" runs options.cc $strict
    where_there_is $compiler "with functions for the macros: $flags" runs "$root/tests/door/first17.cc" $flags
    where_there_is $compiler "all headers: $flags" all_compile $flags
done

# A callback reads what the trainer's memory depends on, and writes its report.
runs_are_read() {
    local assignment
    for assignment in 'report.lr = 0' 'stop = true' 'report.epochs = 1' 'result.best_epoch = 1'; do callback_compiles "$assignment" || return; done
    for assignment in 'options->micro_batches=8' 'options->batch=8' 'options->ranks=0' 'options->callbacks[0].memory=1' \
        options=0 net=0 optim=0 own=0; do
        ! callback_compiles "$assignment" && grep -Eq 'read-only|const' log || { echo "$assignment"; cat log; return 1; }
    done
}
callback_compiles() { # ASSIGNMENT
    printf '#include <stride.h>\nvoid call(st_callback *c, st_run *run, st_event e) { (void)c, (void)e; run->%s; }\n' "$1" |
        ${CC:-cc} -std=c11 -I"$root" -x c -fsyntax-only - 2>log
}
claim "a callback that writes a run's options or its net does not compile" runs_are_read

# A program may call its own what it likes: here every name that files of the library share, and some that are common.
names_are_free() {
    local all=${LIB%.a}-all.a
    {
        printf '%s\n' tensor layer net data train loss shape real pool window error_set random_bits parallel_for kernel_product
        nm -g --defined-only "$all" | awk 'NF == 3 { print $3 }' | grep -v '^st_'
    } | sort -u >names
    [ "$(grep -c . names)" -gt 20 ] || return
    {
        echo '#include <stride.h>'
        sed 's/.*/int & = 7;/' names
        echo 'int main(void) { st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 8, .kernel = { 3 }),'
        echo 'st_relu(), st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));'
        echo 'st_dataset *d = st_digits(256, 1); st_optim *o = st_adam(.lr = ST_ZERO);'
        echo 'st_train(n, d, .loss = st_cross_entropy(), .optim = o);'
        echo 'st_net_free(n), st_dataset_free(d), st_optim_free(o);'
        echo 'if (st_error()) { printf("%s\n", st_error()); return 1; } return'
        sed 's/.*/    & != 7 ||/' names
        echo '0; }'
    } >names.c
    runs_either "$PWD/names.c" ${CC:-cc} -std=c11 -Wall
}
if nm --version >/dev/null 2>&1 && objcopy --version >/dev/null 2>&1; then
    claim "a program may define every name without the prefix" names_are_free
else
    echo "skip a program may define every name without the prefix: there is no nm or objcopy"
fi
exit $failed
