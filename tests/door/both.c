/* both.c: a program of two halves, one linked with libstride, the other with libstride-double. */
#include <stdio.h>

void float_trains(void), double_trains(void);
void float_fails(void), double_fails(void);
int float_has_failed(void), double_has_failed(void);

int main(void)
{
    float_trains();
    double_trains();
    double_fails();
    if (float_has_failed() || !double_has_failed()) return printf("an error of double is one of float\n"), 1;
    float_fails();
    return !float_has_failed();
}
