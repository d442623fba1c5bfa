/* scaling.c: the cost of a unit of work does not grow with the size of the work.
 *
 * A curve is one kind of work at growing sizes. What a unit of it costs (an image's share of the time, or a
 * multiply-add's) may rise and fall, and small sizes may be dear: what is done once a call weighs on them.
 * But it may not rise and stay: wherever the curve is cut, the least cost after the cut, of two sizes or
 * more, is at most `limit` times the least before it. A loop too many, which makes cost grow with size,
 * exceeds any limit; noise at one size does not. The limit leaves room for arrays that outgrow a cache on the
 * way; it is three times as wide for work that does nothing but move them.
 *
 * Times are those that processors spend, and the least of the rounds: other programs only add to them, and
 * little. Two threads may not spend more than one does, by the same limit; how much sooner they are done is
 * for `bench` to say. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/error.h"
#include "tests/bench/campaign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES = 11 };

/* Each S in the request stands for the size; the work grows as its `power`. Where `leaves_cache`, the limit
 * is three times as wide. */
typedef struct curve {
    const char *name, *what, *request, *pass;
    int least, most, power;
    bool leaves_cache;
} curve;

static const curve curves[] = {
    { "train lenet5", "batch", "net lenet5 S", "train", 1, 1024, 1, false },
    { "infer lenet5", "batch", "net lenet5 S", "infer", 1, 1024, 1, false },
    { "conv forward", "batch", "layer Sx16x28x28 conv 32 3 padding=1", "forward", 1, 1024, 1, false },
    { "conv backward", "batch", "layer Sx16x28x28 conv 32 3 padding=1", "backward", 1, 1024, 1, false },
    { "conv gradient", "batch", "layer Sx16x28x28 conv 32 3 padding=1", "gradient", 1, 1024, 1, false },
    { "conv forward", "image", "layer 16x16xSxS conv 32 3 padding=1", "forward", 14, 112, 2, false },
    { "conv backward", "image", "layer 16x16xSxS conv 32 3 padding=1", "backward", 14, 112, 2, false },
    { "conv gradient", "image", "layer 16x16xSxS conv 32 3 padding=1", "gradient", 14, 112, 2, false },
    { "conv forward", "channels", "layer 16xSx28x28 conv S 3 padding=1", "forward", 8, 256, 2, false },
    { "conv backward", "channels", "layer 16xSx28x28 conv S 3 padding=1", "backward", 8, 256, 2, false },
    { "conv gradient", "channels", "layer 16xSx28x28 conv S 3 padding=1", "gradient", 8, 256, 2, false },
    { "dense forward", "batch", "layer Sx784 dense 512", "forward", 1, 1024, 1, false },
    { "maxpool forward", "image", "layer 16x16xSxS maxpool 2", "forward", 14, 112, 2, true },
    { "maxpool backward", "image", "layer 16x16xSxS maxpool 2", "backward", 14, 112, 2, true },
    { "batchnorm forward", "batch", "layer Sx16x28x28 batchnorm", "forward", 64, 1024, 1, true },
    { "relu forward", "batch", "layer Sx16x28x28 relu", "forward", 64, 1024, 1, true },
};
enum { CURVES = sizeof curves / sizeof *curves };

/* `scaling [LIMIT [NAME]]`: how many times as much a unit may come to cost (1.5), and the curves with NAME in
 * their names (all). With BENCH_QUICK=1 three sizes of each are measured in one round. */
typedef struct settings {
    double limit;
    const char *name;
    bool quick;
} settings;

/* ---- sizes --------------------------------------------------------------------------------------- */

static int size_at(const curve *v, int i)
{
    return v->least << i;
}

/* 0 for a curve that is not asked for. */
static int size_count(const curve *v, const settings *s)
{
    int count = 0;
    if (!strstr(v->name, s->name)) return 0;
    while (count < SIZES && size_at(v, count) <= v->most && !(s->quick && count == 3)) count++;
    return count;
}

static void write_request(char *to, const char *pattern, int size)
{
    int at = 0;
    for (; *pattern && at < SUBJECT_TEXT - 1; pattern++) {
        bool is_size = *pattern == 'S';
        at += is_size ? snprintf(to + at, SUBJECT_TEXT - at, "%d", size)
                      : snprintf(to + at, SUBJECT_TEXT - at, "%c", *pattern);
    }
}

/* The curves' subjects one after another; each curve has a process to itself. */
static int make_subjects(subject *to, const settings *s)
{
    int count = 0;
    for (int v = 0; v < CURVES; v++)
        for (int i = 0; i < size_count(&curves[v], s); i++, count++) {
            to[count] = (subject){ .pass = curves[v].pass, .process = curves[v].request };
            write_request(to[count].request, curves[v].request, size_at(&curves[v], i));
            snprintf(to[count].name, SUBJECT_TEXT, "%s", to[count].request);
        }
    return count;
}

/* ---- results ------------------------------------------------------------------------------------- */

static double least_seconds(const campaign *c, int which, int threads)
{
    const result *r = campaign_result(c, (cell){ which, threads, 0 });
    double least = INFINITY;
    for (int i = 0; i < r->rounds; i++) least = fmin(least, r->seconds[i]);
    return least;
}

/* Nanoseconds of a unit; the first size's work is so many units as its size to the curve's power. */
static double unit_cost(const campaign *c, const curve *v, int first, int i, int threads)
{
    return 1e9 * least_seconds(c, first + i, threads) / pow(size_at(v, i), v->power);
}

/* Prints if the rise is within the limit, and returns it. */
static bool verdict(const char *what, double rise, double limit)
{
    printf("%s %s: %.2f times, limit %.2f\n", rise <= limit ? "ok" : "FAIL", what, rise, limit);
    return rise <= limit;
}

static double least_of(const double *value, int count)
{
    double least = INFINITY;
    for (int i = 0; i < count; i++) least = fmin(least, value[i]);
    return least;
}

/* The greatest lasting rise: over all cuts that leave two sizes after them. */
static double lasting_rise(const double *cost, int count)
{
    double rise = 0;
    for (int cut = 1; cut + 2 <= count; cut++)
        rise = fmax(rise, least_of(cost + cut, count - cut) / least_of(cost, cut));
    return rise;
}

/* The curve with one number of threads, and its rise. */
static double print_curve(const campaign *c, const curve *v, int first, int count, int threads)
{
    double cost[SIZES];
    for (int i = 0; i < count; i++) {
        cost[i] = unit_cost(c, v, first, i, threads);
        printf("  %s %-5d %12.1f ns\n", v->what, size_at(v, i), cost[i]);
    }
    return lasting_rise(cost, count);
}

/* The better of the two largest sizes, which give two threads most to share. */
static double cost_of_second_thread(const campaign *c, int last)
{
    double largest = least_seconds(c, last, 1) / least_seconds(c, last, 0);
    return fmin(largest, least_seconds(c, last - 1, 1) / least_seconds(c, last - 1, 0));
}

/* With one thread, with two, and these against each other; `first` is the curve's first subject. */
static bool judge(const campaign *c, const settings *s, const curve *v, int first)
{
    int count = size_count(v, s);
    bool good = true;
    char what[120];
    for (int t = 0; t < CAMPAIGN_THREADS; t++) {
        int threads = c->threads[t];
        printf("%s by %s, %d thread%s\n", v->name, v->what, threads, threads > 1 ? "s" : "");
        double rise = print_curve(c, v, first, count, t);
        snprintf(what, sizeof what, "%s by %s, lasting rise of a unit's cost", v->name, v->what);
        good = verdict(what, rise, v->leaves_cache ? 3 * s->limit : s->limit) && good;
    }
    snprintf(what, sizeof what, "%s, %s %d, two threads against one", v->name, v->what,
             size_at(v, count - 1));
    return verdict(what, cost_of_second_thread(c, first + count - 1), s->limit) && good;
}

static bool judge_all(const campaign *c, const settings *s)
{
    bool good = true;
    for (int v = 0, first = 0; v < CURVES; first += size_count(&curves[v], s), v++)
        if (size_count(&curves[v], s) > 0) good = judge(c, s, &curves[v], first) && good;
    return good;
}

int main(int argc, char **argv)
{
    const char *quick = getenv("BENCH_QUICK");
    settings s = { .limit = argc > 1 ? strtod(argv[1], NULL) : 1.5,
                   .name = argc > 2 ? argv[2] : "",
                   .quick = quick && strcmp(quick, "1") == 0 };
    static subject all[CURVES * SIZES];
    const peer stride = campaign_stride(argv[0]);
    campaign c = { .subjects = all,
                   .subject_count = make_subjects(all, &s),
                   .peers = &stride,
                   .peer_count = 1,
                   .rounds = s.quick ? 1 : 3,
                   .threads = { 1, 2 },
                   .threads_count = 2,
                   .clock = { "cpu", "cpu" },
                   .folder = campaign_folder(argv[0]),
                   .progress = isatty(STDERR_FILENO) };
    int status = campaign_run(&c);
    if (status) fprintf(stderr, "scaling: %s\n", st_error());
    bool good = status == 0 && judge_all(&c, &s);
    campaign_end(&c);
    puts(good ? "ok" : "FAIL");
    return good ? 0 : 1;
}
