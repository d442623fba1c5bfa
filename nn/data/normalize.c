/* normalize.c: means and deviations of channels: measured, applied, and written into a net's notes. */
#include "nn/data/normalize.h"
#include "nn/data/bytes.h"
#include "nn/files/json.h"
#include "nn/files/locale.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/error.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define NOTE "normalization"

enum { ELEMENTS = 1 << 18 /* of the samples that are measured at a time */ };

/* ---- making and ending ----------------------------------------------------------------------- */

/* In one block, of zeros. */
static normalization *make(ptrdiff_t channels)
{
    const ptrdiff_t head = sizeof(normalization) / sizeof(double);
    ptrdiff_t count = channels < PTRDIFF_MAX / 2 - head ? head + 2 * channels : PTRDIFF_MAX;
    normalization *n = array_new("normalization", count, sizeof(double));
    if (n) *n = (normalization){ channels, (double *)n + head, (double *)n + head + channels };
    return n;
}

static int check(const normalization *n, const char *who)
{
    if (!n) return error_set("%s: the normalization is NULL", who);
    if (n->channels < 1) return error_set("%s: %td channels, expected at least one", who, n->channels);
    for (ptrdiff_t c = 0; c < n->channels; c++) {
        if (!isfinite(n->mean[c])) return error_set("%s: the mean of channel %td is %g", who, c, n->mean[c]);
        if (!(n->deviation[c] >= 0) || !isfinite(n->deviation[c]))
            return error_set("%s: the deviation of channel %td is %g, expected at least 0", who, c,
                             n->deviation[c]);
    }
    return 0;
}

normalization *normalize_new(ptrdiff_t channels, const double *mean, const double *deviation)
{
    const normalization given = { channels, (double *)mean, (double *)deviation };
    normalization *n = check(&given, "normalize_new") ? NULL : make(channels);
    if (!n) return NULL;
    memcpy(n->mean, mean, (size_t)channels * sizeof *mean);
    memcpy(n->deviation, deviation, (size_t)channels * sizeof *deviation);
    return n;
}

void normalize_free(normalization *n)
{
    free(n);
}

/* A sample that is a single number is one channel. */
static ptrdiff_t channels_of(shape sample)
{
    return sample.rank > 0 ? sample.n[0] : 1;
}

static int match(ptrdiff_t channels, shape sample, const char *who)
{
    if (channels_of(sample) == channels) return 0;
    return error_set("%s: samples %s, expected %td channels", who, shape_text(sample).text, channels);
}

static int check_channels(const normalization *n, shape sample, const char *who)
{
    return check(n, who) ? -1 : match(n->channels, sample, who);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Of some elements: how many, their mean, and the sum of their squared distances from it. */
typedef struct moments {
    double count, mean, squares;
} moments;

/* Counted from the first element: those of a constant are exact. */
static moments moments_of(ptrdiff_t n, const real *x)
{
    double sum = 0, rest = 0, squares = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += (double)x[i] - (double)x[0];
    double mean = (double)x[0] + sum / (double)n;
    for (ptrdiff_t i = 0; i < n; i++) {
        double away = (double)x[i] - mean;
        rest += away;
        squares += away * away;
    }
    return (moments){ (double)n, mean, squares - rest * rest / (double)n };
}

/* Of both together. Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances,
 * 1979. */
static moments together(moments a, moments b)
{
    double count = a.count + b.count, away = b.mean - a.mean;
    return (moments){ count, a.mean + away * (b.count / count),
                      a.squares + b.squares + away * away * (a.count * b.count / count) };
}

/* Samples in turn, [N, C, ...] contiguous. */
static void add_samples(moments *sum, ptrdiff_t channels, tensor x)
{
    ptrdiff_t area = tensor_count(x) / (x.shape.n[0] * channels);
    const real *at = tensor_data(x);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < channels; c++, at += area) sum[c] = together(sum[c], moments_of(area, at));
}

static int measure(const data *d, ptrdiff_t step, moments *sum, tensor x, tensor y)
{
    for (ptrdiff_t first = 0; first < d->count; first += step) {
        ptrdiff_t n = smallest(step, d->count - first);
        tensor part = tensor_narrow(x, 0, 0, n);
        if (data_batch(d, NULL, first, n, part, tensor_narrow(y, 0, 0, n))) return -1;
        add_samples(sum, channels_of(d->x), part);
    }
    return 0;
}

static normalization *of_moments(ptrdiff_t channels, const moments *sum)
{
    normalization *n = make(channels);
    for (ptrdiff_t c = 0; n && c < channels; c++) {
        n->mean[c] = sum[c].mean;
        n->deviation[c] = sqrt(fmax(sum[c].squares, 0) / sum[c].count);
        if (isfinite(n->mean[c]) && isfinite(sum[c].squares)) continue;
        error_set("normalize_measure: channel %td has elements that are not finite, or too large", c);
        normalize_free(n);
        n = NULL;
    }
    return n;
}

normalization *normalize_measure(const data *d)
{
    if (!d) {
        error_set("normalize_measure: the data set is NULL");
        return NULL;
    }
    ptrdiff_t channels = channels_of(d->x), elements = shape_count(d->x, "normalize_measure");
    if (elements < 1) {
        error_set("normalize_measure: samples %s have no elements", shape_text(d->x).text);
        return NULL;
    }
    ptrdiff_t step = smallest(largest(1, ELEMENTS / elements), d->count);
    tensor x = tensor_new(shape_with_batch(d->x, step)), y = tensor_new(shape_with_batch(d->y, step));
    moments *sum = array_new("normalize_measure", channels, sizeof *sum);
    bool room = sum && !tensor_is_null(x) && !tensor_is_null(y);
    normalization *n = room && measure(d, step, sum, x, y) == 0 ? of_moments(channels, sum) : NULL;
    free(sum);
    tensor_free(x);
    tensor_free(y);
    return n;
}

/* ---- applying -------------------------------------------------------------------------------- */

typedef struct scale {
    double mean, deviation; /* by which is divided */
} scale;

static scale scale_of(const normalization *n, ptrdiff_t channel)
{
    return (scale){ n->mean[channel], n->deviation[channel] > 0 ? n->deviation[channel] : 1 };
}

static real scaled(real x, scale s)
{
    return (real)(((double)x - s.mean) / s.deviation);
}

static void scale_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    const scale s = *(const scale *)context;
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = scaled(at[0][i * stride[0]], s);
}

/* Features, or a single number: one element a channel. */
static void apply_flat(const normalization *n, tensor x)
{
    real *at = tensor_data(x);
    for (ptrdiff_t c = 0; c < n->channels; c++)
        at[c * x.stride[0]] = scaled(at[c * x.stride[0]], scale_of(n, c));
}

static void apply(const normalization *n, tensor x)
{
    if (x.shape.rank < 2) {
        apply_flat(n, x);
        return;
    }
    for (ptrdiff_t c = 0; c < n->channels; c++) {
        tensor channel = tensor_select(x, 0, c);
        scale s = scale_of(n, c);
        tensor_walk(1, &channel, TENSOR_ANY_ORDER, scale_row, &s);
    }
}

int normalize_apply(const normalization *n, tensor x)
{
    if (tensor_is_null(x) || x.shape.rank < 1)
        return error_set("normalize_apply: %s, expected a batch of samples",
                         tensor_is_null(x) ? "the null tensor" : "a single number");
    if (check_channels(n, shape_without_batch(x.shape), "normalize_apply")) return -1;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) apply(n, tensor_select(x, 0, i));
    return 0;
}

typedef struct normalized {
    const data *of;
    normalization *n;
    char *prepared;
} normalized;

static void get(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const normalized *own = d->own;
    own->of->get(own->of, i, x, y);
    apply(own->n, x);
}

static void begin(const data *d, uint64_t pass)
{
    const normalized *own = d->own;
    data_begin(own->of, pass);
}

static void release(data *d)
{
    normalized *own = d->own;
    normalize_free(own->n);
    free(own->prepared);
    free(own);
}

enum { FEW = 4 }; /* channels whose numbers are told, and not only a sum to know them by */

/* "normalize mean 0.13 0.2 deviation 0.3 0.31", or "normalize 784 channels by 1A2B3C4D" */
static char *prepared(const data *of, const normalization *n)
{
    char text[64 + 2 * FEW * 24];
    uInt bytes = (uInt)n->channels * sizeof *n->mean;
    void *locale = c_locale_enter();
    int length = snprintf(text, sizeof text, "normalize");
    for (int i = 0; i < 2 && n->channels <= FEW; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, i ? " deviation" : " mean");
        for (ptrdiff_t c = 0; c < n->channels; c++)
            length += snprintf(text + length, sizeof text - (size_t)length, " %.15g",
                               (i ? n->deviation : n->mean)[c]);
    }
    if (n->channels > FEW)
        snprintf(text + length, sizeof text - (size_t)length, " %td channels by %08lX", n->channels,
                 crc32(crc32(0, (const Bytef *)n->mean, bytes), (const Bytef *)n->deviation, bytes));
    c_locale_leave(locale);
    return data_prepared(of, text);
}

data *data_normalize(const data *of, const normalization *n)
{
    if (!of) error_set("data_normalize: the data set is NULL");
    if (!of || check_channels(n, of->x, "data_normalize")) return NULL;
    normalized *own = malloc(sizeof *own);
    normalization *copy = own ? normalize_new(n->channels, n->mean, n->deviation) : NULL;
    if (!copy) {
        error_set("data_normalize: no memory");
        free(own);
        return NULL;
    }
    *own = (normalized){ of, copy, prepared(of, copy) };
    if (!own->prepared) {
        normalize_free(copy);
        free(own);
        return NULL;
    }
    return data_new((data){ .count = of->count,
                            .x = of->x,
                            .y = of->y,
                            .get = get,
                            .begin = of->begin ? begin : NULL,
                            .release = release,
                            .own = own,
                            .grain = of->grain,
                            .prepared = own->prepared });
}

/* ---- in a net's notes ------------------------------------------------------------------------ */

static json_t *list_of(ptrdiff_t count, const double *number)
{
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < count; i++) json_array_append_new(list, json_real(number[i]));
    if (json_array_size(list) == (size_t)count) return list;
    json_decref(list);
    return NULL;
}

int normalize_note(net *to, const normalization *n)
{
    if (!to) return error_set("normalize_note: the net is NULL");
    if (check_channels(n, to->input, "normalize_note")) return -1;
    json_t *note = json_pack("{s:o, s:o}", "mean", list_of(n->channels, n->mean), "deviation",
                             list_of(n->channels, n->deviation));
    char *text = note ? json_write(note) : NULL;
    int status = text ? net_set_note(to, NOTE, text) : error_set("normalize_note: no memory");
    free(text);
    json_decref(note);
    return status;
}

static int refuse_note(void)
{
    return error_set("note " NOTE ": expected {\"mean\": [...], \"deviation\": [...]}, of as many numbers");
}

/* Numbers of a list of that length. */
static int read_list(json_t *list, ptrdiff_t count, double *number)
{
    size_t i;
    json_t *value;
    if (!json_is_array(list) || json_array_size(list) != (size_t)count) return refuse_note();
    json_array_foreach(list, i, value)
    {
        if (!json_is_number(value)) return refuse_note();
        number[i] = json_number_value(value);
    }
    return 0;
}

static normalization *read_note(json_t *note, ptrdiff_t channels)
{
    normalization *n = make(channels);
    if (n && json_object_size(note) == 2 &&
        read_list(json_object_get(note, "mean"), channels, n->mean) == 0 &&
        read_list(json_object_get(note, "deviation"), channels, n->deviation) == 0)
        return n;
    if (n) refuse_note();
    normalize_free(n);
    return NULL;
}

normalization *normalize_of(const net *n)
{
    const char *text = net_note_text(n, NOTE);
    json_t *note = text ? json_read(text, strlen(text), "note " NOTE) : NULL;
    ptrdiff_t channels = (ptrdiff_t)json_array_size(json_object_get(note, "mean"));
    normalization *found = NULL;
    if (note && channels < 1) refuse_note();
    else if (note && match(channels, n->input, "note " NOTE) == 0) found = read_note(note, channels);
    json_decref(note);
    if (!found || check(found, "note " NOTE) == 0) return found;
    normalize_free(found);
    return NULL;
}
