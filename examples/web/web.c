/* web.c: the net behind the page. Compiled by emscripten, the functions that page.html calls; by another
 * compiler, a program that saves the untrained net: the page writes files with the same header. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

enum { BATCH = 16, PIXELS = 28 * 28, CLASSES = 10, MAPS = 6 };

static st_net *lenet(void)
{
    st_net *n = st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = MAPS, .kernel = { 5, 5 }, .padding = { 2, 2 }),
        st_relu(), st_maxpool(.kernel = { 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }),
        st_relu(), st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 120), st_relu(),
        st_dense(.out_features = 84), st_relu(), st_dense(.out_features = CLASSES));
    st_net_build(n, BATCH, 1);
    return n;
}

#ifdef __EMSCRIPTEN__

#include <emscripten.h>

static st_net *net, *first; /* LeNet; and its first layer, for its feature maps */
static st_tensor image;
static float seen[CLASSES + MAPS * PIXELS]; /* logits, then feature maps */

/* Module.report is set by who trains. An accuracy below 0: the epoch has not ended. */
EM_JS(void, report, (int step, int steps, double loss, double speed, double accuracy),
      { Module.report(step, steps, loss, speed, accuracy); });

/* Makes the net, and returns where its parameters are. */
EMSCRIPTEN_KEEPALIVE float *web_begin(void)
{
    net = lenet();
    first = st_net_new(net->input, st_conv2d(.out_channels = MAPS, .kernel = { 5, 5 }, .padding = { 2, 2 }),
                       st_relu());
    st_net_build(first, 1, 1);
    image = st_tensor_new(st_shape_with_batch(net->input, 1));
    return st_data(st_net_parameters(net));
}

EMSCRIPTEN_KEEPALIVE float *web_image(void)
{
    return st_data(image);
}

/* Classifies the image: see `seen`. */
EMSCRIPTEN_KEEPALIVE float *web_see(void)
{
    const st_tensor own = st_net_parameters(first);
    st_copy(own, st_narrow(st_net_parameters(net), 0, 0, st_numel(own)));
    st_tensor y = st_net_forward(net, image, ST_PREDICT), maps = st_net_forward(first, image, ST_PREDICT);
    if (st_error()) return NULL;
    memcpy(seen, st_data(y), CLASSES * sizeof *seen);
    memcpy(seen + CLASSES, st_data(maps), MAPS * PIXELS * sizeof *seen);
    return seen;
}

/* Makes a drawn digit the image. */
EMSCRIPTEN_KEEPALIVE void web_draw(int seed)
{
    st_dataset *d = st_digits(1, (uint64_t)seed);
    st_tensor digit = st_tensor_new(ST_SHAPE(1));
    st_dataset_batch(d, NULL, 0, 1, image, digit);
    st_tensor_free(digit);
    st_dataset_free(d);
}

static void tell(st_callback *self, st_run *run, st_event event)
{
    (void)self;
    const double speed = run->report.samples_per_second;
    if (event == ST_ON_STEP) report((int)run->report.step, (int)run->report.steps, run->loss, speed, -1);
    if (event == ST_ON_EPOCH)
        report((int)run->report.step, (int)run->report.steps, run->report.validation.loss, speed,
               run->report.validation.accuracy);
}

EMSCRIPTEN_KEEPALIVE int web_train(int seed)
{
    st_dataset *training = st_digits(6000, (uint64_t)seed), *validation = st_digits(1000, (uint64_t)seed + 1);
    st_optim *adam = st_adam(.lr = 0.004);
    int status =
        st_train(net, training, .epochs = 4, .batch = BATCH, .loss = st_cross_entropy(), .optim = adam,
                 .schedule = st_one_cycle_lr(), .validation = validation, .callbacks = { { "tell", tell } });
    st_optim_free(adam);
    st_dataset_free(training), st_dataset_free(validation);
    return status;
}

EMSCRIPTEN_KEEPALIVE const char *web_error(void)
{
    return st_error() ? st_error() : "";
}

#else

int main(int count, char **path)
{
    st_net *n = lenet();
    int status = count == 2 ? st_net_save(n, path[1]) : -1;
    if (status) fprintf(stderr, "%s\n", st_error() ? st_error() : "usage: web FILE.safetensors");
    st_net_free(n);
    return status ? 1 : 0;
}

#endif
