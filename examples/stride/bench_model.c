/* bench_model.c: stride bench-model: speed of training and prediction, and each layer's share of the time. */
#include "examples/stride/commands.h"
#include "examples/stride/layer_times.h"
#include "examples/stride/model.h"
#include "layers/describe/describe.h"
#include "nn/optimizers.h"

#include <stdlib.h>

enum { MOST_BATCHES = 16 };

typedef struct settings {
    net_options subject;
    const char *batches;
    double seconds;
    long threads;
} settings;

typedef struct subject {
    st_net *n;
    st_optim *o;
    st_loss l;
    st_tensor x, target, dy;
} subject;

static void train_step(const subject *s)
{
    st_net_zero_gradients(s->n);
    st_tensor y = st_net_forward(s->n, s->x, ST_TRAIN);
    st_loss_value(s->l, y, s->target, s->dy);
    st_net_backward(s->n, s->dy, (st_tensor){ 0 });
    st_optim_step(s->o, s->o->lr, st_net_parameters(s->n), st_net_gradients(s->n));
}

static void infer_step(const subject *s)
{
    st_net_forward(s->n, s->x, ST_PREDICT);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From the median of the steps that fit into this time, at least 3, after one that is not counted. */
static double samples_per_second(const subject *s, void (*step)(const subject *), double seconds)
{
    enum { MOST = 1000 };
    double took[MOST], began = seconds_now(), last;
    int count = 0;
    step(s);
    for (last = seconds_now(); count < MOST && (count < 3 || last - began < seconds) && !st_error();
         count++) {
        step(s);
        double after = seconds_now();
        took[count] = after - last;
        last = after;
    }
    qsort(took, (size_t)count, sizeof *took, by_size);
    return count > 0 ? 2 * (double)s->x.shape.n[0] / (took[(count - 1) / 2] + took[count / 2]) : 0;
}

static int make_subject(subject *s, st_net *n, ptrdiff_t batch)
{
    bool classed = n->output.rank == 1;
    *s = (subject){ .n = n, .l = classed ? st_cross_entropy() : st_mse() };
    if (st_net_build(n, batch, 1)) return -1;
    s->o = st_sgd(.lr = 1e-6, .momentum = 0.9);
    s->x = st_tensor_new(st_shape_with_batch(n->input, batch));
    s->target = st_tensor_new(classed ? ST_SHAPE(batch) : st_shape_with_batch(n->output, batch));
    s->dy = st_tensor_new(st_shape_with_batch(n->output, batch));
    st_uniform(s->x, (st_random_key){ 1, 1 }, 0, 1);
    return st_error() ? -1 : 0;
}

/* The layers' times in a training step. */
static void show_layers(const subject *s)
{
    layer_times t = { 0 };
    st_dataset *d = st_dataset_tensors(s->x, s->target);
    if (d && layer_times_measure(&t, s->n, d, s->l, 0) == 0) {
        double all = 0;
        for (int i = 0; i < t.count; i++) all += t.layer[i].forward + t.layer[i].backward;
        printf("\ntraining, batches of %td: share of the layers' time\n%9s %9s\n", t.batch, "forward",
               "backward");
        for (int i = 0; i < t.count; i++) {
            char text[160];
            if (t.layer[i].of == s->n->root) continue;
            st_layer_describe(t.layer[i].of, text, sizeof text);
            printf("%7.1f %% %7.1f %%  %s\n", all > 0 ? 100 * t.layer[i].forward / all : 0,
                   all > 0 ? 100 * t.layer[i].backward / all : 0, text);
        }
    }
    layer_times_free(&t);
    st_dataset_free(d);
}

static int measure(st_net *n, ptrdiff_t batch, double seconds, bool last)
{
    subject a;
    if (make_subject(&a, n, batch) == 0) {
        double training = samples_per_second(&a, train_step, seconds);
        double inference = samples_per_second(&a, infer_step, seconds);
        if (!st_error()) printf("%6td %12.0f %12.0f\n", batch, training, inference);
        fflush(stdout);
    }
    if (last && !st_error()) show_layers(&a);
    st_tensor_free(a.x), st_tensor_free(a.target), st_tensor_free(a.dy);
    st_optim_free(a.o);
    return st_error() ? -1 : 0;
}

static int read_batches(const char *text, ptrdiff_t batch[MOST_BATCHES])
{
    int count = 0;
    for (const char *at = text;; at++) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at || value < 1 || value > 65536 || count == MOST_BATCHES || (*end && *end != ','))
            return 0;
        batch[count++] = value;
        if (!*end) return count;
        at = end;
    }
}

static int run(void *settings_, int operands, char **operand)
{
    (void)operands, (void)operand;
    settings *s = settings_;
    ptrdiff_t batch[MOST_BATCHES];
    int count = read_batches(s->batches, batch);
    if (count == 0)
        return subcommand_refuse(&command_bench_model,
                                 "--batches: expected a list such as 1,16,64, not \"%s\"", s->batches);
    if (net_check(&command_bench_model, &s->subject)) return 2;
    st_net *n = net_given(&s->subject, batch[0], 1);
    if (n) {
        printf("samples per second, %s\n%6s %12s %12s\n", ST_REAL_NAME, "batch", "training", "inference");
        for (int i = 0; i < count && measure(n, batch[i], s->seconds, i + 1 == count) == 0; i++) continue;
    }
    st_net_free(n);
    return 0;
}

static const option_row options[] = {
    NET_OPTIONS,
    { "batches", 'b', OPTION_TEXT, AT(batches), "N,N,...", "1,16,64", "samples per batch" },
    { "seconds", 'S', OPTION_NUMBER, AT(seconds), "X", "1", "measuring time of each number", 0.001, 1000 },
    THREADS_OPTION,
    { 0 },
};

const subcommand command_bench_model = {
    .name = "bench-model",
    .what =
        "Measures how many samples per second a network trains on and predicts, and the layers' shares of "
        "the time.",
    .usage = "NET|MODEL [options]",
    .details = "Medians of steps on random samples, with cross-entropy and SGD with momentum; of each layer "
               "the fastest of nine steps.",
    .examples = "  stride bench-model examples/networks/lenet5.net\n"
                "  stride bench-model model.safetensors --batches 1,256 --threads 1\n",
    .operands = { "model", "net" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
