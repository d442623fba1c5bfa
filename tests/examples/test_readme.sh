#!/usr/bin/env bash
# The README's programs compile, run and do what it says; commands of the documents exist.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}/readme
. tests/tools/claims.sh
skip_sanitized "the README: a sanitizer takes half a minute, and other tests run the same functions"
mkdir -p "$tmp"
root=$PWD
archive=$(lighter "$LIB") archive_double=$(lighter "$LIB_DOUBLE")

# The n-th C program of the README.
awk -v dir="$tmp" '/^```c$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > (dir "/program" n ".c") }' README.md

# shellcheck disable=SC2086
build() { # NAME LIBRARY FLAGS...
    local name=$1 library=$2
    shift 2
    $CC $CFLAGS -Wall -Wextra -Werror -Wno-missing-field-initializers "$tmp/$name.c" "$@" "$library" $LIBS -o "$tmp/$name"
}

first_network() {
    build program1 "$archive" && (cd "$tmp" && ./program1 | tee out && [ -s digits.safetensors ]) &&
        awk '/^accuracy/ { good = $2 >= 0.9 } END { exit !good }' "$tmp/out"
}
# The layer with a program that trains it, and with the README's own that checks it.
own_layer() {
    cat "$tmp/program2.c" - >"$tmp/trained.c" <<'END'
int main(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 32),
                           st_layer_new(&square, NULL, 0, NULL), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(4000, 1);
    st_optim *o = st_adam(.lr = 0.001);
    st_train(n, digits, .epochs = 2, .loss = st_cross_entropy(), .optim = o);
    st_net_save(n, "square.safetensors");
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    st_net_free(n), st_dataset_free(digits), st_optim_free(o);
    return st_error() != NULL;
}
END
    build trained "$archive" && (cd "$tmp" && ./trained && [ -s square.safetensors ])
}
gradient_check() {
    cat "$tmp/program2.c" "$tmp/program3.c" >"$tmp/check.c"
    build check "$archive_double" -DSTRIDE_DOUBLE && [ "$("$tmp/check")" = passed ]
}
# The pooling, checked with a window that extends beyond the image, and trained.
own_pooling() {
    cat "$tmp/program4.c" - >"$tmp/pooled.c" <<'END'
int main(void)
{
    st_layer *l = st_pool(&soft, .kernel = { 3, 2 }, .stride = { 2 }, .padding = { 1 }, .pad_value = ST_PAD_LOWEST);
    st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(9, 3, 6, 5), (st_gradcheck_options){ 0 });
    if (!r.passed) printf("%s\n", st_error() ? st_error() : r.text);
    st_layer_free(l);
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(8, { 5 }), st_relu(), st_pool(&soft, .kernel = { 2 }),
                           st_flatten(), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(1000, 1);
    st_optim *o = st_adam(.lr = 0.01);
    st_metrics score = { 0 };
    st_train(n, digits, .epochs = 3, .loss = st_cross_entropy(), .optim = o);
    st_net_save(n, "soft.safetensors");
    st_net_free(n);
    n = st_net_load("soft.safetensors", .known = { .types = (const st_layer_type *const[]){ &soft, NULL } });
    st_evaluate(n, digits, st_cross_entropy(), &score);
    printf("%s %.2f\n", st_error() ? st_error() : "accuracy", score.accuracy);
    st_net_free(n), st_dataset_free(digits), st_optim_free(o);
    return !r.passed || score.accuracy < 0.8;
}
END
    build pooled "$archive_double" -DSTRIDE_DOUBLE -Wconversion -Wdouble-promotion && (cd "$tmp" && ./pooled) || return 1
    local lines
    lines=$(awk '/^static/ { begun = 1 } begun' "$tmp/program4.c" | wc -l)
    [ "$lines" -le 20 ] || { echo "$lines lines, expected at most 20"; return 1; }
}
# docs/layers.md's pooling at random: its gradient, and how often its windows' elements are drawn.
random_pooling() {
    {
        printf '#include <stride.h>\n#include <math.h>\n'
        awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/layers.md
        cat <<'END'
int main(void)
{
    st_layer *l = st_pool(&any_of, .kernel = { 2 });
    st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(3, 2, 6, 4), (st_gradcheck_options){ 0 });
    st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 200, 200)), y = st_tensor_new(ST_SHAPE(1, 1, 100, 100));
    double drawn = 0, mean = 0;
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)(k / 200 % 2 * 2 + k % 2); /* 0 ... 3 */
    st_layer_build(l, x.shape, 1);
    st_layer_mode(l, true, 1, 1), st_layer_forward(l, x, y);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) drawn += st_data(y)[k] == 3;
    st_layer_mode(l, false, 1, 1), st_layer_forward(l, x, y);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) mean += (double)st_data(y)[k] / (double)st_numel(y);
    printf("%s, 3 in %g of 10000 windows, mean %g\n", st_error() ? st_error() : r.text, drawn, mean);
    st_tensor_free(x), st_tensor_free(y), st_layer_free(l);
    return !r.passed || fabs(drawn - 2500) > 5 * sqrt(10000 * 3 / 16.) || fabs(mean - 1.5) > 1e-9;
}
END
    } >"$tmp/random.c"
    build random "$archive_double" -DSTRIDE_DOUBLE -Wconversion -Wdouble-promotion && "$tmp/random"
}
pages="README.md CONTRIBUTING.md SECURITY.md $(echo docs/*.md)"
names_are_targets() {
    local target
    grep -qx '    make deps mnist' README.md && grep -qx '    make deps test' README.md || return 1
    cat Makefile $(find docs examples nn tests -name '*.mk') >"$tmp/makefiles"
    # shellcheck disable=SC2086
    for target in $(grep -ohE '(^    |`)make( [A-Z]+=[^ `]*)*( [a-z][a-z.-]*)+( |`|$)' $pages | grep -oE ' [a-z][a-z.-]*' | grep -vx ' make'); do
        grep -qE "^($target|.*\\b$target\\b.*):" "$tmp/makefiles" || { echo "no target $target"; return 1; }
    done
}
# A path stands in the project, or is built; a name without a folder is that of some file there, of one that a page
# writes, or of one that the library is joined to. Links lead to pages.
names_are_files() {
    local name page
    # shellcheck disable=SC2086
    for name in $(grep -ohE '`([a-z]+/)*[A-Za-z0-9_-]+\.(c|h|mk|sh|py|md|txt|net)`|`(tensor|layers|nn|tests|examples|docs)/[A-Za-z0-9_./-]*`' $pages | tr -d '`' | sort -u); do
        [ -e "$name" ] || [ "$name" = math.h ] || [ "${name#build/}" != "$name" ] || { [ "${name#*/}" = "$name" ] && [ "$(find tensor layers nn tests examples -name "$name")" ]; } ||
            grep -qF "cat >$name <<" $pages || grep -q "^ONE_FILES .*\\<$name\\>" nn/one/one.mk ||
            { echo "no file $name"; return 1; }
    done
    # shellcheck disable=SC2086
    for page in $pages; do
        for name in $(grep -oE '\]\([^)#:]+[)#]' "$page" | tr -d '])(#'); do
            [ -e "$(dirname "$page")/$name" ] || { echo "$page: no page $name"; return 1; }
        done
    done
}
folders_are_on_the_map() {
    local folder
    for folder in $(find tensor layers nn -name '*.c' -exec dirname {} + | sort -u); do
        grep -qF "\`$folder/" README.md || { echo "README.md does not name $folder/"; return 1; }
    done
}
# Names that the documents mention stand in a header, or in what begins the joined file.
names_are_declared() {
    grep -hoE '\<(st|ST)_[A-Za-z0-9_]+' $pages | sort -u >"$tmp/mentioned"
    find tensor layers nn \( -name '*.h' -o -path 'nn/one/*.c' \) -exec grep -hoE '\<(st|ST)_[A-Za-z0-9_]+' {} + | sort -u |
        comm -23 "$tmp/mentioned" - >"$tmp/unknown"
    [ -s "$tmp/mentioned" ] && ! [ -s "$tmp/unknown" ] || { cat "$tmp/unknown"; return 1; }
}
# The documents' tables of layers, losses, optimizers and schedules are those of the code: "type: field, field (default),
# ...", in its order.
layers_are_the_table() {
    cat >"$tmp/types.c" <<'END'
#include <stride.h>

static void put(const char *what, const char *name, const st_field *fields)
{
    printf("%s %s:", what, name);
    for (const st_field *f = fields; f && f->name; f++) {
        printf("%s %s", f == fields ? "" : ",", f->name);
        if (f->fallback != 0) printf(" (%g)", f->fallback);
    }
    putchar('\n');
}

int main(void)
{
    for (int i = 0; st_layer_types[i]; i++) put("layer", st_layer_types[i]->name, st_layer_types[i]->fields);
    for (int i = 0; st_loss_kinds[i]; i++) put("loss", st_loss_kinds[i]->name, st_loss_kinds[i]->fields);
    for (int i = 0; st_optim_kinds[i]; i++) put("optimizer", st_optim_kinds[i]->name, st_optim_kinds[i]->fields);
    for (int i = 0; st_schedule_kinds[i]; i++)
        put("schedule", st_schedule_kinds[i]->name, st_schedule_kinds[i]->fields);
    return 0;
}
END
    build types "$archive" && "$tmp/types" | sed 's/e-0/e-/' >"$tmp/types.code" || return 1
    # Words in parentheses are for the reader; numbers are defaults.
    awk -F ' *[|] *' '/^[|] (layer|loss|optimizer|schedule) [|]/ { inside = $2; next } !/^[|]/ { inside = "" } inside && !/^[|]-/ {
        gsub(/ \([^-0-9)][^)]*\)/, "", $3)
        print inside " " $2 ":" ($3 == "" ? "" : " " $3)
    }' docs/layers.md >"$tmp/types.readme"
    diff "$tmp/types.code" "$tmp/types.readme" && return
    echo "docs/layers.md lacks the lines <, which are in the code's order, and has the lines > too many"
    return 1
}

# A format of your own for the program is a row of DATASET_KINDS.
program_opens_every_format() {
    local name
    for name in $(sed -n 's/^st_dataset [*]\(st_dataset_[a-z0-9_]*\)(.*/\1/p' nn/data/formats.h); do
        grep -q "\<$name\>" examples/stride/dataset.c || { echo "examples/stride/dataset.c does not call $name"; return 1; }
    done
}

# "layer conv2d" is st_conv2d, "schedule step" is st_step_lr.
pytorch_has_every_kind() {
    local kind name
    while read -r kind name; do
        [ "$kind" = schedule ] && name=${name}_lr
        grep -qE "\\<st_$name\\>" docs/pytorch.md || { echo "docs/pytorch.md has no $kind $name"; return 1; }
    done < <(cut -d : -f 1 "$tmp/types.code")
    for name in $(sed -n 's/^st_callback \(st_[a-z0-9_]*\)(.*/\1/p; s/^st_dataset [*]\(st_[a-z0-9_]*\)(.*/\1/p' \
        nn/callbacks/callbacks.h nn/data/formats.h nn/files/checkpoint.h); do
        grep -qE "\<${name%_new}\>" docs/pytorch.md || { echo "docs/pytorch.md does not have ${name%_new}"; return 1; }
    done
}

# docs/command-line.md has every subcommand, in the program's order, every kind of data and every ending of export in the
# program's words, and no option that there is not; --learning-rate is its example of a wrong one.
command_line_is_the_program() {
    local page=docs/command-line.md kinds kind ending name
    "$BIN/stride" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' >"$tmp/commands.code"
    sed -n 's/^| `\([a-z-]*\)` |.*/\1/p' $page >"$tmp/commands.page"
    [ -s "$tmp/commands.code" ] && diff "$tmp/commands.code" "$tmp/commands.page" ||
        { echo "$page lacks the subcommands <, which are in the program's order, and has those > too many"; return 1; }
    tr -s ' \n' '  ' <$page >"$tmp/page"
    kinds=$("$BIN/stride" train --help | tr -s ' \n' '  ' | sed -n 's/.*--data PATH a data set: \(.*\); default: MNIST.*/\1/p')
    [ -n "$kinds" ] || { echo "stride train --help names no kind of data"; return 1; }
    while read -r kind; do
        grep -qF "$kind" "$tmp/page" || { echo "$page has no data that are $kind"; return 1; }
    done < <(echo "$kinds" | tr ';' '\n')
    for ending in $("$BIN/stride" export x.none 2>&1 | grep -oE '[ ]\.[a-z]+,' | tr -d ' ,'); do
        grep '^| `export` ' $page | grep -qF "\`$ending\`" || { echo "$page: export does not write $ending"; return 1; }
    done
    [ -n "${ending:-}" ] || { echo "stride export names no ending"; return 1; }
    while read -r name; do "$BIN/stride" "$name" --help; done <"$tmp/commands.code" | grep -oE -- '--[a-z0-9-]+' | sort -u >"$tmp/options"
    name=$(grep -oE -- '--[a-z][a-z0-9-]*' $page | sort -u | comm -23 - "$tmp/options" | grep -vx -e --learning-rate)
    [ -z "$name" ] || { echo "$page: no subcommand has $name"; return 1; }
}

claim "the first network trains and saves" first_network
claim "a layer of your own trains and saves" own_layer
claim "the gradient check passes" gradient_check
claim "a pooling of your own is checked, trains, saves and loads" own_pooling
claim "docs/layers.md's pooling at random is checked and draws" random_pooling
claim "the commands are targets" names_are_targets
claim "files that the documents name are there, and so are pages that they link" names_are_files
claim "every folder of the library is on the README's map" folders_are_on_the_map
claim "names in the documents are declared" names_are_declared
claim "the tables of layers, losses, optimizers and schedules are those of the code" layers_are_the_table
claim "docs/command-line.md has the subcommands, data, endings and options of the program" command_line_is_the_program
claim "the program opens every format of nn/data/formats.h" program_opens_every_format
claim "docs/pytorch.md has every layer, loss, optimizer, schedule, callback and format" pytorch_has_every_kind
exit $failed
