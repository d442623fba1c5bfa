/* stride.c: the version, where a program can ask the library itself. */
#include "nn/stride.h"

const char *stride_version(void)
{
    return STRIDE_VERSION;
}
