/* digits.c: a digit is a few strokes of a pen, bent and thickened at random, and inked by the distance of
 * each pixel to the pen's path. */
#include "nn/data/digits.h"
#include "nn/data/data_impl.h"
#include "tensor/array.h"
#include "tensor/parallel.h"
#include "tensor/random.h"

#include <math.h>

enum {
    CLASSES = 10,
    SIDE = 28,
    PIXELS = SIDE * SIDE,
    STROKES = 2,
    KNOTS = 14,
    POINTS = 400 /* of all paths of one image */
};

static const float TAU = 6.2831853f;

/* Keeps the numbers apart from those that a program draws with the same seed for its network. */
static const uint64_t OWN_NUMBERS = 0x6469676974730000; /* "digits" */

/* ---- how digits are written ------------------------------------------------------------------ */

/* The pen goes through the knots on a smooth curve that may turn sharply at corners. x runs right and y
 * down, from 1 to 100; a knot at 0, 0 ends the stroke, and a stroke without knots the digit. */
typedef struct knot {
    unsigned char x, y;
    bool corner;
} knot;

typedef struct glyph {
    int digit;
    knot stroke[STROKES][KNOTS];
} glyph;

enum { CORNER = true };

/* clang-format off */
static const glyph glyphs[] = {
    { 0, { { {52,3}, {28,14}, {17,45}, {24,82}, {50,97}, {76,82}, {83,48}, {74,15}, {50,3} } } },
    { 0, { { {60,6}, {40,10}, {26,38}, {28,75}, {44,96}, {62,84}, {72,52}, {68,18}, {52,5}, {42,12} } } },
    { 0, { { {68,14}, {48,4}, {22,24}, {14,58}, {28,92}, {58,94}, {82,66}, {84,32}, {66,8}, {46,14} } } },
    { 0, { { {40,10}, {20,35}, {22,78}, {50,96}, {80,76}, {82,36}, {64,8}, {44,6} } } },
    { 0, { { {70,4}, {38,16}, {18,52}, {30,90}, {62,94}, {84,60}, {76,22}, {52,14}, {34,22} } } },
    { 1, { { {50,2}, {50,50}, {50,98} } } },
    { 1, { { {52,2}, {51,34}, {49,66}, {50,98} } } },
    { 1, { { {62,2}, {52,48}, {40,98} } } },
    { 1, { { {38,17}, {52,3,CORNER}, {52,50}, {52,98} } } },
    { 1, { { {38,18}, {53,3,CORNER}, {53,50}, {52,96} }, { {30,97}, {52,96}, {76,97} } } },
    { 2, { { {20,24}, {34,7}, {58,4}, {76,20}, {70,44}, {46,70}, {18,95,CORNER}, {50,94}, {84,95} } } },
    { 2, { { {22,20}, {46,3}, {72,14}, {72,40}, {50,68}, {26,90}, {14,84}, {26,74}, {48,86}, {70,96},
        {90,88} } } },
    { 2, { { {24,14}, {50,5}, {70,18}, {64,46}, {40,78}, {22,96,CORNER}, {48,90}, {68,96}, {86,90} } } },
    { 2, { { {18,10}, {46,6}, {74,12}, {66,38}, {42,70}, {20,94,CORNER}, {82,92} } } },
    { 2, { { {16,34}, {26,12}, {52,4}, {74,20}, {66,52}, {42,84}, {24,95}, {14,86}, {30,78}, {56,90},
        {84,98} } } },
    { 2, { { {26,20}, {46,5}, {68,14}, {64,42}, {40,72}, {8,92,CORNER}, {52,88}, {98,88} } } },
    { 2, { { {30,14}, {54,5}, {68,24}, {58,54}, {36,84}, {16,88}, {18,68}, {44,70}, {70,86}, {96,98} } } },
    { 3, { { {22,15}, {44,3}, {70,10}, {72,32}, {44,47,CORNER}, {74,58}, {78,80}, {52,97}, {20,88} } } },
    { 3, { { {22,8}, {50,6}, {76,8,CORNER}, {44,42,CORNER}, {74,54}, {78,78}, {54,97}, {20,88} } } },
    { 3, { { {24,18}, {42,4}, {68,10}, {70,34}, {46,48}, {38,46}, {48,44}, {74,58}, {74,84}, {46,98},
        {20,84} } } },
    { 3, { { {26,8}, {56,3}, {72,20}, {60,40}, {36,46,CORNER}, {66,52}, {80,72}, {64,94}, {36,98},
        {16,90} } } },
    { 3, { { {12,14}, {44,4}, {74,14}, {60,36}, {40,46,CORNER}, {74,50}, {88,70}, {64,90}, {30,96} } } },
    { 4, { { {30,6}, {24,30}, {20,52,CORNER}, {50,53}, {84,49} }, { {72,10}, {70,50}, {66,98} } } },
    { 4, { { {68,4}, {42,34}, {14,64,CORNER}, {50,64}, {92,62} }, { {70,6}, {69,50}, {68,98} } } },
    { 4, { { {26,4}, {20,28}, {28,50}, {52,54}, {74,40}, {78,8,CORNER}, {74,50}, {68,98} } } },
    { 4, { { {66,98}, {70,50}, {72,4,CORNER}, {42,32}, {16,60,CORNER}, {52,60}, {92,57} } } },
    { 4, { { {22,8}, {18,34}, {30,48}, {56,48}, {74,44} }, { {80,4}, {76,44}, {72,98} } } },
    { 4, { { {34,4}, {20,44}, {28,58}, {60,54}, {96,44} }, { {78,18}, {64,60}, {56,98} } } },
    { 5, { { {30,6}, {26,26}, {23,44,CORNER}, {48,36}, {74,50}, {78,76}, {54,97}, {18,90} }, { {30,6}, {54,7},
        {82,5} } } },
    { 5, { { {80,5}, {56,6}, {34,7,CORNER}, {26,42,CORNER}, {56,40}, {78,62}, {68,90}, {40,98}, {18,88} } } },
    { 5, { { {82,6}, {54,6}, {36,14}, {28,34}, {44,46}, {66,58}, {72,80}, {50,97}, {20,90} } } },
    { 5, { { {36,14}, {34,34}, {32,46}, {56,50}, {68,70}, {54,92}, {30,98}, {14,88} }, { {36,14}, {60,12},
        {88,3} } } },
    { 5, { { {40,14}, {34,40,CORNER}, {62,46}, {70,68}, {46,90}, {8,96} }, { {42,14}, {66,8}, {98,6} } } },
    { 6, { { {66,3}, {42,18}, {24,48}, {24,80}, {48,97}, {74,84}, {74,62}, {52,52}, {28,68} } } },
    { 6, { { {48,2}, {34,28}, {26,60}, {34,90}, {58,97}, {76,80}, {66,60}, {44,62}, {28,78} } } },
    { 6, { { {76,8}, {54,5}, {30,26}, {18,60}, {30,92}, {60,94}, {78,74}, {62,54}, {38,58}, {22,76} } } },
    { 6, { { {40,2}, {30,40}, {26,74}, {40,96}, {66,92}, {72,72}, {54,62}, {30,78} } } },
    { 6, { { {46,3}, {20,40}, {14,78}, {40,97}, {76,88}, {88,66}, {68,52}, {42,66}, {34,90} } } },
    { 6, { { {58,3}, {34,34}, {24,66}, {34,94}, {58,96}, {68,78}, {54,68}, {38,78}, {34,90} } } },
    { 7, { { {16,10}, {46,9}, {80,7,CORNER}, {58,50}, {42,98} } } },
    { 7, { { {18,10}, {48,8}, {82,6,CORNER}, {62,44}, {44,98} }, { {34,50}, {56,49}, {80,47} } } },
    { 7, { { {18,24}, {20,8,CORNER}, {48,10}, {80,6,CORNER}, {60,40}, {46,98} } } },
    { 7, { { {16,16}, {34,6}, {56,12}, {80,7}, {74,26}, {52,60}, {46,98} } } },
    { 7, { { {22,6}, {50,6}, {72,8,CORNER}, {68,50}, {64,98} } } },
    { 7, { { {6,18}, {40,10}, {78,8}, {88,18}, {68,54}, {54,98} } } },
    { 7, { { {10,30}, {22,8}, {56,6}, {82,10}, {82,34}, {64,66}, {58,98} } } },
    { 8, { { {72,16}, {50,3}, {28,16}, {34,38}, {66,58}, {76,82}, {50,97}, {24,82}, {36,58}, {64,38}, {74,18},
        {66,8} } } },
    { 8, { { {50,46}, {30,30}, {34,8}, {58,4}, {72,22}, {58,44}, {34,58}, {22,80}, {44,98}, {72,88}, {74,64},
        {48,46} } } },
    { 8, { { {50,3}, {30,12}, {30,34}, {50,46}, {70,34}, {70,12}, {50,3} }, { {50,46}, {24,60}, {24,86},
        {50,97}, {76,86}, {76,60}, {50,46} } } },
    { 8, { { {78,8}, {48,6}, {28,22}, {44,44}, {66,64}, {68,90}, {42,97}, {26,82}, {42,56}, {66,34},
        {82,10} } } },
    { 8, { { {84,20}, {56,4}, {16,14}, {18,34}, {50,48}, {68,70}, {58,95}, {34,92}, {36,68}, {60,44},
        {88,22} } } },
    { 8, { { {26,16}, {48,4}, {70,14}, {64,36}, {36,58}, {24,82}, {48,97}, {74,84}, {66,58}, {36,38},
        {26,14} } } },
    { 9, { { {74,24}, {54,4}, {28,14}, {24,40}, {46,52}, {68,36}, {76,10,CORNER}, {74,50}, {68,98} } } },
    { 9, { { {76,16}, {48,4}, {24,26}, {36,50}, {62,44}, {76,18}, {77,48}, {70,82}, {48,97}, {24,90} } } },
    { 9, { { {72,10}, {44,6}, {24,28}, {42,48}, {68,32}, {74,8,CORNER}, {66,50}, {50,98} } } },
    { 9, { { {64,40}, {40,50}, {26,28}, {46,5}, {68,14}, {70,40}, {62,70}, {54,98} } } },
    { 9, { { {84,16}, {58,4}, {20,20}, {18,42}, {48,44}, {82,18,CORNER}, {70,58}, {60,98} } } },
    { 9, { { {66,26}, {60,6}, {40,8}, {32,26}, {48,36}, {64,24}, {68,44}, {60,76}, {58,98} } } },
};
/* clang-format on */

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* One image's own sequence of random numbers. */
typedef struct dice {
    st_random_key key;
    uint64_t thrown;
} dice;

static float uniform(dice *d, float low, float high)
{
    return low + (high - low) * (float)st_random_uniform(d->key, d->thrown++);
}

static float normal(dice *d, float deviation)
{
    return deviation * (float)st_random_normal(d->key, d->thrown++);
}

/* ---- the pen's path -------------------------------------------------------------------------- */

typedef struct point {
    float x, y;
} point;

/* The points of all strokes, in units of the glyph's table and then in pixels; a stroke begins after a
 * `lift`. */
typedef struct path {
    int count;
    point at[POINTS];
    bool lift[POINTS];
} path;

/* A hand slants and stretches the whole, writes the top or the bottom wider and the middle higher or
 * lower, bends lines by a slow wave across each axis, and trembles. */
typedef struct hand {
    float xx, xy, yx, yy; /* turn . slant . stretch */
    float taper, middle;
    float bend[2], wave[2], phase[2];
    float tremor;
} hand;

/* One throw a statement: the order of evaluation within one is the compiler's. */
static hand some_hand(dice *d)
{
    float turn = normal(d, 0.12f);
    float slant = normal(d, 0.2f) + 0.18f; /* most people's writing leans to the right */
    float width = uniform(d, 0.6f, 1.2f);
    float c = cosf(turn), s = sinf(turn);
    hand h = { .xx = c * width, .xy = -c * slant - s, .yx = s * width, .yy = c - s * slant };
    h.taper = clamp(normal(d, 0.18f), -0.6f, 0.6f);
    h.middle = normal(d, 6);
    h.tremor = uniform(d, 1, 3.4f);
    for (int i = 0; i < 2; i++) {
        h.bend[i] = normal(d, 4);
        h.wave[i] = uniform(d, 0.5f, 1.2f) * TAU / 100;
        h.phase[i] = uniform(d, 0, TAU);
    }
    return h;
}

static point written(const hand *h, knot k, dice *d)
{
    float x = (float)k.x - 50 + normal(d, h->tremor);
    float y = (float)k.y - 50 + normal(d, h->tremor);
    float wide = x * (1 + h->taper * y / 50), deep = y + h->middle * (1 - y * y / 2500);
    float bent_x = wide + h->bend[0] * sinf(h->wave[0] * y + h->phase[0]);
    float bent_y = deep + h->bend[1] * sinf(h->wave[1] * x + h->phase[1]);
    return (point){ h->xx * bent_x + h->xy * bent_y, h->yx * bent_x + h->yy * bent_y };
}

/* Catmull and Rom's curve from b to c, a before and d after them. */
static float curve(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

static void add_point(path *p, point at, bool lift)
{
    if (p->count == POINTS) return;
    p->at[p->count] = at;
    p->lift[p->count++] = lift;
}

static void add_stroke(path *p, const knot *knots, const hand *h, dice *d)
{
    point at[KNOTS];
    int count = 0;
    for (; count < KNOTS && knots[count].x; count++) at[count] = written(h, knots[count], d);
    if (count == 0) return;
    add_point(p, at[0], true);
    for (int i = 0; i + 1 < count; i++) {
        /* Points beyond an end or a corner do not affect the curve. */
        point b = at[i], c = at[i + 1];
        point before = i == 0 || knots[i].corner ? b : at[i - 1];
        point after = i + 2 == count || knots[i + 1].corner ? c : at[i + 2];
        int steps = 2 + (int)(hypotf(c.x - b.x, c.y - b.y) / 8); /* of a pixel or two each */
        for (int s = 1; s <= steps; s++) {
            float t = (float)s / (float)steps;
            point next = { curve(before.x, b.x, c.x, after.x, t), curve(before.y, b.y, c.y, after.y, t) };
            add_point(p, next, false);
        }
    }
}

/* One of the digit's, which follow each other. */
static const glyph *some_glyph(int digit, dice *d)
{
    const glyph *first = glyphs, *end = glyphs + sizeof glyphs / sizeof *glyphs;
    while (first->digit < digit) first++;
    int variants = 0;
    while (first + variants < end && first[variants].digit == digit) variants++;
    return first + st_random_below(d->key, d->thrown++, (uint64_t)variants);
}

/* Sizes and places are MNIST's: the larger side is about 20 pixels, the middle about in the middle. */
static void place(path *p, dice *d)
{
    point low = p->at[0], high = low;
    for (int i = 1; i < p->count; i++) {
        low = (point){ fminf(low.x, p->at[i].x), fminf(low.y, p->at[i].y) };
        high = (point){ fmaxf(high.x, p->at[i].x), fmaxf(high.y, p->at[i].y) };
    }
    float scale = uniform(d, 15, 19.5f) / fmaxf(high.x - low.x, high.y - low.y);
    float x = SIDE / 2.0f + uniform(d, -1.8f, 1.8f), y = SIDE / 2.0f + uniform(d, -1.8f, 1.8f);
    for (int i = 0; i < p->count; i++) {
        p->at[i].x = x + scale * (p->at[i].x - (low.x + high.x) / 2);
        p->at[i].y = y + scale * (p->at[i].y - (low.y + high.y) / 2);
    }
}

/* ---- ink ------------------------------------------------------------------------------------- */

/* Blackens `ink` around the segment from a to b, of a pen `radius` wide, with an edge of `soft` pixels. */
static void draw_segment(float ink[PIXELS], point a, point b, float radius, float soft)
{
    float reach = radius + soft / 2, dx = b.x - a.x, dy = b.y - a.y;
    float inverse = 1 / fmaxf(dx * dx + dy * dy, 1e-6f), sharp = 1 / soft;
    int left = (int)clamp(fminf(a.x, b.x) - reach, 0, SIDE),
        right = (int)clamp(fmaxf(a.x, b.x) + reach + 1, 0, SIDE);
    int top = (int)clamp(fminf(a.y, b.y) - reach, 0, SIDE),
        bottom = (int)clamp(fmaxf(a.y, b.y) + reach + 1, 0, SIDE);
    for (int i = top; i < bottom; i++) {
        float *row = ink + i * SIDE, y = (float)i + 0.5f - a.y;
        for (int j = left; j < right; j++) {
            float x = (float)j + 0.5f - a.x;
            float t = clamp((x * dx + y * dy) * inverse, 0, 1); /* the nearest place of the segment */
            float ex = x - t * dx, ey = y - t * dy;
            float dark = (reach - sqrtf(ex * ex + ey * ey)) * sharp;
            row[j] = dark > row[j] ? dark : row[j];
        }
    }
}

/* The pen is pressed harder here and lighter there. */
static void draw_path(float ink[PIXELS], const path *p, dice *d)
{
    float radius = uniform(d, 0.7f, 1.9f), soft = uniform(d, 1.0f, 1.8f);
    float pressure = uniform(d, 0, 0.22f), phase = uniform(d, 0, TAU), wave = uniform(d, 0.05f, 0.25f);
    for (int i = 0; i < p->count; i++) {
        if (p->lift[i]) continue;
        float here = radius * (1 + pressure * sinf(phase + wave * (float)i));
        draw_segment(ink, p->at[i - 1], p->at[i], here, soft);
    }
}

static void develop(unsigned char *image, const float ink[PIXELS], dice *d)
{
    enum { BLOCKS = PIXELS / 16 }; /* a block of random bits has sixteen bytes */
    float contrast = uniform(d, 0.75f, 1), grain = uniform(d, 0, 0.12f), value[PIXELS];
    uint32_t word[4 * BLOCKS];
    st_random_words(d->key, d->thrown, word, BLOCKS), d->thrown += BLOCKS;
    for (int i = 0; i < PIXELS; i++) value[i] = (float)(word[i / 4] >> 8 * (i % 4) & 255) / 255 - 0.5f;
    for (int i = 0; i < PIXELS; i++)
        value[i] = clamp(contrast * clamp(ink[i], 0, 1) + grain * value[i], 0, 1);
    for (int i = 0; i < PIXELS; i++) image[i] = (unsigned char)(255 * value[i] + 0.5f);
}

/* ---- the data set ---------------------------------------------------------------------------- */

static void draw(unsigned char *image, int digit, st_random_key key)
{
    dice d = { key, 0 };
    hand h = some_hand(&d);
    const glyph *g = some_glyph(digit, &d);
    path p;
    p.count = 0;
    for (int s = 0; s < STROKES; s++) add_stroke(&p, g->stroke[s], &h, &d);
    place(&p, &d);
    float ink[PIXELS] = { 0 };
    draw_path(ink, &p, &d);
    develop(image, ink, &d);
}

/* Each ten in a row are the ten digits in an order of their own. */
static int digit_of(ptrdiff_t i, uint64_t seed)
{
    ptrdiff_t order[CLASSES];
    st_random_permutation(order, CLASSES, (st_random_key){ seed, UINT64_MAX - (uint64_t)(i / CLASSES) });
    return (int)order[i % CLASSES];
}

typedef struct drawing {
    unsigned char *images, *labels;
    uint64_t seed;
} drawing;

static void draw_one(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const drawing *d = context;
    int digit = digit_of(i, d->seed);
    d->labels[i] = (unsigned char)digit;
    draw(d->images + i * PIXELS, digit, (st_random_key){ d->seed, (uint64_t)i });
}

st_dataset *st_digits(ptrdiff_t count, uint64_t seed)
{
    if (count < 1) {
        st_error_set("st_digits: %td images, expected at least one", count);
        return NULL;
    }
    unsigned char *images = array_new("st_digits", count, PIXELS + 1);
    if (!images) return NULL;
    unsigned char *labels = images + count * PIXELS;
    parallel_for(st_num_threads(), count, draw_one, &(drawing){ images, labels, seed ^ OWN_NUMBERS });
    return data_bytes(count, ST_SHAPE(1, SIDE, SIDE), (byte_images){ images, labels, PIXELS, 1, images });
}
