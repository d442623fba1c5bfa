/* gradcheck.c: stride gradcheck: compares a network's gradients with finite differences, in double. */
#include "nn/check/gradcheck.h"
#include "examples/stride/commands.h"
#include "examples/stride/kinds.h"
#include "examples/stride/model.h"

typedef struct settings {
    net_options subject;
    long batch, most, directions, seed;
    option_given loss;
    double tolerance;
} settings;

/* Classes 0, 1, ..., or uniform numbers. */
static st_tensor targets(const st_net *n, const settings *s, bool classed)
{
    st_tensor t = st_tensor_new(classed ? ST_SHAPE(s->batch) : st_shape_with_batch(n->output, s->batch));
    if (!classed) st_uniform(t, (st_random_key){ (uint64_t)s->seed, 2 }, 0, 1);
    for (ptrdiff_t i = 0; classed && i < s->batch; i++)
        *st_at(t, ST_INDEX(i)) = (st_real)(i % n->output.n[0]);
    return t;
}

static bool check(st_net *n, const settings *s, st_loss loss)
{
    st_tensor x = st_tensor_new(st_shape_with_batch(n->input, s->batch)),
              target = targets(n, s, loss.kind->classes);
    st_gradcheck_result r = { 0 };
    st_normal(x, (st_random_key){ (uint64_t)s->seed, 1 }, 0, 1);
    if (!st_error())
        r = st_gradcheck_net(n, x, target, loss,
                             (st_gradcheck_options){ .most = s->most,
                                                     .directions = (int)s->directions,
                                                     .seed = (uint64_t)s->seed,
                                                     .tolerance = s->tolerance,
                                                     .report = stdout });
    if (r.passed)
        printf("passed: largest relative error %.1e of %td %s, %td kinks skipped (%s)\n", r.worst, r.checked,
               s->directions == 0 ? "elements"
               : r.checked == 1   ? "direction"
                                  : "directions",
               r.kinks, ST_REAL_NAME);
    else st_error_set("%s", r.text[0] ? r.text : "failed");
    st_tensor_free(x);
    st_tensor_free(target);
    return r.passed;
}

static int run(void *settings_, int count, char **operands)
{
    (void)count, (void)operands;
    settings *s = settings_;
    if (net_check(&command_gradcheck, &s->subject)) return 2;
    const st_loss loss = loss_chosen(s->loss, NULL);
    st_net *n = st_error() ? NULL : net_given(&s->subject, s->batch, (uint64_t)s->seed);
    if (n) check(n, s, loss);
    st_net_free(n);
    return 0;
}

static const option_row options[] = {
    NET_OPTIONS,
    { "batch", 'b', OPTION_INTEGER, AT(batch), "N", "3", "samples per batch", 1, 1024 },
    { "most", 0, OPTION_INTEGER, AT(most), "N", "200", "elements of each tensor to check; 0: all", 0, 1e9 },
    { "directions", 0, OPTION_INTEGER, AT(directions), "N", "0",
      "for large nets: directions in which all elements are varied at once; 0: element by element", 0, 1e6 },
    { "loss", 0, OPTION_KIND, AT(loss), NULL, "cross-entropy", "the loss, and options of it: 'huber delta=2'",
      .word = loss_word },
    { "tolerance", 0, OPTION_NUMBER, AT(tolerance), "X", "1e-6", "the largest relative error to pass", 1e-15,
      1 },
    { "seed", 's', OPTION_INTEGER, AT(seed), "N", "1", "seed of parameters, samples and the elements checked",
      0, 1e15 },
    { 0 },
};

const subcommand command_gradcheck = {
    .name = "gradcheck",
    .what = "Compares the gradients of a network and a loss with central differences, in double precision.",
    .usage = "NET|MODEL [options]",
    .examples = "  stride gradcheck 'conv 4 3x3, tanh, dense 3' --input 2x8x8\n"
                "  stride gradcheck examples/networks/lenet5.net --most 50\n",
    .in_double = true,
    .operands = { "model", "net" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
