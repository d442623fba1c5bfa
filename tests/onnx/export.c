/* export.c: nets as files of ONNX, each with images and what st_net_predict makes of them.
 *
 *     export FOLDER MODEL
 *
 * writes NAME.onnx, and NAME.x and NAME.y, the numbers alone, for each layer's samples and for MODEL, which
 * `mnist` has trained, on all test images. A line of stdout says of each what runtime.js needs to know. */
#include "examples/stride/mnist.h"
#include <stride.h>
#include "tests/onnx/samples.h"

#include <string.h>

static const char *folder;

static int write_numbers(const char *name, const char *ending, st_tensor x)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    FILE *to = fopen(path, "wb");
    size_t count = (size_t)st_numel(x);
    bool written = to && fwrite(st_data(x), sizeof(st_real), count, to) == count;
    return to && fclose(to) == 0 && written ? 0 : st_error_set("%s cannot be written", path);
}

/* A JSON object; `title` is what people read. */
static int export(const char *name, const char *title, st_net *n, st_tensor x, ptrdiff_t full)
{
    char path[1024];
    st_tensor y = st_tensor_new(st_shape_with_batch(n->output, x.shape.n[0]));
    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    if (!st_is_null(y) && st_net_predict(n, x, y) == 0 && st_net_export_onnx(n, path) == 0 &&
        write_numbers(name, "x", x) == 0 && write_numbers(name, "y", y) == 0)
        printf("{\"name\": \"%s\", \"title\": \"%s\", \"full\": %td, \"x\": %s, \"y\": %s}\n", name, title,
               full, st_shape_text(x.shape).text, st_shape_text(y.shape).text);
    st_tensor_free(y);
    return st_error() ? -1 : 0;
}

static void export_sample(const char *title, st_shape image, st_layer *l, const char *refusal, void *context)
{
    int *failed = context;
    char name[128] = "";
    if (refusal) {
        st_layer_free(l);
        return;
    }
    st_net *n = sample_net(image, l);
    st_tensor x = sample_images(image);
    strncat(name, title, sizeof name - 1);
    for (char *c = name; *c; c++)
        if (*c == ' ') *c = '-';
    if (n && !st_is_null(x)) export(name, title, n, x, SAMPLE_BATCH);
    if (st_error()) {
        printf("{\"title\": \"%s\", \"error\": \"%s\"}\n", title, st_error());
        st_error_clear();
        ++*failed;
    }
    st_tensor_free(x), st_net_free(n);
}

static int export_mnist(const char *model)
{
    enum { BATCH = 1000 };
    mnist digits = { 0 };
    char title[128];
    st_net *n = st_net_load(model, .batch = BATCH);
    if (!n || mnist_find(&digits, stderr)) {
        st_net_free(n);
        return -1;
    }
    ptrdiff_t images = digits.test->count;
    st_tensor x = st_tensor_new(st_shape_with_batch(digits.test->x, images)),
              class = st_tensor_new(ST_SHAPE(images));
    snprintf(title, sizeof title, "the trained MNIST net on %td test images of %s", images, digits.source);
    if (st_dataset_batch(digits.test, NULL, 0, images, x, class) == 0) export("mnist", title, n, x, BATCH);
    st_tensor_free(x), st_tensor_free(class), mnist_free(&digits), st_net_free(n);
    return st_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc != 3) {
        fputs("usage: export FOLDER MODEL\n", stderr);
        return 2;
    }
    folder = argv[1];
    samples_visit(export_sample, &failed);
    if (export_mnist(argv[2])) {
        printf("{\"title\": \"the trained MNIST net\", \"error\": \"%s\"}\n", st_error());
        failed++;
    }
    return failed > 0;
}
