/* views.c: a walk through views: shapes, strides and offsets over one storage, and what they are for. */
#include "tensor/error.h"
#include "tensor/print/print.h"
#include "tensor/reduce/reduce.h"

#include <stdio.h>
#include <string.h>

/* A tensor with its metadata: what it is, and where its elements lie. */
static void show(const char *what, st_tensor x)
{
    printf("%s\n    shape %s, strides (", what, st_shape_text(x.shape).text);
    for (int i = 0; i < x.shape.rank; i++) printf(i ? ", %td" : "%td", x.stride[i]);
    printf("), offset %td\n", x.offset);
    st_print(stdout, x);
    printf("\n\n");
}

static void count_up(st_tensor x)
{
    for (ptrdiff_t i = 0; i < st_numel(x); i++) st_data(x)[i] = (st_real)(i + 1);
}

static const char *yes(bool answer)
{
    return answer ? "yes" : "no";
}

/* ---- one storage, many views --------------------------------------------------------------------- */

static void reasoning(void)
{
    st_tensor x = st_tensor_new(ST_SHAPE(6));
    count_up(x);
    show("x: six numbers", x);

    st_tensor y = st_reshape(x, ST_SHAPE(2, 3));
    show("y = reshape(x, [2, 3]): the same six places", y);

    st_tensor z = st_step(st_flip(y, 0), 1, -2);
    show("z: y with both axes reversed, the last in steps of two", z);

    st_tensor w = st_unfold(x, 0, 3, 1, 1);
    show("w: all windows of three over x; they overlap", w);
    show("every third window of w is y again", st_step(w, 0, 3));

    *st_at(y, ST_INDEX(0, 2)) = 30;
    show("30 written to y[0, 2] shows three times in w", w);

    printf("y and w share storage: %s; z and the first row of y overlap: %s\n", yes(st_shares_storage(y, w)),
           yes(st_overlaps(z, st_select(y, 0, 0))));
    printf("w[0, 2] and w[2, 0] are the same place: %s\n",
           yes(st_at(w, ST_INDEX(0, 2)) == st_at(w, ST_INDEX(2, 0))));
    *st_at(x, ST_INDEX(3)) = 30;
    printf("x[2] and x[3] are equal, %g, but are they the same place? %s\n\n", (double)*st_at(x, ST_INDEX(3)),
           yes(st_at(x, ST_INDEX(2)) == st_at(x, ST_INDEX(3))));
    st_tensor_free(x);
}

/* ---- the adjoint swaps source and destination ------------------------------------------------------- */

static void adjoint(void)
{
    st_tensor x = st_tensor_new(ST_SHAPE(6)), dx = st_tensor_new(ST_SHAPE(6)),
              columns = st_tensor_new(ST_SHAPE(4, 3));
    count_up(x);
    st_copy(columns, st_unfold(x, 0, 3, 1, 1));
    show("copy(columns, windows(x))", columns);
    st_fill(columns, 1);
    st_add(st_unfold(dx, 0, 3, 1, 1), 1, columns);
    show("add(windows(dx), 1, ones): what overlaps is summed", dx);
    st_tensor_free(x);
    st_tensor_free(dx);
    st_tensor_free(columns);
}

/* ---- block pooling without a loop ------------------------------------------------------------------ */

static void blocks(void)
{
    static st_real k[] = { 19, 32, 28, 25, 31, 49, 17, 18, 4,  19, 50, 57, 29, 42, 5,  8,
                           44, 16, 54, 13, 15, 1,  58, 50, 18, 36, 29, 12, 39, 45, 47, 44,
                           34, 31, 17, 28, 35, 62, 30, 54, 38, 50, 14, 50, 25, 24, 36, 4,
                           58, 27, 20, 34, 55, 22, 63, 59, 61, 30, 37, 24, 23, 34, 5,  16 };
    st_tensor image = st_tensor_wrap(k, ST_SHAPE(8, 8)), mean = st_tensor_new(ST_SHAPE(4, 4)),
              most = st_tensor_new(ST_SHAPE(4, 4));
    show("an image", image);

    st_tensor split = st_split_axis(st_split_axis(image, 0, 2), 2, 2); /* [4, 2, 4, 2] */
    st_mean(mean, split, ST_AXES(1, 3));
    st_max(most, split, ST_AXES(1, 3));
    printf("split both axes by two: %s, and reduce the twos\n\n", st_shape_text(split.shape).text);
    show("mean of each block", mean);
    show("maximum of each block", most);

    st_tensor windows = st_unfold(st_unfold(image, 0, 2, 2, 1), 1, 2, 2, 1);
    printf("the same blocks as windows: shape %s, strides (%td, %td, %td, %td)\n\n",
           st_shape_text(windows.shape).text, windows.stride[0], windows.stride[1], windows.stride[2],
           windows.stride[3]);

    st_tensor uneven = st_split_axis(st_split_axis(st_narrow(image, 1, 0, 6), 0, 2), 2, 3),
              two_by_three = st_tensor_new(ST_SHAPE(4, 2));
    st_max(two_by_three, uneven, ST_AXES(1, 3));
    show("maximum of blocks of 2 x 3, of the first six columns", two_by_three);

    st_as_strided(image, ST_SHAPE(4, 4, 2, 2), (ptrdiff_t[]){ 64, 8, 32, 4 }, 0);
    printf("strides in bytes by mistake are refused:\n    %s\n", st_error());
    st_error_clear();
    st_tensor_free(image);
    st_tensor_free(mean);
    st_tensor_free(most);
    st_tensor_free(two_by_three);
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
    if (st_error()) fprintf(stderr, "views: %s\n", st_error());
    if (fflush(stdout)) perror("views: stdout");
    return st_error() || ferror(stdout) ? 1 : 0;
}
