/* page.c: see page.h. */
#include "examples/stride/page.h"
#include "examples/stride/text.h"
#include "nn/files/replace.h"
#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values -------------------------------------------------------------------------------------- */

void page_add(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value)) st_error_set("no memory for a page");
}

json_t *page_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *page_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    char *clean = malloc(3 * strlen(text) + 1), *at = clean;
    for (int length; clean && *text; text += length > 0 ? length : 1) {
        length = *text == '\n' || *text == '\t' ? 1 : text_character(text);
        const size_t bytes = length > 0 ? (size_t)length : 3;
        memcpy(at, length > 0 ? text : replacement, bytes);
        at += bytes;
    }
    json_t *string = clean ? json_stringn(clean, (size_t)(at - clean)) : NULL;
    free(clean);
    return string;
}

/* ---- images -------------------------------------------------------------------------------------- */

enum { MOST_SIDE = 96 };

typedef struct picture {
    st_tensor x;
    double low, high;
    ptrdiff_t block; /* pixels of x on a side of a pixel */
    ptrdiff_t width, height, channels;
} picture;

/* The mean of a block of `count` channels from `first` on. */
static double mean(const picture *p, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t *n = p->x.shape.n, block = p->block;
    double sum = 0, pixels = 0;
    for (ptrdiff_t c = first; c < first + count; c++)
        for (ptrdiff_t a = i * block; a < (i + 1) * block && a < n[1]; a++)
            for (ptrdiff_t b = j * block; b < (j + 1) * block && b < n[2]; b++, pixels++)
                sum += (double)*st_at(p->x, ST_INDEX(c, a, b));
    return sum / pixels;
}

static unsigned char pixel(const picture *p, ptrdiff_t at)
{
    const ptrdiff_t k = at % p->channels, j = at / p->channels % p->width, i = at / p->channels / p->width;
    const double value = p->channels == 3 ? mean(p, k, 1, i, j) : mean(p, 0, p->x.shape.n[0], i, j),
                 part = (value - p->low) / (p->high - p->low);
    return (unsigned char)lround(255 * (part > 0 ? fmin(part, 1) : 0)); /* NaN: 0 */
}

/* RFC 4648. */
static json_t *pixels(const picture *p)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const ptrdiff_t count = p->width * p->height * p->channels;
    char *text = malloc((size_t)(count + 2) / 3 * 4 + 1), *at = text;
    for (ptrdiff_t i = 0; text && i < count; i += 3, at += 4) {
        unsigned three = 0;
        for (ptrdiff_t k = i; k < i + 3; k++) three = three << 8 | (k < count ? pixel(p, k) : 0);
        for (int k = 0; k < 4; k++) at[k] = i + k > count ? '=' : digit[three >> (18 - 6 * k) & 63];
    }
    json_t *string = text ? json_stringn(text, (size_t)(at - text)) : NULL;
    free(text);
    return string;
}

json_t *page_image(st_tensor image, double low, double high)
{
    const ptrdiff_t *n = image.shape.n;
    if (image.shape.rank != 3 || st_numel(image) == 0) return json_null();
    const ptrdiff_t block = ((n[1] > n[2] ? n[1] : n[2]) + MOST_SIDE - 1) / MOST_SIDE;
    const picture p = { .x = image,
                        .low = low,
                        .high = high,
                        .block = block,
                        .width = (n[2] + block - 1) / block,
                        .height = (n[1] + block - 1) / block,
                        .channels = n[0] == 3 ? 3 : 1 };
    return json_pack("{s:I, s:I, s:I, s:o}", "width", (json_int_t)p.width, "height", (json_int_t)p.height,
                     "channels", (json_int_t)p.channels, "pixels", pixels(&p));
}

/* ---- the file ------------------------------------------------------------------------------------ */

/* Lines of page.html with those of its style and its script, which examples.mk puts in place. */
static const char *const lines[] = {
#include "examples/stride/page.inc"
};

/* Nothing but < could end the script or begin a comment; in JSON it stands in strings only. */
int page_put_json(FILE *to, const void *data)
{
    char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(9));
    for (const char *c = text; c && *c; c++) *c == '<' ? fputs("\\u003c", to) : fputc(*c, to);
    const bool written = text && fputc('\n', to) != EOF;
    free(text);
    return written ? 0 : -1;
}

static int put_page(FILE *to, const void *data)
{
    int status = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines && status == 0; i++)
        if (strcmp(lines[i], "DATA\n") == 0) status = page_put_json(to, data);
        else fputs(lines[i], to);
    return status;
}

int page_write(const char *path, json_t *data)
{
    if (!data) st_error_set("%s: no memory for a page", path);
    const int status = st_error() ? -1 : st_file_replace(path, put_page, data);
    json_decref(data);
    return status;
}
