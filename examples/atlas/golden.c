/* golden.c: see golden.h. */
#include "examples/atlas/golden.h"
#include "examples/atlas/runs.h"
#include "examples/stride/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the cases, worked out by hand ---------------------------------------------------------------- */

/* clang-format off */
static const signed char a[] = {
    7,4,9,6,6,7, 4,9,3,4,9,5, 5,3,9,7,3,7, 3,6,5,9,6,7, 7,8,3,3,8,3, 6,8,3,5,3,4,
    9,9,7,9,4,6, 6,3,6,3,4,3, 3,9,8,7,7,7, 5,4,6,3,8,7, 3,8,7,6,4,6, 6,6,4,6,6,7 };
static const signed char b[] = {
    6,4,6,9, 4,8,4,8, 4,5,6,5, 5,8,6,6,  5,3,7,8, 6,4,4,7, 6,9,9,7, 7,8,7,6 };
static const double overlapping[] = {
    9,9,9,9, 9,9,9,9, 9,9,9,9, 8,9,9,9,  9,9,9,9, 9,9,8,8, 9,9,8,8, 8,8,8,8 };
static const signed char overlapping_dx[] = {
    0,0,11,0,0,0, 0,6,0,0,6,0, 0,0,12,0,0,0, 0,0,0,11,0,0, 0,3,0,0,0,0, 0,0,0,0,0,0,
    4,6,0,3,0,0, 0,0,0,0,0,0, 0,11,3,0,0,0, 0,0,0,0,5,0, 0,1,0,0,0,0, 0,0,0,0,0,0 };
static const double padded[] = {
    7,9,9,9,9,9,7, 5,9,9,9,9,9,7, 7,8,8,9,9,8,7,  9,9,9,9,9,6,6, 6,9,9,8,8,8,7, 6,8,8,7,8,8,7 };
static const signed char padded_dx[] = {
    1,0,2,0,0,1, 0,3,0,0,4,0, 1,0,1,0,0,1, 0,0,0,2,0,1, 1,2,0,0,1,0, 0,0,0,0,0,0,
    2,1,0,2,0,2, 1,0,0,0,0,0, 0,2,1,0,0,1, 0,0,0,0,4,1, 0,2,1,0,0,0, 1,0,0,0,0,0 };
static const signed char k[] = {
    19,32,28,25,31,49,17,18,  4,19,50,57,29,42, 5, 8, 44,16,54,13,15, 1,58,50, 18,36,29,12,39,45,47,44,
    34,31,17,28,35,62,30,54, 38,50,14,50,25,24,36, 4, 58,27,20,34,55,22,63,59, 61,30,37,24,23,34, 5,16 };
static const double means[] = {
    18.5,40,37.75,12, 28.5,27,25,49.75, 38.25,27.25,36.5,31, 44,28.75,33.5,35.75 };
static const double maxima[] = { 32,57,49,18, 44,54,45,58, 50,50,62,54, 61,37,55,63 };
static const signed char tall[] = {
    40,24,61,60, 8,11,27,5, 17,41,7,41, 44,5,47,13, 31,53,40,36, 31,23,39,26 };
static const double tall_maxima[] = { 40,61, 44,47, 53,40 };
/* clang-format on */

typedef struct golden {
    const char *name;
    ptrdiff_t channels, height, width;
    const signed char *x;
    const double *y;
    const signed char *less; /* the gradient of y is y - less; NULL: it is 1 */
    const signed char *dx;   /* NULL: not looked at */
} golden;

static const golden cases[] = {
    { "max of 3×3, overlapping", 2, 6, 6, a, overlapping, b, overlapping_dx },
    { "max of 3×2, padded by zeros", 2, 6, 6, a, padded, NULL, padded_dx },
    { "means of 2×2", 1, 8, 8, k, means, NULL, NULL },
    { "maxima of 2×2", 1, 8, 8, k, maxima, NULL, NULL },
    { "maxima of 2×2, 6 rows", 1, 6, 4, tall, tall_maxima, NULL, NULL },
};
enum { OVERLAPPING, PADDED, MEANS, MAXIMA, TALL };

/* Layers that have a case, if all of their parameters have that value. */
static const struct {
    int of;
    const char *layer;
    double parameters;
} rows[] = {
    { OVERLAPPING, "maxpool 3 stride=1", 0 },
    { PADDED, "maxpool 3x2 stride=2x1 padding=1 pad_value=zero", 0 },
    { MEANS, "avgpool 2", 0 },
    { MEANS, "adaptive_avgpool 4", 0 },
    { MAXIMA, "maxpool 2", 0 },
    { TALL, "maxpool 2", 0 },
    { MAXIMA, "adaptive_maxpool 4", 0 },
    { TALL, "adaptive_maxpool 3x2", 0 },
    { OVERLAPPING, "mixed_pool 3 stride=1", 1 },
    { MAXIMA, "mixed_pool 2", 1 },
    { MEANS, "mixed_pool 2", 0 },
    { MEANS, "ordinal_pool 2", 0.25 },
    { MEANS, "gem_pool 2", 1 },
    { MEANS, "blur_pool 2", 0 },
    { MEANS, "local_importance_pool 2", 0 },
    { MAXIMA, "fractional_maxpool output_ratio=0.5", 0 },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- one case ------------------------------------------------------------------------------------- */

static st_tensor tensor_of(const signed char *from, st_shape s)
{
    st_tensor t = st_tensor_new(s);
    for (ptrdiff_t i = 0; i < st_numel(t); i++) st_data(t)[i] = from ? (st_real)from[i] : 1;
    return t;
}

/* The gradient of y into dy, and how far y is from what it should be. */
static double compare_y(const golden *g, st_tensor y, st_tensor dy)
{
    double most = 0;
    for (ptrdiff_t i = 0; i < st_numel(y); i++) {
        const double value = (double)st_data(y)[i];
        most = fmax(most, fabs(value - g->y[i]));
        if (g->less) st_data(dy)[i] = (st_real)(value - g->less[i]);
    }
    return most;
}

static double compare_dx(const golden *g, st_tensor dx)
{
    double most = 0;
    for (ptrdiff_t i = 0; i < st_numel(dx); i++) most = fmax(most, fabs((double)st_data(dx)[i] - g->dx[i]));
    return most;
}

static void measure(st_net *n, const golden *g, json_t *row)
{
    st_tensor x = tensor_of(g->x, st_shape_with_batch(n->input, 1)), dx = tensor_of(NULL, x.shape);
    const st_tensor y = st_net_forward(n, x, ST_TRAIN);
    st_tensor dy = tensor_of(NULL, y.shape);
    if (!st_error()) {
        json_object_set_new(row, "y", json_real(compare_y(g, y, dy)));
        st_net_backward(n, dy, dx);
        json_object_set_new(row, "dx", g->dx ? json_real(compare_dx(g, dx)) : json_null());
    }
    st_tensor_free(x);
    st_tensor_free(dx);
    st_tensor_free(dy);
}

static json_t *run_row(int i)
{
    const golden *g = &cases[rows[i].of];
    json_t *row = json_pack("{s:s, s:s}", "layer", rows[i].layer, "case", g->name);
    if (!run_is_possible(rows[i].layer)) {
        json_object_set_new(row, "missing", json_true());
        return row;
    }
    st_net *n = network_parse(rows[i].layer, ST_SHAPE(g->channels, g->height, g->width));
    if (n && st_net_build(n, 1, 1) == 0) {
        st_tensor all = st_net_parameters(n);
        if (st_numel(all) > 0) st_fill(all, (st_real)rows[i].parameters);
        measure(n, g, row);
    }
    st_net_free(n);
    return row;
}

json_t *golden_run(void)
{
    json_t *list = json_array();
    for (int i = 0; i < ROWS && !st_error(); i++) {
        json_array_append_new(list, run_row(i));
        if (st_error()) st_error_within("%s: ", rows[i].layer);
    }
    if (!st_error()) return list;
    json_decref(list);
    return NULL;
}
