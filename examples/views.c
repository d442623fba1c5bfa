/* views.c: a walk through views: shapes, strides and offsets over one storage, and what they are for. */
#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

/* A tensor with its metadata: what it is, and where its elements lie. */
static void show(const char *what, tensor x)
{
    printf("%s\n    shape %s, strides (", what, shape_text(x.shape).text);
    for (int i = 0; i < x.shape.rank; i++) printf(i ? ", %td" : "%td", x.stride[i]);
    printf("), offset %td\n", x.offset);
    tensor_print(stdout, x);
    printf("\n\n");
}

static void count_up(tensor x)
{
    for (ptrdiff_t i = 0; i < tensor_count(x); i++) tensor_data(x)[i] = (real)(i + 1);
}

static const char *yes(bool answer)
{
    return answer ? "yes" : "no";
}

/* ---- one storage, many views --------------------------------------------------------------------- */

static void reasoning(void)
{
    tensor x = tensor_new(SHAPE(6));
    count_up(x);
    show("x: six numbers", x);

    tensor y = tensor_reshape(x, SHAPE(2, 3));
    show("y = reshape(x, [2, 3]): the same six places", y);

    tensor z = tensor_step(tensor_flip(y, 0), 1, -2);
    show("z: y with both axes reversed, the last in steps of two", z);

    tensor w = tensor_window(x, 0, 3, 1, 1);
    show("w: all windows of three over x; they overlap", w);
    show("every third window of w is y again", tensor_step(w, 0, 3));

    *tensor_at(y, INDEX(0, 2)) = 30;
    show("30 written to y[0, 2] shows three times in w", w);

    printf("y and w share storage: %s; z and the first row of y overlap: %s\n",
           yes(tensor_shares_storage(y, w)), yes(tensor_overlaps(z, tensor_select(y, 0, 0))));
    printf("w[0, 2] and w[2, 0] are the same place: %s\n",
           yes(tensor_at(w, INDEX(0, 2)) == tensor_at(w, INDEX(2, 0))));
    *tensor_at(x, INDEX(3)) = 30;
    printf("x[2] and x[3] are equal, %g, but are they the same place? %s\n\n",
           (double)*tensor_at(x, INDEX(3)), yes(tensor_at(x, INDEX(2)) == tensor_at(x, INDEX(3))));
    tensor_free(x);
}

/* ---- the adjoint swaps the sides ------------------------------------------------------------------- */

static void adjoint(void)
{
    tensor x = tensor_new(SHAPE(6)), dx = tensor_new(SHAPE(6)), columns = tensor_new(SHAPE(4, 3));
    count_up(x);
    tensor_copy(columns, tensor_window(x, 0, 3, 1, 1));
    show("copy(columns, windows(x))", columns);
    tensor_fill(columns, 1);
    tensor_add(tensor_window(dx, 0, 3, 1, 1), 1, columns);
    show("add(windows(dx), 1, ones): what overlaps is summed", dx);
    tensor_free(x);
    tensor_free(dx);
    tensor_free(columns);
}

/* ---- block pooling without a loop ------------------------------------------------------------------ */

static void blocks(void)
{
    static real k[] = { 19, 32, 28, 25, 31, 49, 17, 18, 4,  19, 50, 57, 29, 42, 5,  8,
                        44, 16, 54, 13, 15, 1,  58, 50, 18, 36, 29, 12, 39, 45, 47, 44,
                        34, 31, 17, 28, 35, 62, 30, 54, 38, 50, 14, 50, 25, 24, 36, 4,
                        58, 27, 20, 34, 55, 22, 63, 59, 61, 30, 37, 24, 23, 34, 5,  16 };
    tensor image = tensor_wrap(k, SHAPE(8, 8)), mean = tensor_new(SHAPE(4, 4)),
           most = tensor_new(SHAPE(4, 4));
    show("an image", image);

    tensor split = tensor_split(tensor_split(image, 0, 2), 2, 2); /* [4, 2, 4, 2] */
    tensor_mean(mean, split, AXES(1, 3));
    tensor_max(most, split, AXES(1, 3));
    printf("split both axes by two: %s, and reduce the twos\n\n", shape_text(split.shape).text);
    show("mean of each block", mean);
    show("maximum of each block", most);

    tensor windows = tensor_window(tensor_window(image, 0, 2, 2, 1), 1, 2, 2, 1);
    printf("the same blocks as windows: shape %s, strides (%td, %td, %td, %td)\n\n",
           shape_text(windows.shape).text, windows.stride[0], windows.stride[1], windows.stride[2],
           windows.stride[3]);

    tensor uneven = tensor_split(tensor_split(tensor_narrow(image, 1, 0, 6), 0, 2), 2, 3),
           two_by_three = tensor_new(SHAPE(4, 2));
    tensor_max(two_by_three, uneven, AXES(1, 3));
    show("maximum of blocks of 2 x 3, of the first six columns", two_by_three);

    tensor_as_strided(image, SHAPE(4, 4, 2, 2), (ptrdiff_t[]){ 64, 8, 32, 4 }, 0);
    printf("strides in bytes by mistake are refused:\n    %s\n", error_text());
    error_clear();
    tensor_free(image);
    tensor_free(mean);
    tensor_free(most);
    tensor_free(two_by_three);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs("usage: views\n\nPrints a walk through views, windows and blocks.\n", help ? stdout : stderr);
        if (!help) return 2;
    } else {
        reasoning();
        adjoint();
        blocks();
    }
    if (error_text()) fprintf(stderr, "views: %s\n", error_text());
    if (fflush(stdout)) perror("views: stdout");
    return error_text() || ferror(stdout) ? 1 : 0;
}
