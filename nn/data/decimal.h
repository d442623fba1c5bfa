/* decimal.h: numbers as text, whatever the locale. */
#ifndef STRIDE_NN_DATA_DECIMAL_H
#define STRIDE_NN_DATA_DECIMAL_H

#include <stdbool.h>

enum { DECIMAL_LONGEST = 127 }; /* bytes */

/* The double nearest to what the whole text says, of at most DECIMAL_LONGEST bytes; false where that is no number:
 * [+-] digits [. digits] [e [+-] digits]. Infinite where it is too large. */
bool decimal_read(const char *text, double *value);

#endif
