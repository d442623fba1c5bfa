/* host.c: runs model_predict on the images of a file, as cortex.c does; with a number, so often on the first
 * one, and prints the microseconds of one time. */
#define _POSIX_C_SOURCE 199309L
#define MODEL_DECLARE
#include "model.c"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int count, char **arguments)
{
    static float input[MODEL_INPUTS], output[MODEL_OUTPUTS];
    FILE *from = fopen("images", "rb"), *to = fopen("expected", "wb");
    if (!from || !to) return 1;
    while (fread(input, sizeof input, 1, from) == 1) {
        model_predict(input, output);
        if (fwrite(output, sizeof output, 1, to) != 1) return 1;
    }
    if (count > 1) {
        const int times = atoi(arguments[1]);
        const double begin = seconds();
        for (int i = 0; i < times; i++) {
            model_predict(input, output);
            input[0] = output[0] * 1e-9f; /* none is the same as the one before */
        }
        printf("%.1f microseconds an image\n", (seconds() - begin) / times * 1e6);
    }
    return fclose(to) != 0;
}
