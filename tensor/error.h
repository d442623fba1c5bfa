/* error.h: the first error of this thread, kept until it is cleared.
 *
 * The library never prints, exits or asserts on a user's input. What fails returns -1, NULL or the
 * null tensor, and latches one line that says where, what was given and what was expected. Later
 * failures do not replace it, so a program may build a whole net and ask once:
 *
 *     if (st_error()) { fprintf(stderr, "%s\n", st_error()); return 1; } */
#ifndef STRIDE_TENSOR_ERROR_H
#define STRIDE_TENSOR_ERROR_H

#include "tensor/api.h"

ST_API_BEGIN

enum { ST_ERROR_SIZE = 512 }; /* bytes of the longest text, its end included; longer ones are cut */

/* Latches a message unless one is latched already, control characters in it as "?". Always -1, so that it can be
 * returned. */
int st_error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts where it happened before the latched message ("layer 3: " + …). Always -1; does nothing when
 * no error is latched. */
int st_error_within(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* This thread's error, or NULL. Valid until st_error_clear or the thread's end. */
const char *st_error(void);
void st_error_clear(void);

ST_API_END

#endif
