/* pictures.c: draws what the library does with a small image, as SVG: its windows as a view, what max pooling
 * keeps, and where the gradient goes. Every number in the picture is computed by the library. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

enum { SIDE = 6, KERNEL = 3, WINDOWS = SIDE - KERNEL + 1, CELL = 34, MARGIN = 24, HEAD = 60, FOOT = 44 };
enum { COLUMN_WIDTH = 292, WIDTH = 2 * MARGIN + 2 * COLUMN_WIDTH + SIDE * CELL + 44 };

/* The window that the picture follows. */
enum { ROW = 1, COLUMN = 2 };

/* A place in the picture. */
typedef struct point {
    double x, y;
} point;

/* The corner of a cell of the grid that begins at `at`. */
static point corner(point at, ptrdiff_t row, ptrdiff_t column)
{
    return (point){ at.x + (double)column * CELL, at.y + (double)row * CELL };
}

static point middle(point at, ptrdiff_t row, ptrdiff_t column)
{
    const point c = corner(at, row, column);
    return (point){ c.x + CELL / 2.0, c.y + CELL / 2.0 };
}

static void text(point at, const char *kind, const char *words)
{
    printf("  <text x=\"%g\" y=\"%g\" class=\"%s\">%s</text>\n", at.x, at.y, kind, words);
}

/* A square for each element, darker the larger it is. */
static void grid(point at, st_tensor x, double most, const char *hue)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t j = 0; j < x.shape.n[1]; j++) {
            const double value = (double)*st_at(x, ST_INDEX(i, j));
            const point c = corner(at, i, j), m = middle(at, i, j);
            char number[32];
            printf("  <rect x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" fill-opacity=\"%.2f\" "
                   "class=\"cell %s\"/>\n",
                   c.x, c.y, CELL, CELL, 0.75 * value / most, hue);
            snprintf(number, sizeof number, "%g", value);
            text((point){ m.x, m.y + 5 }, "number", number);
        }
}

static void frame(point at, ptrdiff_t row, ptrdiff_t column, ptrdiff_t size)
{
    const point c = corner(at, row, column);
    printf("  <rect x=\"%g\" y=\"%g\" width=\"%td\" height=\"%td\" class=\"mark\"/>\n", c.x, c.y, size * CELL,
           size * CELL);
}

static void ring(point at, ptrdiff_t row, ptrdiff_t column)
{
    const point m = middle(at, row, column);
    printf("  <circle cx=\"%g\" cy=\"%g\" r=\"%g\" class=\"mark\"/>\n", m.x, m.y, CELL / 2.0 - 3);
}

/* A point a little beside a row of a grid: before it for column 0, otherwise after it. */
static point edge(point at, ptrdiff_t row, ptrdiff_t column)
{
    const point c = corner(at, row, column);
    return (point){ c.x + (column ? 5 : -5), c.y + CELL / 2.0 };
}

/* From the edge of one grid to that of the next, in a curve. */
static void arrow(point from, point to)
{
    const double half = (to.x - from.x) / 2;
    printf("  <path d=\"M%g %gC%g %g %g %g %g %g\" class=\"arrow\" marker-end=\"url(#head)\"/>\n", from.x,
           from.y, from.x + half, from.y, to.x - half, to.y, to.x - 9, to.y);
}

static void heading(double left, const char *what, const char *how)
{
    text((point){ left, MARGIN + 12 }, "heading", what);
    text((point){ left, MARGIN + 32 }, "code", how);
}

/* The colours are those of the reader's screen, light or dark. */
static void begin(double height)
{
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %g\" width=\"%d\" height=\"%g\" "
           "role=\"img\">\n",
           WIDTH, height, WIDTH, height);
    puts("  <title>A view of windows, what max pooling keeps, and where its gradient goes</title>");
    puts("  <style>\n"
         "    .paper { fill: #fff } .x { fill: #4c78a8 } .dx { fill: #f2a541 }\n"
         "    text { font-family: sans-serif; fill: #1a1a1a }\n"
         "    .number { font-size: 14px; text-anchor: middle }\n"
         "    .heading { font-size: 16px; font-weight: bold }\n"
         "    .code, .note { font-size: 12.5px; fill: #555 } .code { font-family: monospace }\n"
         "    .cell { stroke: #888; stroke-width: 0.5 }\n"
         "    .mark { fill: none; stroke: #d1495b; stroke-width: 3 }\n"
         "    .arrow { fill: none; stroke: #d1495b; stroke-width: 1.8 } .head { fill: #d1495b }\n"
         "    @media (prefers-color-scheme: dark) {\n"
         "      .paper { fill: #13171c } .x { fill: #5a94d6 } .dx { fill: #d98a1f }\n"
         "      text { fill: #e6e9ed } .code, .note { fill: #9ba5b3 } .cell { stroke: #566070 }\n"
         "      .mark, .arrow { stroke: #ff7b8a } .head { fill: #ff7b8a }\n"
         "    }\n"
         "  </style>\n"
         "  <marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"8\" "
         "markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\n"
         "    <path d=\"M0 0L8 4L0 8z\" class=\"head\"/>\n  </marker>");
    printf("  <rect width=\"%d\" height=\"%g\" rx=\"10\" class=\"paper\"/>\n", WIDTH, height);
}

static void draw(st_tensor image, st_tensor windows, st_tensor y, st_tensor dx)
{
    const double top = MARGIN + HEAD, bottom = top + SIDE * CELL;
    const point left = { MARGIN, top }, centre = { MARGIN + COLUMN_WIDTH, top + CELL },
                right = { MARGIN + 2 * COLUMN_WIDTH, top };
    ptrdiff_t most; /* in the window that is followed */
    char note[300];
    st_argmax(&most, st_select(st_select(windows, 0, ROW), 0, COLUMN), ST_AXES(0, 1));
    const ptrdiff_t row = ROW + most / KERNEL, column = COLUMN + most % KERNEL;
    begin(bottom + FOOT);
    heading(left.x, "a view: windows", "st_unfold copies nothing");
    heading(centre.x, "forward: max pooling", "st_max(y, windows(x), ...)");
    heading(right.x, "backward: where dy goes", "st_add(windows(dx), 1, ...)");
    grid(left, image, 9, "x");
    grid(centre, y, 9, "x");
    grid(right, dx, 5, "dx");
    frame(left, ROW, COLUMN, KERNEL);
    ring(left, row, column);
    frame(centre, ROW, COLUMN, 1);
    ring(right, row, column);
    arrow(edge(left, row, SIDE), edge(centre, ROW, 0));
    arrow(edge(centre, ROW, WINDOWS), edge(right, row, 0));
    snprintf(note, sizeof note, "shape %s, strides (%td, %td, %td, %td)", st_shape_text(windows.shape).text,
             windows.stride[0], windows.stride[1], windows.stride[2], windows.stride[3]);
    text((point){ left.x, bottom + 24 }, "note", note);
    text((point){ right.x, bottom + 24 }, "note", "dy is 1; windows that share a pixel add up");
    puts("</svg>");
}

int main(int argc, char **argv)
{
    static st_real pixels[] = { 3, 0, 0, 7, 1, 3, 6, 1, 3, 5, 1, 5, 0, 2, 0, 1, 5, 4,
                                3, 1, 1, 1, 7, 8, 2, 1, 0, 0, 1, 4, 4, 0, 1, 3, 3, 9 };
    if (argc > 1) {
        const bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs("usage: pictures >FILE.svg\n\nDraws a view's windows, max pooling and its gradient.\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    st_tensor image = st_tensor_wrap(pixels, ST_SHAPE(SIDE, SIDE));
    st_tensor windows = st_unfold(st_unfold(image, 0, KERNEL, 1, 1), 1, KERNEL, 1, 1); /* [4, 4, 3, 3] */

    const st_shape batch = ST_SHAPE(1, 1, SIDE, SIDE), pooled = ST_SHAPE(1, 1, WINDOWS, WINDOWS);
    st_layer *pool = st_maxpool(.kernel = { KERNEL }, .stride = { 1 });
    st_tensor y = st_tensor_new(pooled), dy = st_tensor_new(pooled), dx = st_tensor_new(batch);
    st_fill(dy, 1);
    st_layer_build(pool, batch, 1);
    st_layer_forward(pool, st_reshape(image, batch), y);
    st_layer_backward(pool, st_reshape(image, batch), y, dy, dx);
    if (!st_error())
        draw(image, windows, st_reshape(y, ST_SHAPE(WINDOWS, WINDOWS)), st_reshape(dx, ST_SHAPE(SIDE, SIDE)));

    if (st_error()) fprintf(stderr, "pictures: %s\n", st_error());
    st_layer_free(pool), st_tensor_free(image), st_tensor_free(y), st_tensor_free(dy), st_tensor_free(dx);
    if (fflush(stdout)) perror("pictures: stdout");
    return st_error() || ferror(stdout) ? 1 : 0;
}
