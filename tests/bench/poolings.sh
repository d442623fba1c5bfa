#!/bin/sh
# poolings.sh PEER [ROUNDS]: max pooling's time divided by each pooling's, forward and backward, and its milliseconds.
#
# PEER is stride_peer. Images are [64, 16, 24, 24], or as SHAPE=64x16x24x24 says; one thread, processor time;
# medians of rounds in which all are measured in turn.
peer=$1 rounds=${2:-5}
export BENCH_CLOCK=cpu BENCH_SECONDS="${BENCH_SECONDS:-0.01}" STRIDE_THREADS=1
BENCH_FOLDER=$(mktemp -d)
export BENCH_FOLDER
trap 'rm -rf "$BENCH_FOLDER"' EXIT
cd "$BENCH_FOLDER" || exit

kinds="maxpool avgpool lppool mixed_pool gated_pool median_pool rank_pool ordinal_pool stochastic_pool logsumexp_pool
soft_pool gem_pool learned_norm_pool local_importance_pool"
texts() { # a line for each pooling, "column|name|text"
    column=0
    for window in '2' '3 stride=1 padding=1' '3 stride=2 padding=1'; do
        column=$((column + 1))
        for kind in $kinds; do echo "$column|$kind|$kind $window"; done
        echo "$column|rank_pool, drawn|rank_pool $window stochastic"
        echo "$column|max_unpool|max_unpool(maxpool $window | relu)"
    done
    echo '1|blur_pool|blur_pool 2 stride=2'
    echo '2|blur_pool|blur_pool 3 stride=1 padding=1'
    echo '3|blur_pool|blur_pool 3 stride=2 padding=1'
    echo '3|max-blur|maxpool 2 stride=1, blur_pool 3 padding=1'
    echo '1|s3_pool|s3_pool 2'
    echo '2|s3_pool|s3_pool 3 stride=1'
    echo '3|s3_pool|s3_pool 3 stride=2'
    echo '1|adaptive_maxpool|adaptive_maxpool 12'
    echo '1|fractional_maxpool|fractional_maxpool output_size=12'
    echo '3|fractional_maxpool|fractional_maxpool output_ratio=0.5 overlapping'
    echo '1|spatial_pyramid_pool|spatial_pyramid_pool 4'
}
texts | while IFS='|' read -r column name text; do
    for pass in forward both; do echo "$column|$name|layer ${SHAPE:-64x16x24x24} $text $pass"; done
done >once
for _ in $(seq "$rounds"); do cat once; done >asked
cut -d '|' -f 3- asked | "$peer" | tail -n +2 >answered
status=0
grep '^error' answered >&2 && status=1
paste -d '|' answered asked | awk -F '|' '
    $1 !~ /^ok/ { next }
    {
        split($1, word, " ")
        key = $2 SUBSEP $3
        if (!seen[$3]++) name[++names] = $3
        if ($0 ~ / forward$/) time[key, ++count[key]] = 1000 * word[2]
        else time[key, count[key]] += 1000 * word[2]
    }
    function median(key,    n, i, j, least, at) {
        n = count[key]
        for (i = 1; i <= n; i++) at[i] = time[key, i]
        for (i = 1; i <= n; i++)
            for (j = i + 1; j <= n; j++) if (at[j] < at[i]) { least = at[j]; at[j] = at[i]; at[i] = least }
        return (at[int((n + 1) / 2)] + at[int(n / 2) + 1]) / 2
    }
    END {
        printf "%-22s %20s %20s %20s\n", "", "2x2, stride 2", "3x3, stride 1", "3x3, stride 2"
        for (i = 1; i <= names; i++) {
            printf "%-22s", name[i]
            for (c = 1; c <= 3; c++) {
                key = c SUBSEP name[i]
                if (key in count) printf " %8.2f %8.3f ms", median(c SUBSEP "maxpool") / median(key), median(key)
                else printf " %20s", ""
            }
            print ""
        }
    }'
exit $status
