/* callbacks.c: two callbacks of the library, which find a learning rate and average the weights, and one
 * of the program's own, which ends the run in the middle of an epoch. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

/* ---- a callback of the program's own: ends the run when the loss is low enough ---------------------- */

typedef struct target {
    double loss, smoothed; /* the loss to reach; the mean of the batches' losses, recent ones counting most */
    long step;             /* at which it was reached, of its epoch; 0: not reached */
    long steps;            /* of an epoch */
} target;

static void stop_at_target(st_callback *self, st_run *run, st_event event)
{
    target *t = self->context;
    if (event == ST_ON_BEGIN) t->smoothed = -1;
    if (event != ST_ON_STEP) return;
    t->smoothed = t->smoothed < 0 ? run->loss : 0.8 * t->smoothed + 0.2 * run->loss;
    if (t->smoothed > t->loss) return;
    run->stop = true;
    t->step = run->report.batch;
    t->steps = run->report.batches;
}

/* ---- runs ------------------------------------------------------------------------------------------- */

/* A learning rate at which the loss falls steeply; 0 with an error. The net keeps its parameters. */
static double find_rate(st_net *n, const st_dataset *digits)
{
    double rate = 0;
    st_optim *sgd = st_sgd(.lr = 1e-4, .momentum = 0.9);
    st_train(n, digits, .optim = sgd, .loss = st_cross_entropy(), .epochs = 10, .batch = 32, .seed = 1,
             .callbacks = { st_lr_finder(.lr = &rate, .least = 1e-4) });
    st_optim_free(sgd);
    return rate;
}

/* Trains at the rate found until the target is reached. With `average` the parameters end as a moving
 * average. */
static int learn(st_net *n, const st_dataset *digits, double rate, bool average, target *t)
{
    st_optim *sgd = st_sgd(.lr = rate, .momentum = 0.9);
    st_train(n, digits, .optim = sgd, .loss = st_cross_entropy(), .epochs = 20, .batch = 32, .seed = 1,
             .callbacks = { { "target", stop_at_target, t },
                            average ? st_ema(.decay = 0.9) : (st_callback){ 0 } });
    st_optim_free(sgd);
    return st_error() ? -1 : 0;
}

/* The same run twice, from the same initial parameters. */
static int compare(const st_dataset *digits, const st_dataset *others)
{
    for (int average = 0; average < 2 && !st_error(); average++) {
        st_metrics score;
        target t = { .loss = 0.25 };
        st_net *n = st_net_new(digits->x, st_flatten(), st_dense(.out_features = 32), st_relu(),
                               st_dense(.out_features = 10));
        double rate = find_rate(n, digits);
        if (!st_error() && !average) printf("learning rate: %.2g\n", rate);
        if (!st_error() && learn(n, digits, rate, average, &t) == 0 &&
            st_evaluate(n, others, st_cross_entropy(), &score) == 0) {
            if (!average && t.step) printf("stopped after step %ld of %ld of an epoch\n", t.step, t.steps);
            printf("%s: accuracy %.3f, loss %.3f\n", average ? "average of the weights" : "last weights",
                   score.accuracy, score.loss);
        }
        st_net_free(n);
    }
    return st_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs("usage: callbacks\n\nTrains a net on drawn digits with callbacks: a learning-rate finder, a "
              "moving average\nof the weights, and one of the program's own that ends the run.\n",
              help ? stdout : stderr);
        return !help ? 2 : fflush(stdout) ? (perror("callbacks: stdout"), 1) : 0;
    }
    st_dataset *digits = st_digits(1000, 1), *others = st_digits(500, 2);
    int status = compare(digits, others);
    st_dataset_free(digits);
    st_dataset_free(others);
    if (status) fprintf(stderr, "callbacks: %s\n", st_error());
    if (fflush(stdout)) perror("callbacks: stdout"), status = -1;
    return status ? 1 : 0;
}
