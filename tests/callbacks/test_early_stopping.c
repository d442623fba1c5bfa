/* test_early_stopping.c: a run ends after as many epochs without an improvement as `patience` says. An equal
 * loss is no improvement, nor is one that is lower by min_delta or less. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/train.h"

#include <string.h>

/* The validation losses of the epochs. */
static struct script {
    int count, at;
    double loss[8];
} script;

static double scripted(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (st_is_null(dy)) return script.loss[script.at < script.count ? script.at++ : script.count - 1];
    st_fill(dy, 0);
    return 1;
}

static const st_loss_kind scripted_kind = { .name = "scripted", .value = scripted };

TEST(what_is_no_improvement_is_counted)
{
    const struct {
        double loss[8], min_delta;
        int patience, epochs, best;
    } cases[] = {
        { { 4, 4, 4, 4 }, 0, 2, 3, 1 },
        { { 4, 3, 3, 3, 3 }, 0, 2, 4, 2 },
        { { 4, 3, 3.5, 2, 2, 2 }, 0, 2, 6, 4 },
        { { 4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5 }, 0.5, 2, 8, 7 }, /* each second one is lower by 1 */
        { { 4, 3.5, 3.5, 1 }, 0.5, 2, 3, 1 },                 /* lower by 0.5 alone */
        { { 4, 5, 3, 5, 3, 5 }, 0, 1, 2, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 2));
        auto_dataset *d = st_dataset_owned(full(ST_SHAPE(3, 2), 1), full(ST_SHAPE(3, 2), 1));
        auto_optim *o = st_sgd(.lr = 0.125);
        st_train_result r;
        script = (struct script){ .count = 8 };
        memcpy(script.loss, cases[i].loss, sizeof script.loss);
        about("case %zu", i);
        assert_int_equal(st_train(n, d, .loss = st_loss_new(&scripted_kind, NULL), .optim = o, .epochs = 8,
                                  .validation = d, .result = &r,
                                  .callbacks = { st_early_stopping(.patience = cases[i].patience,
                                                                   .min_delta = cases[i].min_delta) }),
                         0);
        assert_int_equal(r.epochs, cases[i].epochs);
        assert_int_equal(r.best_epoch, cases[i].best);
    }
}
