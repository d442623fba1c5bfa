/* pictures.c: draws what the library does with a small image, as SVG: its windows as a view, what max pooling
 * keeps, and where the gradient goes. Every number in the picture is computed by the library. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

enum { SIDE = 6, KERNEL = 3, WINDOWS = SIDE - KERNEL + 1, CELL = 34, MARGIN = 20, GAP = 46, HEAD = 52 };

/* The window that the picture follows. */
enum { ROW = 1, COLUMN = 2 };

static void text(double x, double y, const char *kind, const char *words)
{
    printf("  <text x=\"%g\" y=\"%g\" class=\"%s\">%s</text>\n", x, y, kind, words);
}

/* A square of the grid at (left, top), darker the larger its number is. */
static void cell(double left, double top, ptrdiff_t row, ptrdiff_t column, double value, double most,
                 const char *hue)
{
    char number[32];
    const double x = left + (double)column * CELL, y = top + (double)row * CELL;
    printf("  <rect x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" fill=\"%s\" fill-opacity=\"%.2f\" "
           "class=\"cell\"/>\n",
           x, y, CELL, CELL, hue, most > 0 ? 0.75 * value / most : 0);
    snprintf(number, sizeof number, "%g", value);
    text(x + CELL / 2.0, y + CELL / 2.0 + 5, "number", number);
}

static void grid(double left, double top, st_tensor x, double most, const char *hue)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t j = 0; j < x.shape.n[1]; j++) {
            const double value = (double)*st_at(x, ST_INDEX(i, j));
            cell(left, top, i, j, value, most, hue);
        }
}

static void frame(double left, double top, ptrdiff_t row, ptrdiff_t column, ptrdiff_t size)
{
    printf("  <rect x=\"%g\" y=\"%g\" width=\"%td\" height=\"%td\" class=\"frame\"/>\n",
           left + (double)column * CELL, top + (double)row * CELL, size * CELL, size * CELL);
}

static void heading(double left, const char *what, const char *how)
{
    text(left, MARGIN + 10, "heading", what);
    text(left, MARGIN + 27, "code", how);
}

static void begin(double width, double height)
{
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
           "role=\"img\">\n",
           width, height, width, height);
    puts("  <title>A view of windows, what max pooling keeps, and where its gradient goes</title>");
    puts("  <style>\n"
         "    text { font-family: sans-serif; fill: #1a1a1a }\n"
         "    .number { font-size: 14px; text-anchor: middle }\n"
         "    .heading { font-size: 15px; font-weight: bold }\n"
         "    .code, .note { font-size: 12px; fill: #555 } .code { font-family: monospace }\n"
         "    .cell { stroke: #888; stroke-width: 0.5 }\n"
         "    .frame { fill: none; stroke: #d1495b; stroke-width: 3 }\n"
         "  </style>");
    printf("  <rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n", width, height);
}

static void draw(st_tensor image, st_tensor windows, st_tensor y, st_tensor dx)
{
    const double top = MARGIN + HEAD, second = MARGIN + SIDE * CELL + GAP,
                 third = second + WINDOWS * CELL + GAP + CELL, width = third + SIDE * CELL + MARGIN,
                 bottom = top + SIDE * CELL + MARGIN + 12;
    char note[300];
    begin(width, bottom + 8);
    heading(MARGIN, "a view: windows", "st_unfold, nothing is copied");
    grid(MARGIN, top, image, 9, "#4c78a8");
    frame(MARGIN, top, ROW, COLUMN, KERNEL);
    snprintf(note, sizeof note, "shape %s, strides (%td, %td, %td, %td)", st_shape_text(windows.shape).text,
             windows.stride[0], windows.stride[1], windows.stride[2], windows.stride[3]);
    text(MARGIN, bottom, "note", note);
    heading(second, "forward: max pooling", "y = st_max(windows)");
    grid(second, top, y, 9, "#4c78a8");
    frame(second, top, ROW, COLUMN, 1);
    heading(third, "backward: where dy goes", "st_add(windows(dx), dy)");
    grid(third, top, dx, 4, "#f2a541");
    frame(third, top, ROW, COLUMN, KERNEL);
    text(third, bottom, "note", "dy is 1 everywhere; overlaps add up");
    puts("</svg>");
}

int main(int argc, char **argv)
{
    static st_real pixels[] = { 7, 4, 9, 6, 6, 7, 4, 9, 3, 4, 9, 5, 5, 3, 9, 7, 3, 7,
                                3, 6, 5, 9, 6, 7, 7, 8, 3, 3, 8, 3, 6, 8, 3, 5, 3, 4 };
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
