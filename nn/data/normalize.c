/* normalize.c: means and deviations of channels: measured, applied, and kept in a net's metadata. */
#include "nn/data/normalize.h"
#include "nn/data/table_impl.h"
#include "nn/files/json.h"
#include "nn/files/metadata.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ELEMENTS = 1 << 18 /* of the samples that are measured at a time */ };

/* ---- making and ending ----------------------------------------------------------------------- */

/* Zeroed, in one block. */
static st_normalization *make(ptrdiff_t channels)
{
    const ptrdiff_t head = sizeof(st_normalization) / sizeof(double);
    st_normalization *n = array_new("normalization", head + 2 * channels, sizeof(double));
    if (n) *n = (st_normalization){ channels, (double *)n + head, (double *)n + head + channels };
    return n;
}

static int check(const st_normalization *n, const char *who)
{
    if (!n || !n->mean || !n->deviation)
        return st_error_set("%s: the %s is NULL", who, n ? "mean or deviation" : "normalization");
    if (n->channels < 1) return st_error_set("%s: %td channels, expected at least one", who, n->channels);
    for (ptrdiff_t c = 0; c < n->channels; c++) {
        if (!isfinite(n->mean[c]))
            return st_error_set("%s: the mean of channel %td is %g", who, c, printable(n->mean[c]));
        if (!(n->deviation[c] >= 0) || !isfinite(n->deviation[c]))
            return st_error_set("%s: the deviation of channel %td is %g, expected at least 0", who, c,
                                printable(n->deviation[c]));
    }
    return 0;
}

st_normalization *st_normalization_new(ptrdiff_t channels, const double *mean, const double *deviation)
{
    const st_normalization given = { channels, (double *)mean, (double *)deviation };
    st_normalization *n = check(&given, "st_normalization_new") ? NULL : make(channels);
    if (!n) return NULL;
    memcpy(n->mean, mean, (size_t)channels * sizeof *mean);
    memcpy(n->deviation, deviation, (size_t)channels * sizeof *deviation);
    return n;
}

void st_normalization_free(st_normalization *n)
{
    free(n);
}

/* A sample that is a single number is one channel. */
static ptrdiff_t channels_of(st_shape sample)
{
    return sample.rank > 0 ? sample.n[0] : 1;
}

static int match(ptrdiff_t channels, st_shape sample, const char *who)
{
    if (channels_of(sample) == channels) return 0;
    return st_error_set("%s: samples %s, expected %td channels", who, st_shape_text(sample).text, channels);
}

static int check_channels(const st_normalization *n, st_shape sample, const char *who)
{
    return check(n, who) ? -1 : match(n->channels, sample, who);
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* A number of elements, their mean, and the sum of squared differences from it. */
typedef struct moments {
    double count, mean, squares;
} moments;

/* Sums are relative to the first element, so that those of a constant are exact. `exact`, unless NULL, are
 * the elements in double. */
static moments moments_of(ptrdiff_t n, const st_real *x, const double *exact)
{
    const double first = exact ? exact[0] : (double)x[0];
    double sum = 0, squares = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += (exact ? exact[i] : (double)x[i]) - first;
    double mean = first + sum / (double)n;
    for (ptrdiff_t i = 0; i < n; i++) {
        double difference = (exact ? exact[i] : (double)x[i]) - mean;
        squares += difference * difference;
    }
    return (moments){ (double)n, mean, squares };
}

/* Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979. */
static moments merge(moments a, moments b)
{
    double count = a.count + b.count, shift = b.mean - a.mean;
    return (moments){ count, a.mean + shift * (b.count / count),
                      a.squares + b.squares + shift * shift * (a.count * b.count / count) };
}

/* Samples in turn, [N, C, ...] contiguous, from `first` on: those of `table`, unless NULL. 0, or -1 with an
 * error. */
static int add_samples(moments *sum, ptrdiff_t channels, st_tensor x, const st_dataset *table,
                       ptrdiff_t first)
{
    ptrdiff_t area = st_numel(x) / (x.shape.n[0] * channels);
    const st_real *at = st_data(x);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const double *exact = table ? table_exact(table, first + i) : NULL;
        for (ptrdiff_t c = 0; c < channels; c++, at += area) {
            sum[c] = merge(sum[c], moments_of(area, at, exact ? exact + c * area : NULL));
            if (!isfinite(sum[c].mean) || !isfinite(sum[c].squares))
                return st_error_set(
                    "st_normalization_measure: sample %td has elements in channel %td that are "
                    "not finite or too large",
                    first + i, c);
        }
    }
    return 0;
}

static st_normalization *from_moments(ptrdiff_t channels, const moments *sum)
{
    st_normalization *n = make(channels);
    for (ptrdiff_t c = 0; n && c < channels; c++) {
        n->mean[c] = sum[c].mean;
        n->deviation[c] = sqrt(sum[c].squares / sum[c].count);
    }
    return n;
}

static st_normalization *measure(const st_dataset *d, bool of_targets)
{
    if (!d) st_error_set("st_normalization_measure: the data set is NULL");
    if (!d) return NULL;
    const st_shape sample = of_targets ? d->target : d->x;
    const ptrdiff_t channels = channels_of(sample),
                    elements = st_shape_numel(sample, "st_normalization_measure");
    if (elements < 1) {
        st_error_set("st_normalization_measure: samples %s have no elements", st_shape_text(sample).text);
        return NULL;
    }
    const ptrdiff_t step = smallest(largest(1, ELEMENTS / elements), d->count);
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, step)),
              y = st_tensor_new(st_shape_with_batch(d->target, step));
    moments *sum = array_new("st_normalization_measure", channels, sizeof *sum);
    int status = sum && !st_is_null(x) && !st_is_null(y) ? 0 : -1;
    for (ptrdiff_t first = 0; first < d->count && status == 0; first += step) {
        const ptrdiff_t n = smallest(step, d->count - first);
        status = st_dataset_batch(d, NULL, first, n, st_narrow(x, 0, 0, n), st_narrow(y, 0, 0, n));
        if (status == 0)
            status = add_samples(sum, channels, st_narrow(of_targets ? y : x, 0, 0, n), of_targets ? NULL : d,
                                 first);
    }
    st_normalization *n = status == 0 ? from_moments(channels, sum) : NULL;
    if (n) n->of_targets = of_targets;
    free(sum);
    st_tensor_free(x);
    st_tensor_free(y);
    return n;
}

st_normalization *st_normalization_measure(const st_dataset *d)
{
    return measure(d, false);
}

st_normalization *st_normalization_measure_targets(const st_dataset *d)
{
    return measure(d, true);
}

/* ---- applying -------------------------------------------------------------------------------- */

typedef struct scaling {
    const st_normalization *n;
    bool undo;
    ptrdiff_t area, channel, left; /* elements of a channel; the next element's, and those left in it */
    const double *exact;           /* the elements in double, or NULL */
} scaling;

static void scale_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    scaling *s = context;
    for (ptrdiff_t i = 0, end; i < n; i = end) {
        const double measured = s->n->deviation[s->channel], deviation = measured > 0 ? measured : 1,
                     given = s->n->mean[s->channel], /* of a constant, the elements are it, rounded */
            mean = measured > 0 || s->exact ? given : (double)(st_real)given;
        end = smallest(n, i + s->left);
        for (ptrdiff_t k = i; k < end; k++) {
            st_real *x = &at[0][k * stride[0]];
            const double value = s->exact ? *s->exact++ : (double)*x;
            *x = (st_real)(s->undo ? value * deviation + mean : (value - mean) / deviation);
        }
        s->left -= end - i;
        if (s->left == 0) s->left = s->area, s->channel = (s->channel + 1) % s->n->channels;
    }
}

/* Samples in row-major order run through the channels in turn. */
static void apply(const st_normalization *n, st_tensor x, ptrdiff_t samples, bool undo, const double *exact)
{
    if (st_numel(x) == 0) return;
    const ptrdiff_t area = st_numel(x) / (samples * n->channels);
    st_walk(1, &x, ST_ROW_MAJOR, scale_row, &(scaling){ n, undo, area, 0, area, exact });
}

static int apply_batch(const st_normalization *n, st_tensor x, bool undo, const char *who)
{
    if (st_is_null(x) || x.shape.rank < 1)
        return st_error_set("%s: %s, expected a batch of samples", who,
                            st_is_null(x) ? "the null tensor" : "a single number");
    if (check_channels(n, st_shape_without_batch(x.shape), who)) return -1;
    apply(n, x, x.shape.n[0], undo, NULL);
    return 0;
}

int st_normalization_apply(const st_normalization *n, st_tensor x)
{
    return apply_batch(n, x, false, "st_normalization_apply");
}

int st_normalization_undo(const st_normalization *n, st_tensor x)
{
    return apply_batch(n, x, true, "st_normalization_undo");
}

typedef struct normalized {
    data_wrapper base;
    st_normalization *n;
} normalized;

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const normalized *own = d->own;
    own->base.of->get(own->base.of, i, x, y);
    const double *exact = own->n->of_targets ? NULL : table_exact(own->base.of, i);
    apply(own->n, own->n->of_targets ? y : x, 1, false, exact);
}

static void release(st_dataset *d)
{
    normalized *own = d->own;
    st_normalization_free(own->n);
    data_unwrap(d);
}

/* Up to FEW channels the description has all numbers, otherwise their CRC-32. */
enum { FEW = 4, DESCRIPTION = 64 + 2 * FEW * 24 };

/* "normalize mean 0.13 0.2 deviation 0.3 0.31", or "normalize 784 channels by 1A2B3C4D" */
static void describe(const st_normalization *n, char text[DESCRIPTION])
{
    uInt bytes = (uInt)n->channels * sizeof *n->mean;
    void *locale = c_locale_enter();
    int length = snprintf(text, DESCRIPTION, "normalize%s", n->of_targets ? " targets" : "");
    for (int i = 0; i < 2 && n->channels <= FEW; i++) {
        length += snprintf(text + length, DESCRIPTION - (size_t)length, i ? " deviation" : " mean");
        for (ptrdiff_t c = 0; c < n->channels; c++)
            length += snprintf(text + length, DESCRIPTION - (size_t)length, " %.15g",
                               (i ? n->deviation : n->mean)[c]);
    }
    if (n->channels > FEW)
        snprintf(text + length, DESCRIPTION - (size_t)length, " %td channels by %08lX", n->channels,
                 crc32(crc32(0, (const Bytef *)n->mean, bytes), (const Bytef *)n->deviation, bytes));
    c_locale_leave(locale);
}

st_dataset *st_dataset_normalize(const st_dataset *of, const st_normalization *n)
{
    if (!of) st_error_set("st_dataset_normalize: the data set is NULL");
    if (!of || check_channels(n, n && n->of_targets ? of->target : of->x, "st_dataset_normalize"))
        return NULL;
    normalized *own = array_new("st_dataset_normalize", 1, sizeof *own);
    if (!own || !(own->n = st_normalization_new(n->channels, n->mean, n->deviation))) {
        free(own);
        return NULL;
    }
    char text[DESCRIPTION];
    own->n->of_targets = n->of_targets;
    describe(n, text);
    return data_wrap(of, (st_dataset){ .get = get, .release = release, .own = own }, text);
}

/* ---- in a net's metadata ------------------------------------------------------------------------ */

static const char *key(bool of_targets)
{
    return of_targets ? "target_normalization" : "normalization";
}

int st_net_set_normalization(st_net *to, const st_normalization *n)
{
    if (!to) return st_error_set("st_net_set_normalization: the net is NULL");
    if (check_channels(n, n && n->of_targets ? to->output : to->input, "st_net_set_normalization")) return -1;
    json_t *object = json_pack("{s:o, s:o}", "mean", json_numbers(n->channels, n->mean), "deviation",
                               json_numbers(n->channels, n->deviation));
    char *text = object ? json_write(object) : NULL;
    int status = text ? st_net_set_metadata(to, key(n->of_targets), text)
                      : st_error_set("st_net_set_normalization: no memory");
    free(text);
    json_decref(object);
    return status;
}

/* NULL with an error. */
static st_normalization *read_metadata(const json_t *object, st_shape sample, const char *what)
{
    const ptrdiff_t channels = (ptrdiff_t)json_array_size(json_object_get(object, "mean"));
    st_normalization *n = channels > 0 ? make(channels) : NULL;
    if (!n || json_object_size(object) != 2 ||
        !json_read_numbers(json_object_get(object, "mean"), channels, n->mean) ||
        !json_read_numbers(json_object_get(object, "deviation"), channels, n->deviation))
        st_error_set("%s: expected {\"mean\": [...], \"deviation\": [...]} of the same length", what);
    else if (check_channels(n, sample, what) == 0) return n;
    st_normalization_free(n);
    return NULL;
}

static st_normalization *find(const st_net *n, bool of_targets)
{
    char what[64];
    snprintf(what, sizeof what, "metadata %s", key(of_targets));
    const char *text = st_net_metadata(n, key(of_targets));
    json_t *object = text ? json_read(text, strlen(text), what) : NULL;
    st_normalization *found = object ? read_metadata(object, of_targets ? n->output : n->input, what) : NULL;
    json_decref(object);
    if (found) found->of_targets = of_targets;
    return found;
}

st_normalization *st_net_normalization(const st_net *n)
{
    return find(n, false);
}

st_normalization *st_net_target_normalization(const st_net *n)
{
    return find(n, true);
}
