/* locale.c: switches the locale of one thread. */
#define _XOPEN_SOURCE 700
#include "nn/files/locale.h"

#include <locale.h>
#include <stddef.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

void *c_locale_enter(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : NULL;
}

void c_locale_leave(void *before)
{
    if (!before) return;
    freelocale(uselocale((locale_t)before));
}
