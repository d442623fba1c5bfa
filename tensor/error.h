/* error.h: errors are sticky, one for each thread.
 *
 * The library never prints, exits or asserts on a user's input. A function that fails returns -1, NULL or the
 * null tensor, and sets the thread's error: one line with where it happened, what was given and what was
 * expected. Later failures do not replace it, so a program may build a whole net and check once:
 *
 *     if (st_error()) { fprintf(stderr, "%s\n", st_error()); return 1; } */
#ifndef STRIDE_TENSOR_ERROR_H
#define STRIDE_TENSOR_ERROR_H

#include "tensor/api.h"

ST_API_BEGIN

/* Bytes of the longest message, its final zero included; longer ones are truncated. */
enum { ST_ERROR_SIZE = 512 };

/* Sets the error unless there is one. Control characters become "?". Always returns -1. */
int st_error_set(const char *format, ...) ST_PRINTF(1, 2);

/* Prepends a place to the error ("layer 3: " + ...); does nothing where there is none. Always returns -1. */
int st_error_within(const char *format, ...) ST_PRINTF(1, 2);

/* This thread's error, or NULL. The text is valid until st_error_clear or the thread's end. */
const char *st_error(void);
void st_error_clear(void);

ST_API_END

#endif
