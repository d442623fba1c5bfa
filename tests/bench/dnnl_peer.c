/* dnnl_peer.c: oneDNN's side of a benchmark; stride_peer.c says in which words.
 *
 *   dnnl_peer [direct|nhwc|blocked|winograd]
 *
 * oneDNN chooses the layout of its arrays if it may; the conversion from and to a layout of ours is not
 * counted. Pooling and the like take what layout they are given: N, C, H, W unless the argument says
 * otherwise. Convolutions are computed directly, or with `winograd` as oneDNN thinks best, which is
 * Winograd's way where it has one. What a setting does not change is answered under `direct` alone. Compiles
 * with versions 2 and 3. */
#include "tests/bench/timing.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 2048, NUMBERS = 8, ARGUMENTS = 16, RANK = 4 };

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

static int size_of(array a, dnnl_dims_t size)
{
    memcpy(size, a->dims, sizeof a->dims);
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

static int size_of(array a, dnnl_dims_t size)
{
    dnnl_dims_t *own;
    int32_t rank;
    dnnl_memory_desc_query(a, dnnl_query_ndims_s32, &rank);
    dnnl_memory_desc_query(a, dnnl_query_dims, &own);
    memcpy(size, *own, sizeof *own);
    return rank;
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
    int rank, numbers; /* of x; with those after x's sizes */
    bool any_layout, has_gradient;
    dnnl_status_t (*describe)(dnnl_primitive_desc_t *to, pass p, const long *s, const char *kind,
                              const_dnnl_primitive_desc_t forward);
} kinds[] = {
    { "conv", 4, 8, true, true, convolution },
    { "dense", 2, 3, true, true, inner_product },
    { "maxpool", 4, 7, false, false, pooling },
    { "avgpool", 4, 7, false, false, pooling },
    { "relu", 4, 4, false, false, elementwise },
    { "gelu", 4, 4, false, false, elementwise },
    { "sigmoid", 4, 4, false, false, elementwise },
    { "batchnorm", 4, 4, false, false, batch_normalization },
    { 0 },
};

/* ---- results ------------------------------------------------------------------------------------- */

/* A file of arrays (arrays.h): what Stride's result was computed from. */
typedef struct given {
    float *number[4]; /* x, dy, and where there are some weight and bias */
    int count;
} given;

static FILE *open_file(const char *name, const char *mode)
{
    char path[1024];
    const char *folder = getenv("BENCH_FOLDER");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    return fopen(path, mode);
}

static void forget(given *g)
{
    while (g->count > 0) free(g->number[--g->count]);
}

static int read_given(given *g)
{
    char line[LINE];
    FILE *from = open_file("given", "rb");
    *g = (given){ 0 };
    if (!from) return -1;
    int status = fgets(line, sizeof line, from) ? 0 : -1;
    for (char *word = strtok(line, " \n"); status == 0 && word && g->count < 4; word = strtok(NULL, " \n")) {
        size_t elements = 1;
        for (char *at = word; *at; at += *at == 'x') elements *= strtoul(at, &at, 10);
        float *number = g->number[g->count++] = malloc(elements * sizeof *number);
        if (!number || fread(number, sizeof *number, elements, from) != elements) status = -1;
    }
    fclose(from);
    return status;
}

/* The array as N, C, H, W, or as O, I, KH, KW; or as it is. */
static array plain_of(array a, size_t *elements)
{
    static const dnnl_format_tag_t tags[] = { dnnl_a, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd };
    dnnl_dims_t size;
    const int rank = size_of(a, size);
    *elements = 1;
    for (int i = 0; i < rank; i++) *elements *= (size_t)size[i];
    return make_array(rank, size, tags[rank]);
}

/* Between the plain numbers and the memory's layout. */
static int convert(dnnl_memory_t memory, float *number, bool from_memory)
{
    array own;
    size_t elements;
    dnnl_memory_t plain;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_get_memory_desc(memory, &own);
    array wanted = plain_of(own, &elements);
    if (dnnl_memory_create(&plain, wanted, engine, number)) return -1;
    if (dnnl_reorder_primitive_desc_create(&description, from_memory ? own : wanted, engine,
                                           from_memory ? wanted : own, engine, NULL) ||
        dnnl_primitive_create(&primitive, description))
        return -1;
    const dnnl_exec_arg_t both[] = { { DNNL_ARG_FROM, from_memory ? memory : plain },
                                     { DNNL_ARG_TO, from_memory ? plain : memory } };
    const int status =
        dnnl_primitive_execute(primitive, stream, 2, both) || dnnl_stream_wait(stream) ? -1 : 0;
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(description);
    dnnl_memory_destroy(plain);
    return status;
}

static int take_given(const job *j, const given *g)
{
    static const int taken[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS };
    for (int i = 0; i < j->arguments; i++)
        for (int k = 0; k < 4; k++)
            if (j->argument[i].arg == taken[k] &&
                (k >= g->count || convert(j->argument[i].memory, g->number[k], false)))
                return -1;
    return 0;
}

/* A batch normalisation's weight and bias are not oneDNN's here: y = weight y + bias, or dy = weight dy. */
static void scale_channels(const long *s, float *number, const float *weight, const float *bias)
{
    const long area = s[2] * s[3];
    for (long i = 0; i < s[0] * s[1] * area; i++)
        number[i] = number[i] * weight[i / area % s[1]] + (bias ? bias[i / area % s[1]] : 0);
}

static dnnl_memory_t memory_of(const job *j, int role)
{
    for (int i = 0; i < j->arguments; i++)
        if (j->argument[i].arg == role) return j->argument[i].memory;
    return NULL;
}

/* "64x10", after another array's a space before it. */
static void write_shape(dnnl_memory_t memory, bool first, FILE *to)
{
    array own;
    dnnl_dims_t size;
    dnnl_memory_get_memory_desc(memory, &own);
    const int rank = size_of(own, size);
    if (!first) fputc(' ', to);
    for (int axis = 0; axis < rank; axis++) fprintf(to, axis ? "x%ld" : "%ld", (long)size[axis]);
}

static int write_numbers(dnnl_memory_t memory, const long *s, const given *affine, FILE *to)
{
    array own;
    size_t elements;
    dnnl_memory_get_memory_desc(memory, &own);
    plain_of(own, &elements);
    float *number = malloc(elements * sizeof *number);
    int status = number ? convert(memory, number, true) : -1;
    if (status == 0 && affine) scale_channels(s, number, affine->number[2], affine->number[3]);
    if (status == 0 && fwrite(number, sizeof *number, elements, to) != elements) status = -1;
    free(number);
    return status;
}

/* The arrays that a pass makes; those of a batch normalisation's forward pass with weight and bias. */
static int write_result(const job *j, pass p, const long *s, const given *affine)
{
    static const int roles_made[][2] = { { DNNL_ARG_DST },
                                         { DNNL_ARG_DIFF_SRC },
                                         { DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS } };
    const dnnl_memory_t made[] = { memory_of(j, roles_made[p][0]), memory_of(j, roles_made[p][1]) };
    FILE *to = open_file("result", "wb");
    int status = to ? 0 : -1;
    for (int k = 0; status == 0 && k < 2 && made[k]; k++) write_shape(made[k], k == 0, to);
    if (to) fputc('\n', to);
    for (int k = 0; status == 0 && k < 2 && made[k]; k++) status = write_numbers(made[k], s, affine, to);
    return to && fclose(to) ? -1 : status;
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

/* A backward pass follows its forward pass, from which it takes what that has left. */
static int make_jobs(job *forward, job *own, const struct kind *k, pass p, const long *s)
{
    *own = (job){ 0 };
    int status = make_job(forward, k, FORWARD, s, NULL);
    if (status == 0 && p != FORWARD) status = make_job(own, k, p, s, forward);
    return status;
}

static int compute(const struct kind *k, pass p, const long *s, job *forward, job *own)
{
    given g;
    const bool affine = k->describe == batch_normalization;
    int status = read_given(&g);
    if (status == 0 && affine && p == BACKWARD) scale_channels(s, g.number[1], g.number[2], NULL);
    if (status == 0) status = take_given(forward, &g);
    if (status == 0) run_job(forward);
    if (status == 0 && p != FORWARD) status = take_given(own, &g);
    if (status == 0 && p != FORWARD) run_job(own);
    if (status == 0)
        status = write_result(p == FORWARD ? forward : own, p, s, affine && p == FORWARD ? &g : NULL);
    forget(&g);
    return status;
}

/* Seconds, or with `result` 0. */
static int measure(const struct kind *k, pass p, const long *s, bool result, double *seconds)
{
    job forward, own;
    int status = make_jobs(&forward, &own, k, p, s);
    if (status == 0) run_job(&forward);
    if (status == 0 && result) status = compute(k, p, s, &forward, &own);
    else if (status == 0) *seconds = seconds_a_call(run_job, p == FORWARD ? &forward : &own);
    end_job(&own, &forward);
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

/* "64x1x28x28 conv 32 3 stride=1 padding=1": the sizes, then what `describe` takes; NULL for what is not
 * known here. */
static const struct kind *read_layer(long size[NUMBERS])
{
    char *text = strtok(NULL, " "), *name = strtok(NULL, " ");
    const struct kind *k = name ? kind_of(name) : NULL;
    int rank = 0, unnamed = 0;
    for (int i = 0; i < NUMBERS; i++) size[i] = 0;
    while (text && *text && rank < RANK) size[rank++] = strtol(text, &text, 10), text += *text == 'x';
    long *window = size + rank + (k && k->numbers == 8); /* kernel, stride, padding */
    if (k && k->numbers > rank + 1) window[1] = 1;
    for (char *word; k && (word = strtok(NULL, " "));) {
        if (strncmp(word, "stride=", 7) == 0 && k->numbers > rank + 1)
            window[1] = strtol(word + 7, &word, 10);
        else if (strncmp(word, "padding=", 8) == 0 && k->numbers > rank + 1)
            window[2] = strtol(word + 8, &word, 10);
        else if (rank + unnamed < k->numbers) size[rank + unnamed++] = strtol(word, &word, 10);
        if (*word) k = NULL;
    }
    return k && rank == k->rank ? k : NULL;
}

/* Cuts off the last word and returns it. */
static const char *last_word(char *line)
{
    char *word = strrchr(line, ' ');
    if (word) *word++ = 0;
    return word ? word : "";
}

static void answer(char *line)
{
    static const char *const passes[] = { "forward", "backward", "gradient" };
    const char *word = last_word(line);
    const bool result = strcmp(word, "result") == 0;
    long size[NUMBERS];
    double seconds = 0;
    int p = 0;
    if (result) word = last_word(line);
    while (p < 3 && strcmp(word, passes[p]) != 0) p++;
    const char *what = strtok(line, " ");
    const struct kind *k = what && strcmp(what, "layer") == 0 ? read_layer(size) : NULL;
    if (!k || !is_measured(k) || p == 3 || (p == GRADIENT && !k->has_gradient)) puts("skip");
    else if (measure(k, (pass)p, size, result, &seconds)) printf("error oneDNN refuses it\n");
    else if (result) puts("result");
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
