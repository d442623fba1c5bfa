/* dnnl_peer.c: oneDNN's side of a benchmark; stride_peer.c says in which words.
 *
 *   dnnl_peer [direct|nhwc|blocked|winograd]
 *
 * oneDNN chooses the layout of its arrays if it may; the conversion from and to a layout of ours is not
 * counted. Pooling and the like take what layout they are given: N, C, H, W unless the argument says
 * otherwise. Convolutions are computed directly, or with `winograd` as oneDNN thinks best, which is
 * Winograd's way where it has one. What a setting does not change is answered under `direct` alone. Compiles
 * with versions 2 and 3. */
#include "tests/bench/outline.h"
#include "tests/bench/timing.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256, NUMBERS = 8, ARGUMENTS = 16 };

typedef enum pass { FORWARD, BACKWARD, GRADIENT } pass;

/* One primitive and the arrays it works on. */
typedef struct job {
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t argument[ARGUMENTS];
    int arguments;
} job;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_format_tag_t layout = dnnl_nchw;
static dnnl_alg_kind_t algorithm = dnnl_convolution_direct;

/* ---- versions ------------------------------------------------------------------------------------ */

/* FORWARD_OF and BACKWARD_OF create the description `to` of a primitive: version 2 wants its operation
 * described first. Version 3 wants a dilation behind some extents, and an array for x, y, dx and dy each
 * where version 2 takes one for two of the same shape. Arrays are described one after the other in a ring,
 * since a primitive keeps its own copies. */
static int array_count;
#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *array;
static dnnl_memory_desc_t arrays[ARGUMENTS];
static union {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t dense;
    dnnl_pooling_desc_t pooling;
    dnnl_eltwise_desc_t eltwise;
    dnnl_batch_normalization_desc_t normalization;
} operation;

static array make_array(int rank, const dnnl_dims_t size, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t *made = &arrays[array_count++ % ARGUMENTS];
    memset(made, 0, sizeof *made);
    dnnl_memory_desc_init_by_tag(made, rank, size, dnnl_f32, tag);
    return made;
}

static bool is_float(array a)
{
    return a->data_type == dnnl_f32;
}

static int axes_of(array a, dnnl_dims_t size)
{
    memcpy(size, a->dims, sizeof(dnnl_dims_t));
    return a->ndims;
}

#define DESCRIBE(name, forward, ...)                                                                         \
    (dnnl_##name##_desc_init((void *)&operation, __VA_ARGS__)                                                \
         ? dnnl_invalid_arguments                                                                            \
         : dnnl_primitive_desc_create(to, &operation, NULL, engine, forward))
#define FORWARD_OF(name, ...) DESCRIBE(name, NULL, __VA_ARGS__)
#define BACKWARD_OF(name, ...) DESCRIBE(name, forward, __VA_ARGS__)
#define UNDILATED(extents) extents
#define TWICE(a) a
#else
typedef const_dnnl_memory_desc_t array;
static dnnl_memory_desc_t arrays[ARGUMENTS];
static const dnnl_dims_t no_dilation;

static array make_array(int rank, const dnnl_dims_t size, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t *made = &arrays[array_count++ % ARGUMENTS];
    if (*made) dnnl_memory_desc_destroy(*made);
    dnnl_memory_desc_create_with_tag(made, rank, size, dnnl_f32, tag);
    return *made;
}

static bool is_float(array a)
{
    dnnl_data_type_t type;
    return !dnnl_memory_desc_query(a, dnnl_query_data_type, &type) && type == dnnl_f32;
}

static int axes_of(array a, dnnl_dims_t size)
{
    int count = 0;
    const dnnl_dims_t *of = NULL;
    if (dnnl_memory_desc_query(a, dnnl_query_ndims_s32, &count) ||
        dnnl_memory_desc_query(a, dnnl_query_dims, (void *)&of))
        return 0;
    memcpy(size, *of, sizeof(dnnl_dims_t));
    return count;
}

#define FORWARD_OF(name, ...) dnnl_##name##_primitive_desc_create(to, engine, __VA_ARGS__, NULL)
#define BACKWARD_OF(name, ...) dnnl_##name##_primitive_desc_create(to, engine, __VA_ARGS__, forward, NULL)
#define UNDILATED(extents) extents, no_dilation
#define TWICE(a) a, a
#endif

/* ---- jobs ---------------------------------------------------------------------------------------- */

/* Everything that a primitive may read or write. */
static const int roles[] = { DNNL_ARG_SRC,      DNNL_ARG_DST,       DNNL_ARG_WEIGHTS,     DNNL_ARG_BIAS,
                             DNNL_ARG_MEAN,     DNNL_ARG_VARIANCE,  DNNL_ARG_WORKSPACE,   DNNL_ARG_DIFF_SRC,
                             DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_WEIGHTS };

/* The forward pass's array, if it has the same layout. */
static dnnl_memory_t left_by(const job *forward, int role, array wanted)
{
    for (int i = 0; forward && i < forward->arguments; i++) {
        array had;
        dnnl_memory_get_memory_desc(forward->argument[i].memory, &had);
        if (forward->argument[i].arg == role && dnnl_memory_desc_equal(had, wanted))
            return forward->argument[i].memory;
    }
    return NULL;
}

static dnnl_memory_t random_memory(array wanted)
{
    dnnl_memory_t memory;
    void *data;
    if (dnnl_memory_create(&memory, wanted, engine, DNNL_MEMORY_ALLOCATE)) return NULL;
    dnnl_memory_get_data_handle(memory, &data);
    if (!is_float(wanted)) memset(data, 0, dnnl_memory_desc_get_size(wanted));
    else
        for (size_t i = 0; i < dnnl_memory_desc_get_size(wanted) / sizeof(float); i++)
            ((float *)data)[i] = (float)rand() / (float)RAND_MAX - 0.5F;
    return memory;
}

static void end_job(job *j, const job *forward)
{
    for (int i = 0; i < j->arguments; i++) {
        array layout_of;
        dnnl_memory_get_memory_desc(j->argument[i].memory, &layout_of);
        if (left_by(forward, j->argument[i].arg, layout_of) != j->argument[i].memory)
            dnnl_memory_destroy(j->argument[i].memory);
    }
    dnnl_primitive_destroy(j->primitive);
    dnnl_primitive_desc_destroy(j->description);
    *j = (job){ 0 };
}

static int add_argument(job *j, int role, const job *forward)
{
    array wanted = dnnl_primitive_desc_query_md(j->description, dnnl_query_exec_arg_md, role);
    if (!wanted || dnnl_memory_desc_get_size(wanted) == 0) return 0;
    dnnl_memory_t memory = left_by(forward, role, wanted);
    if (!memory) memory = random_memory(wanted);
    j->argument[j->arguments++] = (dnnl_exec_arg_t){ role, memory };
    return memory ? 0 : -1;
}

static void run_job(void *work)
{
    const job *j = work;
    dnnl_primitive_execute(j->primitive, stream, j->arguments, j->argument);
    dnnl_stream_wait(stream);
}

/* ---- kinds: each describes the primitive of a pass ------------------------------------------------- */

/* N C H W, out_channels, kernel, stride, padding */
static dnnl_status_t convolution(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                                 const_dnnl_primitive_desc_t forward)
{
    (void)kind;
    long oh = (s[2] + 2 * s[7] - s[5]) / s[6] + 1, ow = (s[3] + 2 * s[7] - s[5]) / s[6] + 1;
    array x = make_array(4, (dnnl_dims_t){ s[0], s[1], s[2], s[3] }, dnnl_format_tag_any);
    array w = make_array(4, (dnnl_dims_t){ s[4], s[1], s[5], s[5] }, dnnl_format_tag_any);
    array b = make_array(1, (dnnl_dims_t){ s[4] }, dnnl_format_tag_any);
    array y = make_array(4, (dnnl_dims_t){ s[0], s[4], oh, ow }, dnnl_format_tag_any);
    dnnl_dims_t stride = { s[6], s[6] }, padding = { s[7], s[7] };
    if (p == FORWARD)
        return FORWARD_OF(convolution_forward, dnnl_forward_training, algorithm, x, w, b, y,
                          UNDILATED(stride), padding, padding);
    if (p == BACKWARD)
        return BACKWARD_OF(convolution_backward_data, algorithm, x, w, y, UNDILATED(stride), padding,
                           padding);
    return BACKWARD_OF(convolution_backward_weights, algorithm, x, w, b, y, UNDILATED(stride), padding,
                       padding);
}

/* N in, out */
static dnnl_status_t inner_product(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                                   const_dnnl_primitive_desc_t forward)
{
    (void)kind;
    array x = make_array(2, (dnnl_dims_t){ s[0], s[1] }, dnnl_format_tag_any);
    array w = make_array(2, (dnnl_dims_t){ s[2], s[1] }, dnnl_format_tag_any);
    array b = make_array(1, (dnnl_dims_t){ s[2] }, dnnl_format_tag_any);
    array y = make_array(2, (dnnl_dims_t){ s[0], s[2] }, dnnl_format_tag_any);
    if (p == FORWARD) return FORWARD_OF(inner_product_forward, dnnl_forward_training, x, w, b, y);
    if (p == BACKWARD) return BACKWARD_OF(inner_product_backward_data, x, w, y);
    return BACKWARD_OF(inner_product_backward_weights, x, w, b, y);
}

/* N C H W, kernel (0: all), stride, padding. */
static dnnl_status_t pooling(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                             const_dnnl_primitive_desc_t forward)
{
    bool all = s[4] == 0;
    long step = all ? 1 : s[5];
    dnnl_dims_t kernel = { all ? s[2] : s[4], all ? s[3] : s[4] }, stride = { step, step };
    long oh = (s[2] + 2 * s[6] - kernel[0]) / step + 1, ow = (s[3] + 2 * s[6] - kernel[1]) / step + 1;
    /* The last row and column may lie beyond every window: a negative padding there says so. */
    dnnl_dims_t before = { s[6], s[6] }, after = { (oh - 1) * step + kernel[0] - s[2] - s[6],
                                                   (ow - 1) * step + kernel[1] - s[3] - s[6] };
    dnnl_alg_kind_t how = strcmp(kind, "maxpool") == 0 ? dnnl_pooling_max : dnnl_pooling_avg_include_padding;
    array x = make_array(4, (dnnl_dims_t){ s[0], s[1], s[2], s[3] }, layout);
    array y = make_array(4, (dnnl_dims_t){ s[0], s[1], oh, ow }, layout);
    if (p == FORWARD)
        return FORWARD_OF(pooling_forward, dnnl_forward_training, how, x, y, stride, UNDILATED(kernel),
                          before, after);
    return BACKWARD_OF(pooling_backward, how, x, y, stride, UNDILATED(kernel), before, after);
}

/* N C H W */
static dnnl_status_t elementwise(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                                 const_dnnl_primitive_desc_t forward)
{
    dnnl_alg_kind_t how = strcmp(kind, "relu") == 0   ? dnnl_eltwise_relu
                          : strcmp(kind, "gelu") == 0 ? dnnl_eltwise_gelu_erf
                                                      : dnnl_eltwise_logistic;
    array x = make_array(4, (dnnl_dims_t){ s[0], s[1], s[2], s[3] }, layout);
    if (p == FORWARD) return FORWARD_OF(eltwise_forward, dnnl_forward_training, how, TWICE(x), 0, 0);
    return BACKWARD_OF(eltwise_backward, how, TWICE(x), x, 0, 0);
}

/* N C H W. Without weight and bias, which take no time beside the rest: with them oneDNN has no backward pass
 * that makes dx alone. */
static dnnl_status_t batch_normalization(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                                         const_dnnl_primitive_desc_t forward)
{
    (void)kind;
    array x = make_array(4, (dnnl_dims_t){ s[0], s[1], s[2], s[3] }, layout);
    if (p == FORWARD)
        return FORWARD_OF(batch_normalization_forward, dnnl_forward_training, TWICE(x), 1e-5F, 0);
    return BACKWARD_OF(batch_normalization_backward, dnnl_backward_data, TWICE(x), x, 1e-5F, 0);
}

static const struct kind {
    const char *name;
    int numbers;
    bool any_layout, has_gradient;
    dnnl_status_t (*describe)(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                              const_dnnl_primitive_desc_t forward);
} kinds[] = {
    { "conv", 8, true, true, convolution },
    { "dense", 3, true, true, inner_product },
    { "maxpool", 7, false, false, pooling },
    { "avgpool", 7, false, false, pooling },
    { "relu", 4, false, false, elementwise },
    { "gelu", 4, false, false, elementwise },
    { "sigmoid", 4, false, false, elementwise },
    { "batchnorm", 4, false, false, batch_normalization },
    { 0 },
};

/* ---- results ------------------------------------------------------------------------------------- */

static const dnnl_exec_arg_t *argument_of(const job *j, int role)
{
    for (int i = 0; i < j->arguments; i++)
        if (j->argument[i].arg == role) return &j->argument[i];
    return NULL;
}

static size_t elements(int axes, const dnnl_dims_t size)
{
    size_t count = 1;
    for (int i = 0; i < axes; i++) count *= (size_t)size[i];
    return count;
}

/* Copies plain values into an argument, or out of it, whatever its layout. */
static int copy_plain(const dnnl_exec_arg_t *a, float *values, bool in)
{
    static const dnnl_format_tag_t plain[] = { dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd };
    array own;
    dnnl_dims_t size;
    dnnl_memory_t memory;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t reorder;
    dnnl_memory_get_memory_desc(a->memory, &own);
    const int axes = axes_of(own, size);
    array other = make_array(axes, size, plain[axes]);
    if (dnnl_memory_create(&memory, other, engine, values)) return -1;
    const array from = in ? other : own, to = in ? own : other;
    int status = dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, NULL) ||
                 dnnl_primitive_create(&reorder, description);
    if (status == 0) {
        const dnnl_exec_arg_t both[] = { { DNNL_ARG_FROM, in ? memory : a->memory },
                                         { DNNL_ARG_TO, in ? a->memory : memory } };
        status = dnnl_primitive_execute(reorder, stream, 2, both) || dnnl_stream_wait(stream);
        dnnl_primitive_destroy(reorder);
        dnnl_primitive_desc_destroy(description);
    }
    dnnl_memory_destroy(memory);
    return status ? -1 : 0;
}

/* Fills an argument by outline.h's pattern, if the job has it; a scale of 0: that of weights (networks.h). */
static int fill_argument(const job *j, int role, int k, double scale)
{
    const dnnl_exec_arg_t *a = argument_of(j, role);
    array own;
    dnnl_dims_t size;
    if (!a) return 0;
    dnnl_memory_get_memory_desc(a->memory, &own);
    const size_t count = elements(axes_of(own, size), size);
    float *values = malloc(count * sizeof *values);
    if (scale == 0) scale = 2 / sqrt((double)count / (double)size[0]);
    for (size_t i = 0; values && i < count; i++) values[i] = (float)(pattern(i, k) * scale);
    const int status = values ? copy_plain(a, values, true) : -1;
    free(values);
    return status;
}

static int fill_job(const job *j)
{
    return fill_argument(j, DNNL_ARG_SRC, 0, 2) || fill_argument(j, DNNL_ARG_WEIGHTS, 0, 0) ||
           fill_argument(j, DNNL_ARG_BIAS, 1, 0) || fill_argument(j, DNNL_ARG_DIFF_DST, 2, 2);
}

/* Of one argument, or of two, one after the other. */
static int print_result(const job *j, int role, int second)
{
    const dnnl_exec_arg_t *argument[] = { argument_of(j, role), second ? argument_of(j, second) : NULL };
    char shape[64] = "";
    size_t count[2] = { 0, 0 };
    int at = 0;
    for (int i = 0; i < 2 && argument[i]; i++) {
        array own;
        dnnl_dims_t size;
        dnnl_memory_get_memory_desc(argument[i]->memory, &own);
        const int axes = axes_of(own, size);
        count[i] = elements(axes, size);
        for (int k = 0; k < axes && !second; k++)
            at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%ld", k ? "x" : "", (long)size[k]);
    }
    if (second) snprintf(shape, sizeof shape, "%zu", count[0] + count[1]);
    float *values = malloc((count[0] + count[1]) * sizeof *values);
    int status = !values || !argument[0] || copy_plain(argument[0], values, false) ||
                 (argument[1] && copy_plain(argument[1], values + count[0], false));
    if (status == 0) outline_print(shape, values, count[0] + count[1]);
    free(values);
    return status ? -1 : 0;
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* After `forward`, where the pass is not the forward pass itself. */
static int make_job(job *j, const struct kind *k, pass p, const long *s, const job *forward)
{
    *j = (job){ 0 };
    if (k->describe(&j->description, p, s, k->name, forward ? forward->description : NULL)) return -1;
    if (dnnl_primitive_create(&j->primitive, j->description)) return -1;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (add_argument(j, roles[i], forward)) return -1;
    return 0;
}

/* What the pass makes of known numbers. */
static int tell(const struct kind *k, pass p, const long *s)
{
    job forward, own = { 0 };
    int status = make_job(&forward, k, FORWARD, s, NULL) || fill_job(&forward);
    if (status == 0) run_job(&forward);
    if (status == 0 && p == FORWARD) status = print_result(&forward, DNNL_ARG_DST, 0);
    if (status == 0 && p != FORWARD) {
        status = make_job(&own, k, p, s, &forward) || fill_job(&own);
        if (status == 0) run_job(&own);
        if (status == 0 && p == BACKWARD) status = print_result(&own, DNNL_ARG_DIFF_SRC, 0);
        if (status == 0 && p == GRADIENT)
            status = print_result(&own, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS);
        end_job(&own, &forward);
    }
    end_job(&forward, NULL);
    return status ? -1 : 0;
}

/* A backward pass follows its forward pass, from which it takes what that has left. */
static int measure(const struct kind *k, pass p, const long *s, double *seconds)
{
    job forward, own = { 0 };
    int status = make_job(&forward, k, FORWARD, s, NULL);
    if (status == 0) run_job(&forward);
    if (status == 0 && p == FORWARD) *seconds = seconds_a_call(run_job, &forward);
    if (status == 0 && p != FORWARD) {
        status = make_job(&own, k, p, s, &forward);
        if (status == 0) *seconds = seconds_a_call(run_job, &own);
        end_job(&own, &forward);
    }
    end_job(&forward, NULL);
    return status;
}

static const struct kind *kind_of(const char *name)
{
    const struct kind *k = kinds;
    while (k->name && strcmp(k->name, name) != 0) k++;
    return k->name ? k : NULL;
}

/* True where the setting makes a difference, or there is none. */
static bool is_measured(const struct kind *k)
{
    if (algorithm != dnnl_convolution_direct) return k->describe == convolution;
    return layout == dnnl_nchw || !k->any_layout;
}

static void answer(char *line)
{
    static const char *const passes[] = { "forward", "backward", "gradient" };
    const struct kind *k = kind_of(strtok(line, " "));
    long size[NUMBERS];
    double seconds;
    if (!k || !is_measured(k)) {
        puts("skip");
        return;
    }
    for (int i = 0; i < k->numbers; i++) {
        const char *word = strtok(NULL, " ");
        size[i] = word ? strtol(word, NULL, 10) : 0;
    }
    const char *word = strtok(NULL, " ");
    int p = 0;
    while (p < 3 && (!word || strcmp(word, passes[p]) != 0)) p++;
    word = strtok(NULL, " ");
    if (p == 3 || (p == GRADIENT && !k->has_gradient)) puts("skip");
    else if (word) {
        if (tell(k, (pass)p, size)) puts("error oneDNN refuses it");
    } else if (measure(k, (pass)p, size, &seconds)) printf("error oneDNN refuses it\n");
    else printf("ok %.9g -1\n", seconds);
}

/* Channels in blocks of a vector: another block runs through its reference code, a hundred times as slow. */
static dnnl_format_tag_t blocked_layout(void)
{
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core ? dnnl_nChw16c : dnnl_nChw8c;
}

int main(int argc, char **argv)
{
    char line[LINE];
    if (argc > 1 && strcmp(argv[1], "nhwc") == 0) layout = dnnl_nhwc;
    if (argc > 1 && strcmp(argv[1], "blocked") == 0) layout = blocked_layout();
    if (argc > 1 && strcmp(argv[1], "winograd") == 0) algorithm = dnnl_convolution_auto;
    bool works = !dnnl_engine_create(&engine, dnnl_cpu, 0) && !dnnl_stream_create(&stream, engine, 0);
    const dnnl_version_t *v = dnnl_version();
    if (works)
        printf("ready oneDNN %d.%d.%d, no BLAS, threads by OMP_NUM_THREADS\n", v->major, v->minor, v->patch);
    else puts("skip oneDNN has no engine here");
    fflush(stdout);
    while (works && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        answer(line);
        fflush(stdout);
    }
    return 0;
}
