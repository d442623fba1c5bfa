/* test_threads.c: nets in several threads of one program, and in its children. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support.h"

#include "nn/data/digits.h"
#include "nn/train.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BATCH = 5, LEARNT = 20 }; /* images of a batch that is predicted, or learnt from */

static net *some_net(void)
{
    net *n = net_new(
        SHAPE(1, 28, 28),
        layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 5, 5 }, .stride = { 2, 2 } }),
        layer_batchnorm((batchnorm){ 0 }), layer_relu(),
        layer_residual(layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 3, 3 }, .padding = { 1, 1 } })),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_dropout(0.5), layer_flatten(),
        layer_dense((dense){ .out_features = 10 }));
    assert_non_null(n);
    return n;
}

static data *drawn;

static void draw(void)
{
    drawn = digits_new(60, 1);
}

/* Drawn when they are first asked for: a child may come before, which is work that threads share, too. */
static const data *digits(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw);
    return drawn;
}

static int train_net(net *n, uint64_t seed)
{
    optim *o = optim_sgd((sgd){ .lr = 0.05, .momentum = 0.9 });
    int status =
        train_run(n, digits(),
                  (train){ .loss = loss_cross_entropy(0), .optim = o, .batch = LEARNT, .seed = seed }, NULL);
    optim_free(o);
    return status;
}

static bool same_bytes(tensor a, tensor b)
{
    return tensor_count(a) == tensor_count(b) &&
           memcmp(tensor_data(a), tensor_data(b), (size_t)tensor_count(a) * sizeof(real)) == 0;
}

/* ---- inference ---------------------------------------------------------------------------------- */

typedef struct caller {
    net *n;
    tensor x, expected; /* [count, ...] */
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
        tensor y = net_forward(c->n, tensor_narrow(c->x, 0, first, count), k % 2 ? NET_INFER : NET_PREDICT);
        c->wrong += tensor_is_null(y) || !same_bytes(y, tensor_narrow(c->expected, 0, first, count));
    }
    return NULL;
}

/* In a batch of any size an image's output is the same. */
static void threads_that_share_a_net_see_the_same(void **state)
{
    enum { IMAGES = 23 };
    const char *fast = getenv("STRIDE_FAST");
    int calls = fast && fast[0] ? 100 : 10000 / THREADS;
    net *n = some_net();
    assert_int_equal(train_net(n, 1), 0);
    tensor x = tensor_new(SHAPE(IMAGES, 1, 28, 28)), y = tensor_new(SHAPE(IMAGES)),
           expected = tensor_new(SHAPE(IMAGES, 10));
    assert_int_equal(data_batch(digits(), NULL, 0, IMAGES, x, y), 0);
    for (ptrdiff_t i = 0; i < IMAGES; i++)
        tensor_copy(tensor_narrow(expected, 0, i, 1), net_forward(n, tensor_narrow(x, 0, i, 1), NET_INFER));

    caller c[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = (caller){ net_share(n, BATCH), x, expected, calls, 0 };
        assert_non_null(c[i].n);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, predict, &c[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(c[i].wrong, 0);
        net_free(c[i].n);
    }
    net_free(n), tensor_free(x), tensor_free(y), tensor_free(expected);
}

static void what_is_shared_is_followed(void **state)
{
    net *n = some_net();
    assert_int_equal(net_build(n, BATCH, 1), 0);
    net *twin = net_share(n, LEARNT);
    ptrdiff_t count = tensor_count(net_parameters(n));
    assert_ptr_equal(tensor_data(net_parameters(twin)), tensor_data(net_parameters(n)));
    assert_ptr_equal(tensor_data(net_find(twin, "7.weight")), tensor_data(net_find(n, "7.weight")));
    assert_ptr_equal(tensor_data(net_find(twin, "1.running_mean")),
                     tensor_data(net_find(n, "1.running_mean")));
    tensor x = tensor_new(SHAPE(1, 1, 28, 28));
    tensor_normal(x, (random_key){ 5, 5 }, 0, 1);
    assert_int_equal(train_net(n, 1), 0); /* builds it anew */
    assert_true(same_bytes(net_forward(twin, x, NET_PREDICT), net_forward(n, x, NET_PREDICT)));
    assert_int_equal(net_build(twin, LEARNT, 9), 0);
    assert_true(same_bytes(net_forward(twin, x, NET_PREDICT), net_forward(n, x, NET_PREDICT)));
    net *third = net_share(twin, LEARNT);
    assert_true(same_bytes(net_forward(third, x, NET_PREDICT), net_forward(n, x, NET_PREDICT)));
    net_free(third), net_free(twin);
    assert_int_equal(tensor_count(net_parameters(n)), count);
    net_free(n), tensor_free(x);
}

static void a_shared_net_is_for_inference(void **state)
{
    net *n = some_net();
    assert_null(net_share(n, 1));
    expect_error("net_share: a batch of 1 of a net that is not built; expected at least 1, of a built one");
    assert_null(net_share(NULL, 1));
    expect_error("net_share: a batch of 1 of a net that is NULL");
    assert_int_equal(net_build(n, 2, 1), 0);
    assert_null(net_share(n, 0));
    expect_error("net_share: a batch of 0 of a net that is built");
    net *twin = net_share(n, 2);
    tensor x = tensor_new(SHAPE(2, 1, 28, 28)), dy = tensor_new(SHAPE(2, 10));
    assert_false(tensor_is_null(net_forward(twin, x, NET_TRAIN)));
    assert_int_equal(net_backward(twin, dy, (tensor){ 0 }), -1);
    expect_error("net_backward: a net that shares parameters has no gradients");
    assert_int_equal(train_net(twin, 1), -1);
    expect_error("train: the net shares its parameters with another, and has no gradients");
    layer_reset(twin->root, 7);
    assert_true(same_bytes(net_parameters(n), net_parameters(twin)));
    net_free(twin), net_free(n), tensor_free(x), tensor_free(dy);
}

/* ---- training ----------------------------------------------------------------------------------- */

typedef struct learner {
    net *n;
    uint64_t seed;
    int status;
    char error[ERROR_SIZE];
} learner;

static void *learn(void *context)
{
    learner *l = context;
    l->status = train_net(l->n, l->seed);
    snprintf(l->error, sizeof l->error, "%s", error_text() ? error_text() : "");
    error_clear();
    return NULL;
}

static void nets_train_at_once_as_they_do_alone(void **state)
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
    assert_false(same_bytes(net_parameters(alone[0].n), net_parameters(alone[1].n)));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(at_once[i].status, 0);
        assert_true(same_bytes(net_parameters(at_once[i].n), net_parameters(alone[i].n)));
        net_free(alone[i].n), net_free(at_once[i].n);
    }
}

static void an_error_stays_in_its_thread(void **state)
{
    pthread_t thread;
    net *wrong = net_new(SHAPE(2), layer_dense((dense){ .out_features = 10 }));
    learner l = { .n = wrong, .seed = 1 };
    assert_int_equal(pthread_create(&thread, NULL, learn, &l), 0);
    pthread_join(thread, NULL);
    assert_int_equal(l.status, -1);
    assert_non_null(strstr(l.error, "train: the training set has samples [1, 28, 28], the net takes [2]"));
    assert_null(error_text());
    net_free(wrong);
}

/* ---- children ----------------------------------------------------------------------------------- */

/* What a child that trains a net comes to. */
static int child_that_trains(tensor expected)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        net *n = some_net();
        alarm(60);
        _exit(train_net(n, 1) ? 2 : !same_bytes(net_parameters(n), expected));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Its threads are the parent's alone: a child of one that has some works with one. */
static void a_child_works_as_its_parent_does(void **state)
{
    net *n = some_net();
    assert_int_equal(train_net(n, 1), 0);
    assert_int_equal(child_that_trains(net_parameters(n)), 0);
    net *again = some_net();
    assert_int_equal(train_net(again, 1), 0);
    assert_true(same_bytes(net_parameters(n), net_parameters(again)));
    net_free(n), net_free(again);
}

/* As long as nothing has been shared, neither has threads; both then have their own. */
static void a_child_from_before_all_work_does_the_same(void **state)
{
    net *n = some_net();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        bool good = train_net(n, 1) == 0;
        const char *at = (const char *)tensor_data(net_parameters(n));
        for (size_t left = (size_t)tensor_count(net_parameters(n)) * sizeof(real); good && left > 0;) {
            ssize_t written = write(ends[1], at, left);
            good = written > 0;
            at += good ? written : 0, left -= good ? (size_t)written : 0;
        }
        _exit(!good);
    }
    close(ends[1]);
    assert_int_equal(train_net(n, 1), 0);
    tensor theirs = tensor_new(net_parameters(n).shape);
    FILE *from = fdopen(ends[0], "rb");
    size_t count = (size_t)tensor_count(theirs);
    assert_int_equal(fread(tensor_data(theirs), sizeof(real), count, from), count);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(same_bytes(theirs, net_parameters(n)));
    fclose(from), net_free(n), tensor_free(theirs);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(a_child_from_before_all_work_does_the_same), /* before the others work */
        CLAIM(threads_that_share_a_net_see_the_same),
        CLAIM(what_is_shared_is_followed),
        CLAIM(a_shared_net_is_for_inference),
        CLAIM(nets_train_at_once_as_they_do_alone),
        CLAIM(an_error_stays_in_its_thread),
        CLAIM(a_child_works_as_its_parent_does),
    };
    share_all_work();
    int failed = cmocka_run_group_tests(claims, NULL, NULL);
    data_free(drawn);
    return failed;
}
