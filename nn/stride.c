/* stride.c: the version of the library. */
#include <stride.h>

const char *st_version(void)
{
    return ST_VERSION;
}
