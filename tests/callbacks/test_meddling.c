/* test_meddling.c: a callback that writes to what it may only read changes nothing of the run. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/train.h"

#include <stdio.h>

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(3), st_dense(.out_features = 2));
    assert_non_null(n);
    assert_int_equal(st_net_build(n, 4, 1), 0);
    return n;
}

static void write_report(st_callback *self, st_run *run, st_event event)
{
    const int *value = self->context;
    run->report.batch = run->report.batches = *value;
    run->report.step = run->report.steps = *value;
    run->report.epoch = *value;
    run->report.training.loss = run->report.seconds = *value;
}

/* The parameters after a run of 3 epochs, each of 3 batches; `value` is written at each event. */
static st_tensor trained(const int *value, st_train_result *result)
{
    auto_net *n = small_net();
    auto_optim *o = st_sgd(.lr = 0.1);
    auto_dataset *d = st_dataset_owned(full(ST_SHAPE(10, 3), 1), full(ST_SHAPE(10), 1));
    FILE *nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    if (st_train(n, d, .loss = st_cross_entropy(), .optim = o, .batch = 4, .epochs = 3,
                 .schedule = st_cosine_lr(),
                 .callbacks = { { "write_report", value ? write_report : NULL, (void *)value },
                                st_progress(nowhere) },
                 .result = result))
        fail_msg("%s", st_error());
    fclose(nowhere);
    return st_tensor_clone(st_net_parameters(n));
}

TEST(a_report_that_is_written_to_changes_nothing)
{
    st_train_result whole, meddled;
    auto_tensor expected = trained(NULL, &whole);
    for (int value = -1; value < 101; value = value < 4 ? value + 1 : value + 96) {
        auto_tensor got = trained(&value, &meddled);
        about("%d", value);
        assert_same(got, expected);
        assert_int_equal(meddled.epochs, 3);
        assert_int_equal(meddled.steps, 9);
        assert_true(meddled.training.loss == whole.training.loss);
    }
}
