/* writer.h: pieces of C as they are written out. */
#ifndef STRIDE_NN_EXPORT_C_WRITER_H
#define STRIDE_NN_EXPORT_C_WRITER_H

#include "nn/export_c/steps.h"
#include "nn/net.h"

struct writer {
    FILE *to;
    const st_net *net;
    ptrdiff_t constants; /* floats */
    double products;     /* multiply-adds of convolutions and dense layers */
};

/* Text of a step, in which
 *     $     is what its names end with: its path
 *     ~     is `number`, as a constant
 *     #     is bias_$[o], or 0 where it has none
 *     !     at the beginning of a line: only where there is an activation */
void write_text(writer *w, const step *s, const char *text, double number);

/* The first lines of a step's function: what it is, and its sizes as constants "NAME = 3, ...", by printf's rules. */
void write_begin(writer *w, const step *s, const char *sizes, ...) __attribute__((format(printf, 3, 4)));

/* static const float NAME_$[count]: numbers of a tensor; or element i = of(i, context). */
void write_floats(writer *w, const step *s, const char *name, ptrdiff_t count,
                  double of(ptrdiff_t i, const void *context), const void *context);
void write_tensor(writer *w, const step *s, const char *name, st_tensor t);

const char *step_name(const step *s, char to[ST_LAYER_PATH]); /* its path as part of a C identifier */
bool has_bias(const step *s);

#endif
