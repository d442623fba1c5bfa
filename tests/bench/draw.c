/* draw.c: draws layers at random, as a list for `bench --list`: types, options and shapes from the rollers
 * that the tests draw theirs from, of sizes that networks have.
 *
 *   draw SEED [COUNT]     200 lines such as "layer 64x12x28x28 conv2d 24 3x2 stride=2", the same for a seed
 *
 * A time is drawn for each layer, and channels and sides of images until a batch of a usual size takes
 * about as long. That is estimated from operations and bytes alone, never measured, so that no machine and
 * no algorithm has a say. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/network.h"
#include "tests/layers/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 60, MOST_IMAGES = 128, MOST_ROWS = 8192 };

/* Operations and bytes that a core may be expected to do in a second: multiply-adds of products, sums of
 * windows and the like, what is read and written. */
static const double products = 60e9, sums = 1.5e9, bytes = 10e9;
static const double least_seconds = 0.0006, most_seconds = 0.008;

/* ---- sizes --------------------------------------------------------------------------------------- */

static bool multiplies(const st_layer *l)
{
    return strstr(l->type->name, "conv") || strcmp(l->type->name, "dense") == 0;
}

static void add_seconds(st_layer *l, const char *path, void *context)
{
    (void)path;
    double *seconds = context;
    if (l->children) return;
    *seconds += l->flops / (multiplies(l) ? products : sums);
    *seconds += sizeof(float) * (double)(st_shape_numel(l->x, "draw") + st_shape_numel(l->y, "draw")) / bytes;
}

/* The layer is planned for one image. */
static double seconds_an_image(st_layer *l)
{
    double seconds = 0;
    st_layer_visit(l, add_seconds, &seconds);
    return seconds;
}

/* ---- layers -------------------------------------------------------------------------------------- */

static int uniform(dice *d, int most)
{
    return (int)roll(d, 0, most);
}

static double log_uniform(dice *d, double least, double most)
{
    return least * pow(most / least, (double)roll(d, 0, 1000) / 1000);
}

/* Some time and size of the layer that the dice roll: its net of one image, and the batch; NULL where that
 * is too small or too large, unless it is the last try. Later tries have more channels. */
static st_net *size_layer(const layer_case *c, dice d, dice *size, int tried, ptrdiff_t *batch)
{
    st_shape x;
    const double seconds = log_uniform(size, least_seconds, most_seconds);
    d.wider = 1 << uniform(size, 7 + tried / 10), d.longer = 1 << uniform(size, 5);
    st_layer *l = c->roll(&d, &x);
    st_net *n = l ? st_net_new_of(st_shape_without_batch(x), 1, &l) : NULL;
    if (!n) return NULL;
    const double images = seconds / seconds_an_image(n->root), most = x.rank == 2 ? MOST_ROWS : MOST_IMAGES;
    *batch = (ptrdiff_t)fmax(1, fmin(MOST_ROWS, round(images)));
    if (tried == TRIES || (images > 0.7 && images < most)) return n;
    st_net_free(n);
    return NULL;
}

/* Its text, which is to be freed, is what follows the line of the input; NULL where it has none. */
static char *text_of(const st_net *n)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    const bool written = to && network_write(n, to) == 0;
    if (to) fclose(to);
    if (written) return text;
    free(text);
    return NULL;
}

/* A function of one's own has no text. */
static void print_layer(const st_net *n, ptrdiff_t batch)
{
    char *text = text_of(n), *line = text ? strchr(text, '\n') + 1 : NULL;
    if (!text) st_error_clear();
    if (!text) printf("# left out: %s has a function of one's own\n", n->root->child[0]->type->name);
    if (text) {
        printf("layer %td", batch);
        for (int i = 0; i < n->input.rank; i++) printf("x%td", n->input.n[i]);
        printf(" %s", line);
    }
    free(text);
}

static int draw(uint64_t seed, uint64_t number)
{
    int rows = 0;
    while (layer_cases[rows].name) rows++;
    dice size = { { seed, 2 * number } }, d = { { seed, 2 * number + 1 } };
    const layer_case *c = &layer_cases[uniform(&size, rows - 1)];
    ptrdiff_t batch;
    st_net *n = NULL;
    for (int i = 0; i <= TRIES && !n && !st_error(); i++) n = size_layer(c, d, &size, i, &batch);
    if (!n) return -1;
    print_layer(n, batch);
    st_net_free(n);
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    const uint64_t seed = argc > 1 ? strtoull(argv[1], &end, 10) : 0,
                   count = argc > 2 ? strtoull(argv[2], NULL, 10) : 200;
    if (!end || end == argv[1] || *end || argc > 3 || count < 1) {
        fputs("usage: draw SEED [COUNT]\n", stderr);
        return 2;
    }
    for (uint64_t i = 0; i < count && !st_error(); i++) draw(seed, i);
    if (st_error()) fprintf(stderr, "draw: %s\n", st_error());
    return st_error() != NULL;
}
