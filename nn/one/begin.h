/* stride.h: Stride VERSION, a minimal neural-network framework, in two files: this header and stride.c.
 *
 * Copy both into a program, include this one, and compile the other with it:
 *
 *     cc -O3 main.c stride.c -lm -lpthread
 *
 * The top of stride.c says what a build may leave out. ST_DOUBLE, defined for both files, makes the
 * elements of tensors double instead of float, as libstride-double does. The sections of this file begin
 * with the names of the headers that they were, such as nn/train.h; docs/ is a folder of the project.
 *
 * A network that learns digits, and is saved:
 *
 *     #include "stride.h"
 *     #include <stdio.h>
 *     int main(void)
 *     {
 *         st_net *net =
 *             st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 8, .kernel = { 5 }), st_relu(),
 *                        st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));
 *         st_optim *adam = st_adam(.lr = 0.003);
 *         st_train(net, st_digits(6000, 1), .epochs = 2, .loss = st_cross_entropy(), .optim = adam,
 *                  .callbacks = { st_progress(stderr) });
 *         st_net_save(net, "digits.safetensors");
 *         return st_error() ? puts(st_error()), 1 : 0;
 *     }
 *
 * A layer of one's own, y = w x³, whose gradients are checked (compile with -DST_DOUBLE):
 *
 *     #include "stride.h"
 *     #include <stdio.h>
 *     static int plan(st_layer *l, st_shape x, st_shape *y)
 *     {
 *         *y = x;
 *         return st_layer_parameter(l, "weight", ST_SHAPE(1), (st_init){ .constant = 2 });
 *     }
 *     static void forward(const st_call *c, st_tensor x, st_tensor y)
 *     {
 *         st_copy(y, x), st_mul(y, x), st_mul(y, x), st_scale(y, *st_data(c->param[0]));
 *     }
 *     static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
 *     {
 *         (void)y, st_copy(dx, dy), st_mul(dx, x), st_mul(dx, x), st_scale(dx, 3 * *st_data(c->param[0]));
 *     }
 *     static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
 *     {
 *         (void)x;
 *         for (ptrdiff_t i = 0; i < st_numel(y); i++)
 *             *st_data(st_grad(c, 0)) += st_data(y)[i] * st_data(dy)[i] / *st_data(c->param[0]);
 *     }
 *     static const st_layer_type cube = {
 *         .name = "cube", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
 *     };
 *     int main(void)
 *     {
 *         st_layer *l = st_layer_new(&cube, NULL, 0, NULL);
 *         st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(2, 5), (st_gradcheck_options){ 0 });
 *         puts(st_error() ? st_error() : r.text);
 *         return !r.passed;
 *     }
 *
LICENSE */
#ifndef STRIDE_H
#define STRIDE_H

#if defined(ST_DOUBLE) && !defined(STRIDE_DOUBLE)
#define STRIDE_DOUBLE
#endif
