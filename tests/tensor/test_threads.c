/* test_threads.c: nets in several threads of one program, and in its children. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support.h"

#include "nn/data/digits.h"
#include "nn/share/share.h"
#include "nn/train.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BATCH = 5, LEARNT = 20 }; /* images of a batch that is predicted, or learnt from */

static st_net *some_net(void)
{
    st_net *n = st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }, .stride = { 2, 2 }),
        st_batchnorm(), st_relu(),
        st_residual(st_conv2d(.out_channels = 16, .kernel = { 3, 3 }, .padding = { 1, 1 })),
        st_maxpool(.kernel = { 2, 2 }), st_dropout(.p = 0.5), st_flatten(), st_dense(.out_features = 10));
    assert_non_null(n);
    return n;
}

static st_dataset *drawn;

static void draw(void)
{
    drawn = st_digits(60, 1);
}

/* Drawn when they are first asked for: a child may come before, which is work that threads share, too. */
static const st_dataset *digits(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw);
    return drawn;
}

static int train_net(st_net *n, uint64_t seed)
{
    auto_optim *o = st_sgd(.lr = 0.05, .momentum = 0.9);
    int status = st_train(n, digits(), .loss = st_cross_entropy(), .optim = o, .batch = LEARNT, .seed = seed);
    return status;
}

/* ---- children ----------------------------------------------------------------------------------- */

/* The first test: as long as nothing has been shared, neither has threads; both then have their own. */
TEST(a_child_from_before_all_work_does_the_same)
{
    st_net *n = some_net();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        bool good = train_net(n, 1) == 0;
        const char *at = (const char *)st_data(st_net_parameters(n));
        for (size_t left = (size_t)st_numel(st_net_parameters(n)) * sizeof(st_real); good && left > 0;) {
            ssize_t written = write(ends[1], at, left);
            good = written > 0;
            at += good ? written : 0, left -= good ? (size_t)written : 0;
        }
        _exit(!good);
    }
    close(ends[1]);
    assert_int_equal(train_net(n, 1), 0);
    st_tensor theirs = st_tensor_new(st_net_parameters(n).shape);
    FILE *from = fdopen(ends[0], "rb");
    size_t count = (size_t)st_numel(theirs);
    assert_int_equal(fread(st_data(theirs), sizeof(st_real), count, from), count);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(same_bytes(theirs, st_net_parameters(n)));
    fclose(from), st_net_free(n), st_tensor_free(theirs);
}

/* ---- inference ---------------------------------------------------------------------------------- */

typedef struct caller {
    st_net *n;
    st_tensor x, expected; /* [count, ...] */
    int calls, wrong;
} caller;

/* BLAS rounds otherwise where a batch is of another size. */
static bool one_by_one(void)
{
    const char *engine = getenv("STRIDE_ENGINE");
    return engine && strcmp(engine, "reference") == 0;
}

/* Predicts single images and batches, from a place of its own on. */
static void *predict(void *context)
{
    caller *c = context;
    ptrdiff_t images = c->x.shape.n[0];
    for (int k = 0; k < c->calls; k++) {
        ptrdiff_t first = k * 7 % images, count = one_by_one() ? 1 : k % BATCH + 1;
        if (first + count > images) count = images - first;
        st_tensor y = st_net_forward(c->n, st_narrow(c->x, 0, first, count), k % 2 ? ST_EVAL : ST_PREDICT);
        c->wrong += st_is_null(y) || !same_bytes(y, st_narrow(c->expected, 0, first, count));
    }
    return NULL;
}

/* In a batch of any size an image's output is the same. */
TEST(threads_that_share_a_net_see_the_same)
{
    enum { IMAGES = 23 };
    const char *fast = getenv("STRIDE_FAST");
    int calls = fast && fast[0] ? 100 : 10000 / THREADS;
    auto_net *n = some_net();
    assert_int_equal(train_net(n, 1), 0);
    auto_tensor x = st_tensor_new(ST_SHAPE(IMAGES, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(IMAGES)),
                expected = st_tensor_new(ST_SHAPE(IMAGES, 10));
    assert_int_equal(st_dataset_batch(digits(), NULL, 0, IMAGES, x, y), 0);
    for (ptrdiff_t i = 0; i < IMAGES; i++)
        st_copy(st_narrow(expected, 0, i, 1), st_net_forward(n, st_narrow(x, 0, i, 1), ST_EVAL));

    caller c[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (caller){ st_net_share(n, BATCH), x, expected, calls, 0 };
        assert_non_null(c[i].n);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, predict, &c[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(c[i].wrong, 0);
        st_net_free(c[i].n);
    }
}

TEST(what_is_shared_is_followed)
{
    auto_net *n = some_net();
    assert_int_equal(st_net_build(n, BATCH, 1), 0);
    st_net *twin = st_net_share(n, LEARNT);
    ptrdiff_t count = st_numel(st_net_parameters(n));
    assert_ptr_equal(st_data(st_net_parameters(twin)), st_data(st_net_parameters(n)));
    assert_ptr_equal(st_data(st_net_find(twin, "7.weight")), st_data(st_net_find(n, "7.weight")));
    assert_ptr_equal(st_data(st_net_find(twin, "1.running_mean")), st_data(st_net_find(n, "1.running_mean")));
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 1, 28, 28));
    st_normal(x, (st_random_key){ 5, 5 }, 0, 1);
    assert_int_equal(train_net(n, 1), 0); /* builds it anew */
    assert_true(same_bytes(st_net_forward(twin, x, ST_PREDICT), st_net_forward(n, x, ST_PREDICT)));
    assert_int_equal(st_net_build(twin, LEARNT, 9), 0);
    assert_true(same_bytes(st_net_forward(twin, x, ST_PREDICT), st_net_forward(n, x, ST_PREDICT)));
    st_net *third = st_net_share(twin, LEARNT);
    assert_true(same_bytes(st_net_forward(third, x, ST_PREDICT), st_net_forward(n, x, ST_PREDICT)));
    st_net_free(third), st_net_free(twin);
    assert_int_equal(st_numel(st_net_parameters(n)), count);
}

TEST(a_shared_net_is_for_inference)
{
    auto_net *n = some_net();
    expect_failure(
        st_net_share(n, 1),
        "st_net_share: a batch of 1 of a net that is not built; expected at least 1, of a built one");
    expect_failure(st_net_share(NULL, 1), "st_net_share: a batch of 1 of a net that is NULL");
    assert_int_equal(st_net_build(n, 2, 1), 0);
    expect_failure(st_net_share(n, 0), "st_net_share: a batch of 0 of a net that is built");
    auto_net *twin = st_net_share(n, 2);
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 1, 28, 28)), dy = st_tensor_new(ST_SHAPE(2, 10));
    assert_false(st_is_null(st_net_forward(twin, x, ST_TRAIN)));
    expect_failure(st_net_backward(twin, dy, (st_tensor){ 0 }),
                   "sequence: it shares parameters with another, and has no gradients");
    expect_failure(train_net(twin, 1),
                   "train: the net shares its parameters with another, and has no gradients");
    assert_true(same_bytes(st_net_parameters(n), st_net_parameters(twin)));
}

/* ---- training ----------------------------------------------------------------------------------- */

typedef struct learner {
    st_net *n;
    uint64_t seed;
    int status;
} learner;

static void *learn(void *context)
{
    learner *l = context;
    l->status = train_net(l->n, l->seed);
    return NULL;
}

TEST(nets_train_at_once_as_they_do_alone)
{
    learner alone[2], at_once[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        alone[i] = (learner){ .n = some_net(), .seed = 3 + (uint64_t)i };
        at_once[i] = (learner){ .n = some_net(), .seed = 3 + (uint64_t)i };
        learn(&alone[i]);
        assert_int_equal(alone[i].status, 0);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, learn, &at_once[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_false(same_bytes(st_net_parameters(alone[0].n), st_net_parameters(alone[1].n)));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(at_once[i].status, 0);
        assert_true(same_bytes(st_net_parameters(at_once[i].n), st_net_parameters(alone[i].n)));
        st_net_free(alone[i].n), st_net_free(at_once[i].n);
    }
}

SETUP(all_work_is_shared)
