/* own.c: the examples in the headers' comments, which test_own.sh copies to NAME.function.h and NAME.use.h,
 * at work. */
#include <math.h>
#include <stdio.h>
#include <stride.h>

#include "inverse_root.function.h"
#include "line.function.h"
#include "lion_step.function.h"
#include "pinball.function.h"
#include "power_mean.function.h"
#include "average.function.h"

static int failed;

static void claim(const char *what, int holds)
{
    printf("%s %s\n", holds && !st_error() ? "ok" : "not ok", what);
    if (st_error()) printf("%s\n", st_error());
    failed |= !holds || st_error();
    st_error_clear();
}

/* Tensors of st_tensor_wrap, freed at the end. */
static st_tensor wrapped[16];
static int wrappers;

static st_tensor wrap(st_real *data, st_shape s)
{
    return wrapped[wrappers++] = st_tensor_wrap(data, s);
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

/* The quantile 0.75 costs 0.75 for each unit below a target, and 0.25 for each above. */
static void a_loss(void)
{
    st_real outputs[] = { 1, 4 }, targets[] = { 3, 2 }, slopes[2];
    st_tensor y = wrap(outputs, ST_SHAPE(2, 1)), target = wrap(targets, ST_SHAPE(2, 1));
#include "pinball.use.h"
    double value = st_loss_value(l, y, target, wrap(slopes, ST_SHAPE(2, 1)));
    claim("the pinball loss", near(value, 1) && near(slopes[0], -0.375) && near(slopes[1], 0.125));
}

/* The first step of Lion is lr times the gradient's sign. */
static void an_optimizer(void)
{
    st_real w[] = { 1, 1, 1 }, g[] = { 2, -3, 0 };
#include "lion_step.use.h"
    st_optim_step(o, o->lr, wrap(w, ST_SHAPE(3)), wrap(g, ST_SHAPE(3)));
    claim("Lion as an optimizer", w[0] == (st_real)0.75 && w[1] == (st_real)1.25 && w[2] == 1);
    st_optim_free(o);
}

static void a_schedule(void)
{
#include "inverse_root.use.h"
    claim("a schedule", near(st_schedule_factor(&s, 12, 100, 10), 0.5));
}

static void a_pooling_function(void)
{
    st_real pixels[] = { 1, 1, 5, 5 };
#include "power_mean.use.h"
    st_net *n = st_net_new(ST_SHAPE(1, 2, 2), l);
    st_net_build(n, 1, 1);
    st_tensor y = st_net_forward(n, wrap(pixels, ST_SHAPE(1, 1, 2, 2)), ST_EVAL);
    claim("a pooling function", near(st_item(y), cbrt(63)));
    st_net_free(n);
}

/* One step of SGD moves w by lr times the gradient, and the average by a tenth of that. */
static void a_data_set_and_a_callback(void)
{
    double slope = 2;
    st_tensor mean;
#include "line.use.h"
#include "average.use.h"
    st_net *n = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1)),
           *other = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1));
    st_optim *sgd = st_sgd(.lr = 0.001);
    st_net_build(n, 10, 1), st_net_build(other, 10, 1);
    st_real before = *st_at(st_net_parameters(n), ST_INDEX(0));
    st_train(n, d, .batch = 10, .loss = st_mse(), .optim = sgd, .callbacks = { ema });
    st_train(other, d, .batch = 10, .loss = st_mse(), .optim = sgd);
    st_real averaged = *st_at(st_net_parameters(n), ST_INDEX(0)),
            moved = *st_at(st_net_parameters(other), ST_INDEX(0));
    claim("a data set and a callback that keeps a moving average",
          moved != before && near(averaged, before + 0.1 * (moved - before)));
    st_net_free(n), st_net_free(other), st_dataset_free(d), st_optim_free(sgd);
}

int main(void)
{
    a_loss();
    an_optimizer();
    a_schedule();
    a_pooling_function();
    a_data_set_and_a_callback();
    while (wrappers > 0) st_tensor_free(wrapped[--wrappers]);
    return failed;
}
