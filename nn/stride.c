/* stride.c: the version, where a program can ask the library itself. */
#include <stride.h>

const char *st_version(void)
{
    return ST_VERSION;
}
