/* cases.c: finds ONNX's cases, reads their models and data, has them computed and compares. */
#define _POSIX_C_SOURCE 200809L
#include "tests/conformance/onnx/onnx.h"

#include <dirent.h>
#include <math.h>
#include <onnx.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 64 };

typedef struct values {
    int count;
    onnx_value at[VALUES];
} values;

/* A text made by a format, for one expression; names of files and what is said of them. */
typedef struct text {
    char at[2048];
} text;
static text format(const char *how, ...) __attribute__((format(printf, 1, 2)));
static text format(const char *how, ...)
{
    text t;
    va_list list;
    va_start(list, how);
    vsnprintf(t.at, sizeof t.at, how, list);
    va_end(list);
    return t;
}

/* ---- files ----------------------------------------------------------------------------------------- */

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint8_t *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long end = ftell(file);
        rewind(file);
        *size = end > 0 ? (size_t)end : 0;
        bytes = malloc(*size + 1);
        if (bytes && fread(bytes, 1, *size, file) != *size) free(bytes), bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* ---- tensors ----------------------------------------------------------------------------------------- */

static const char *type_name(int type)
{
    static const char *const names[] = { "undefined",  "float32", "uint8",  "int8",   "uint16",
                                         "int16",      "int32",   "int64",  "string", "bool",
                                         "float16",    "float64", "uint32", "uint64", "complex64",
                                         "complex128", "bfloat16" };
    return type >= 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "unknown";
}

/* Element k of raw little-endian data, as this machine's; 0 bytes for types that are not read. */
static size_t raw_size(int type)
{
    switch (type) {
    case 2:
    case 3:
    case 9: return 1;
    case 4:
    case 5: return 2;
    case ONNX_FLOAT:
    case ONNX_INT32:
    case 12: return 4;
    case ONNX_INT64:
    case ONNX_DOUBLE:
    case 13: return 8;
    default: return 0;
    }
}

static double raw_number(int type, const uint8_t *at)
{
    uint64_t bits = 0;
    for (size_t i = raw_size(type); i-- > 0;) bits = bits << 8 | at[i];
    float single;
    double number;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&number, &bits, sizeof number);
    switch (type) {
    case ONNX_FLOAT: return (double)single;
    case ONNX_DOUBLE: return number;
    case 3: return (double)(int8_t)bits;
    case 5: return (double)(int16_t)bits;
    case ONNX_INT32: return (double)(int32_t)bits;
    case ONNX_INT64: return (double)(int64_t)bits;
    default: return (double)bits;
    }
}

static double typed_number(const Onnx__TensorProto *t, size_t k)
{
    switch (t->data_type) {
    case ONNX_FLOAT: return (double)t->float_data[k];
    case ONNX_DOUBLE: return t->double_data[k];
    case ONNX_INT64: return (double)t->int64_data[k];
    case 12:
    case 13: return (double)t->uint64_data[k];
    default: return (double)t->int32_data[k];
    }
}

static size_t typed_count(const Onnx__TensorProto *t)
{
    switch (t->data_type) {
    case ONNX_FLOAT: return t->n_float_data;
    case ONNX_DOUBLE: return t->n_double_data;
    case ONNX_INT64: return t->n_int64_data;
    case 12:
    case 13: return t->n_uint64_data;
    default: return t->n_int32_data;
    }
}

/* False where the file says something that cannot be. */
static bool read_value(onnx_value *v, const Onnx__TensorProto *t, const char *name)
{
    *v = (onnx_value){ .name = strdup(name), .type = t->data_type };
    if (t->n_dims > ST_MAX_RANK) {
        v->shape.rank = -1; /* more axes than a tensor has */
        return true;
    }
    v->shape.rank = (int)t->n_dims;
    for (size_t i = 0; i < t->n_dims; i++) v->shape.n[i] = (ptrdiff_t)t->dims[i];
    ptrdiff_t count = st_shape_numel(v->shape, "onnx");
    size_t size = raw_size(v->type);
    if (count < 0) return false;
    if (!size) return true;
    size_t there = t->has_raw_data ? t->raw_data.len / size : typed_count(t);
    if (there != (size_t)count) return false;
    v->number = malloc(((size_t)count + 1) * sizeof *v->number);
    for (size_t k = 0; k < there; k++)
        v->number[k] =
            t->has_raw_data ? raw_number(v->type, t->raw_data.data + k * size) : typed_number(t, k);
    return true;
}

static bool add_value(values *all, const Onnx__TensorProto *t, const char *name)
{
    return all->count < VALUES && read_value(&all->at[all->count++], t, name);
}

static bool add_file(values *all, const char *path, const char *name)
{
    size_t size;
    uint8_t *bytes = read_file(path, &size);
    Onnx__TensorProto *t = bytes ? onnx__tensor_proto__unpack(NULL, size, bytes) : NULL;
    bool good = t && add_value(all, t, name);
    if (t) onnx__tensor_proto__free_unpacked(t, NULL);
    free(bytes);
    return good;
}

static const onnx_value *find_value(const values *all, const char *name)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->at[i].name, name) == 0) return &all->at[i];
    return NULL;
}

static void free_values(values *all)
{
    for (int i = 0; i < all->count; i++) free(all->at[i].name), free(all->at[i].number);
}

/* ---- what functions ask for ---------------------------------------------------------------------- */

struct onnx_kept {
    st_tensor tensor;
    st_layer *layer;
    struct onnx_kept *next;
};

static void keep(onnx_case *c, struct onnx_kept what)
{
    struct onnx_kept *kept = malloc(sizeof *kept);
    what.next = c->kept;
    *kept = what;
    c->kept = kept;
}

static void free_kept(onnx_case *c)
{
    while (c->kept) {
        struct onnx_kept *first = c->kept;
        c->kept = first->next;
        st_tensor_free(first->tensor);
        st_layer_free(first->layer);
        free(first);
    }
}

void onnx_skip(onnx_case *c, const char *reason, ...)
{
    if (onnx_skipped(c)) return;
    va_list list;
    va_start(list, reason);
    vsnprintf(c->reason, sizeof c->reason, reason, list);
    va_end(list);
}

bool onnx_skipped(const onnx_case *c)
{
    return c->reason[0] != '\0';
}

bool onnx_has(const onnx_case *c, int input)
{
    return input < c->inputs && c->input[input];
}

st_tensor onnx_input(onnx_case *c, int input)
{
    if (!onnx_has(c, input)) return (st_tensor){ 0 };
    const onnx_value *v = c->input[input];
    c->input_read[input] = true;
    if (v->type != ONNX_FLOAT && (v->type != ONNX_DOUBLE || sizeof(st_real) != sizeof(double))) {
        onnx_skip(c, "%s tensors", type_name(v->type));
        return (st_tensor){ 0 };
    }
    if (v->shape.rank < 0) {
        onnx_skip(c, "more than %d axes", ST_MAX_RANK);
        return (st_tensor){ 0 };
    }
    st_tensor x = onnx_new(c, v->shape);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)v->number[k];
    return x;
}

int onnx_input_integers(onnx_case *c, int input, ptrdiff_t to[ONNX_INTEGERS])
{
    if (!onnx_has(c, input)) return -1;
    const onnx_value *v = c->input[input];
    c->input_read[input] = true;
    ptrdiff_t count = v->number ? st_shape_numel(v->shape, "onnx") : 0;
    if ((v->type != ONNX_INT32 && v->type != ONNX_INT64) || count > ONNX_INTEGERS) {
        onnx_skip(c, "input %d is not a short list of integers", input);
        return -1;
    }
    for (ptrdiff_t i = 0; i < count; i++) to[i] = (ptrdiff_t)v->number[i];
    return (int)count;
}

static const Onnx__AttributeProto *attribute(onnx_case *c, const char *name)
{
    for (size_t i = 0; i < c->node->n_attribute; i++)
        if (strcmp(c->node->attribute[i]->name, name) == 0) {
            if (i < ONNX_ATTRIBUTES) c->attribute_read[i] = true;
            return c->node->attribute[i];
        }
    return NULL;
}

int onnx_integers(onnx_case *c, const char *name, ptrdiff_t to[ONNX_INTEGERS])
{
    const Onnx__AttributeProto *a = attribute(c, name);
    if (!a || a->n_ints > ONNX_INTEGERS) return -1;
    for (size_t i = 0; i < a->n_ints; i++) to[i] = (ptrdiff_t)a->ints[i];
    return (int)a->n_ints;
}

int onnx_numbers(onnx_case *c, const char *name, double to[ONNX_INTEGERS])
{
    const Onnx__AttributeProto *a = attribute(c, name);
    if (!a || a->n_floats > ONNX_INTEGERS) return -1;
    for (size_t i = 0; i < a->n_floats; i++) to[i] = (double)a->floats[i];
    return (int)a->n_floats;
}

ptrdiff_t onnx_integer(onnx_case *c, const char *name, ptrdiff_t fallback)
{
    const Onnx__AttributeProto *a = attribute(c, name);
    return a ? (ptrdiff_t)a->i : fallback;
}

double onnx_number(onnx_case *c, const char *name, double fallback)
{
    const Onnx__AttributeProto *a = attribute(c, name);
    return a ? (double)a->f : fallback;
}

/* The bytes have an end of their own: protobuf-c puts one behind them. */
const char *onnx_text(onnx_case *c, const char *name, const char *fallback)
{
    const Onnx__AttributeProto *a = attribute(c, name);
    if (!a) return fallback;
    static char bytes[64];
    snprintf(bytes, sizeof bytes, "%.*s", (int)a->s.len, (const char *)a->s.data);
    return bytes;
}

st_tensor onnx_new(onnx_case *c, st_shape s)
{
    st_tensor made = st_tensor_new(s);
    keep(c, (struct onnx_kept){ .tensor = made });
    return made;
}

st_tensor onnx_copy(onnx_case *c, st_tensor x)
{
    st_tensor made = onnx_new(c, x.shape);
    st_copy(made, x);
    return made;
}

st_layer *onnx_keep(onnx_case *c, st_layer *l)
{
    keep(c, (struct onnx_kept){ .layer = l });
    return l;
}

st_layer *onnx_build(onnx_case *c, st_layer *l, st_shape x)
{
    onnx_keep(c, l);
    return l && st_layer_build(l, x, 1) == 0 ? l : NULL;
}

st_tensor onnx_forward(onnx_case *c, st_layer *l, st_tensor x, bool training)
{
    if (!l) return (st_tensor){ 0 };
    st_tensor y = onnx_new(c, l->y);
    st_layer_mode(l, training, 1, 0);
    st_layer_spoil_scratch(l);
    st_layer_forward(l, x, y);
    return y;
}

st_tensor onnx_run(onnx_case *c, st_layer *l, st_tensor x)
{
    return onnx_forward(c, onnx_build(c, l, x.shape), x, false);
}

void onnx_output(onnx_case *c, int output, st_tensor y)
{
    c->output[output] = y;
}

int onnx_axis(ptrdiff_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- comparison, with the tolerances of onnx.backend.test ---------------------------------------- */

static const double relative = 1e-3, absolute = 1e-7;

static bool near(double made, double expected)
{
    if (isnan(made) || isnan(expected)) return isnan(made) && isnan(expected);
    if (isinf(made) || isinf(expected)) return made == expected;
    return fabs(made - expected) <= absolute + relative * fabs(expected);
}

/* Says what differs; false where nothing does. */
static bool differs(st_tensor made, const onnx_value *expected, text *why)
{
    if (!st_shape_equal(made.shape, expected->shape)) {
        *why = format("%s is %s, expected %s", expected->name, st_shape_text(made.shape).text,
                      st_shape_text(expected->shape).text);
        return true;
    }
    st_tensor flat = st_tensor_clone(made);
    ptrdiff_t wrong = 0, first = 0;
    for (ptrdiff_t k = st_numel(flat); k-- > 0;)
        if (!near((double)st_data(flat)[k], expected->number[k])) wrong++, first = k;
    if (wrong)
        *why = format("%s differs in %td of %td; first, element %td is %g, expected %g", expected->name,
                      wrong, st_numel(flat), first, (double)st_data(flat)[first], expected->number[first]);
    st_tensor_free(flat);
    return wrong > 0;
}

/* ---- one case --------------------------------------------------------------------------------------- */

typedef enum verdict { PASSED, FAILED, SKIPPED } verdict;

static const onnx_operator *find_operator(const char *name)
{
    const onnx_operator *const tables[] = { onnx_elementwise, onnx_windows, onnx_views, onnx_training };
    for (int t = 0; t < 4; t++)
        for (const onnx_operator *o = tables[t]; o->name; o++)
            if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

/* Skips a case of which the function overlooked a part. */
static void check_complete(onnx_case *c)
{
    for (size_t i = 0; i < c->node->n_attribute; i++)
        if (i >= ONNX_ATTRIBUTES || !c->attribute_read[i])
            onnx_skip(c, "%s's attribute %s", c->operation, c->node->attribute[i]->name);
    for (int i = 0; i < c->inputs; i++)
        if (c->input[i] && !c->input_read[i]) onnx_skip(c, "%s's input %d", c->operation, i);
    for (int i = 0; i < c->outputs; i++)
        if (c->expected[i] && st_is_null(c->output[i])) onnx_skip(c, "%s's output %d", c->operation, i);
}

static verdict judge(onnx_case *c, text *why)
{
    const onnx_operator *o = find_operator(c->operation);
    if (!o) onnx_skip(c, "no operator %s", c->operation);
    else o->compute(c);
    if (!onnx_skipped(c) && st_error()) {
        *why = format("%s", st_error());
        return FAILED;
    }
    if (!onnx_skipped(c)) check_complete(c);
    if (onnx_skipped(c)) {
        *why = format("%s", c->reason);
        return SKIPPED;
    }
    for (int i = 0; i < c->outputs; i++)
        if (c->expected[i] && differs(c->output[i], c->expected[i], why)) return FAILED;
    return PASSED;
}

static bool is_initializer(const Onnx__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(g->initializer[i]->name, name) == 0) return true;
    return false;
}

static bool of_tensors(size_t count, Onnx__ValueInfoProto *const *list)
{
    for (size_t i = 0; i < count; i++)
        if (list[i]->type && list[i]->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return false;
    return true;
}

/* The files of a data set, in the order of the graph's inputs that the model holds no value for. */
static bool read_data(values *in, values *out, const Onnx__GraphProto *g, const char *folder)
{
    int number = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        if (is_initializer(g, g->input[i]->name)) continue;
        text path = format("%s/input_%d.pb", folder, number++);
        if (!add_file(in, path.at, g->input[i]->name)) return false;
    }
    for (size_t i = 0; i < g->n_initializer; i++)
        if (!add_value(in, g->initializer[i], g->initializer[i]->name)) return false;
    for (size_t i = 0; i < g->n_output; i++) {
        text path = format("%s/output_%zu.pb", folder, i);
        if (!add_file(out, path.at, g->output[i]->name)) return false;
    }
    return true;
}

static verdict run_node(const Onnx__NodeProto *node, int version, const values *in, const values *out,
                        text *why)
{
    onnx_case c = { .operation = node->op_type, .version = version, .node = node };
    if (node->n_input > ONNX_INPUTS || node->n_output > ONNX_OUTPUTS) {
        *why = format("more inputs or outputs than are read");
        return SKIPPED;
    }
    c.inputs = (int)node->n_input;
    c.outputs = (int)node->n_output;
    for (int i = 0; i < c.inputs; i++) c.input[i] = find_value(in, node->input[i]);
    for (int i = 0; i < c.outputs; i++) c.expected[i] = find_value(out, node->output[i]);
    st_error_clear();
    verdict v = judge(&c, why);
    st_error_clear();
    free_kept(&c);
    return v;
}

static int version_of(const Onnx__ModelProto *m)
{
    for (size_t i = 0; i < m->n_opset_import; i++)
        if (!m->opset_import[i]->domain || !m->opset_import[i]->domain[0])
            return (int)m->opset_import[i]->version;
    return 1;
}

static verdict run_model(const Onnx__ModelProto *m, const char *folder, text *why)
{
    const Onnx__GraphProto *g = m->graph;
    const Onnx__NodeProto *node = NULL;
    if (g->n_node > 1) {
        *why = format("a model of several nodes");
        return SKIPPED;
    }
    if (g->n_node < 1 || !of_tensors(g->n_input, g->input) || !of_tensors(g->n_output, g->output)) {
        *why = format("sequences and optional values");
        return SKIPPED;
    }
    node = g->node[0];
    if (!find_operator(node->op_type)) {
        *why = format("no operator %s", node->op_type);
        return SKIPPED;
    }
    verdict v = FAILED;
    *why = format("it has no data");
    for (int set = 0; set == 0 || v == PASSED; set++) {
        text data = format("%s/test_data_set_%d", folder, set), first = format("%s/output_0.pb", data.at);
        FILE *there = fopen(first.at, "rb");
        if (!there) break;
        fclose(there);
        values in = { 0 }, out = { 0 };
        if (!read_data(&in, &out, g, data.at)) {
            v = FAILED;
            *why = format("the files of %s cannot be read", data.at);
        } else v = run_node(node, version_of(m), &in, &out, why);
        free_values(&in), free_values(&out);
    }
    return v;
}

static verdict run_case(const char *folder, text *why)
{
    size_t length;
    uint8_t *bytes = read_file(format("%s/model.onnx", folder).at, &length);
    Onnx__ModelProto *m = bytes ? onnx__model_proto__unpack(NULL, length, bytes) : NULL;
    verdict v = FAILED;
    if (!bytes) v = SKIPPED, *why = format("its model is not in the package");
    else if (!m || !m->graph) *why = format("the model cannot be read");
    else v = run_model(m, folder, why);
    if (m) onnx__model_proto__free_unpacked(m, NULL);
    free(bytes);
    return v;
}

/* ---- all cases --------------------------------------------------------------------------------------- */

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int onnx_cases(const char *folder, bool claimed_only)
{
    int failures = 0, groups;
    struct dirent **group;
    groups = scandir(folder, &group, visible, alphasort);
    for (int i = 0; i < groups; i++) {
        struct dirent **entry;
        int entries = scandir(format("%s/%s", folder, group[i]->d_name).at, &entry, visible, alphasort);
        for (int k = 0; k < entries; k++) {
            text one = format("%s/%s/%s", folder, group[i]->d_name, entry[k]->d_name), why;
            const char *name = one.at + strlen(folder) + 1;
            verdict v = run_case(one.at, &why);
            if (v == PASSED) printf("ok %s\n", name);
            else if (v == FAILED) failures++, printf("not ok %s: %s\n", name, why.at);
            else if (!claimed_only) printf("skip %s: %s\n", name, why.at);
            fflush(stdout);
            free(entry[k]);
        }
        if (entries >= 0) free(entry);
        free(group[i]);
    }
    if (groups >= 0) free(group);
    return failures;
}
