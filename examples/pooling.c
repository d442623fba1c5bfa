/* pooling.c: a pooling layer made from a function on one window, forward and backward. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

/* ---- the function: the maximum; its adjoint gives dy to the first place that holds it -------------- */

static st_real window_max(const st_window *w)
{
    st_real most = w->x[0];
    for (ptrdiff_t i = 1; i < w->n; i++)
        if (w->x[i] > most) most = w->x[i];
    return most;
}

static void window_max_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    bool given = false;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        dx[i] = !given && w->x[i] == y ? dy : 0;
        given = given || w->x[i] == y;
    }
}

static const st_layer_type maximum =
    ST_POOLING("maximum", .value = window_max, .adjoint = window_max_adjoint);

/* ---- the layer at work ----------------------------------------------------------------------------- */

static void show(const char *what, st_tensor x)
{
    printf("%s %s\n", what, st_shape_text(x.shape).text);
    st_print(stdout, x);
    printf("\n\n");
}

/* Runs the layer on one batch; the gradient of its output is y - b, or ones where b is null. */
static int run(st_layer *l, st_tensor a, st_tensor b)
{
    if (!l || st_layer_build(l, a.shape, 0)) return -1;
    char name[256];
    st_layer_describe(l, name, sizeof name);
    printf("---- %s\n\n", name);
    st_tensor y = st_tensor_new(l->y), dy = st_tensor_new(l->y), da = st_tensor_new(a.shape);
    st_layer_mode(l, true, 0, 0);
    st_layer_forward(l, a, y);
    if (st_is_null(b)) {
        st_fill(dy, 1);
    } else {
        st_copy(dy, y);
        st_add(dy, -1, b);
    }
    st_layer_backward(l, a, y, dy, da);
    show("y", y);
    show(st_is_null(b) ? "the gradient of a for a gradient of ones"
                       : "the gradient of a for a gradient y - b",
         da);
    st_tensor_free(y);
    st_tensor_free(dy);
    st_tensor_free(da);
    return st_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    static st_real a_data[] = { 7, 4, 9, 6, 6, 7, 4, 9, 3, 4, 9, 5, 5, 3, 9, 7, 3, 7, 3, 6, 5, 9, 6, 7,
                                7, 8, 3, 3, 8, 3, 6, 8, 3, 5, 3, 4, 9, 9, 7, 9, 4, 6, 6, 3, 6, 3, 4, 3,
                                3, 9, 8, 7, 7, 7, 5, 4, 6, 3, 8, 7, 3, 8, 7, 6, 4, 6, 6, 6, 4, 6, 6, 7 };
    static st_real b_data[] = { 6, 4, 6, 9, 4, 8, 4, 8, 4, 5, 6, 5, 5, 8, 6, 6,
                                5, 3, 7, 8, 6, 4, 4, 7, 6, 9, 9, 7, 7, 8, 7, 6 };
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs("usage: pooling\n\nPools with a function of the program's own, forward and backward.\n",
              help ? stdout : stderr);
        return !help ? 2 : fflush(stdout) ? (perror("pooling: stdout"), 1) : 0;
    }
    st_tensor a = st_tensor_wrap(a_data, ST_SHAPE(1, 2, 6, 6)),
              b = st_tensor_wrap(b_data, ST_SHAPE(1, 2, 4, 4));
    st_layer *overlapping = st_pool(&maximum, .kernel = { 3, 3 }, .stride = { 1, 1 });
    st_layer *padded = st_pool(&maximum, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 });
    show("a", a);
    int status = run(overlapping, a, b) || run(padded, a, (st_tensor){ 0 });
    st_layer_free(overlapping);
    st_layer_free(padded);
    st_tensor_free(a);
    st_tensor_free(b);
    if (status) fprintf(stderr, "pooling: %s\n", st_error());
    if (fflush(stdout)) perror("pooling: stdout"), status = -1;
    return status ? 1 : 0;
}
