/* writer.h: pieces of C as they are written out. */
#ifndef STRIDE_NN_EXPORT_C_WRITER_H
#define STRIDE_NN_EXPORT_C_WRITER_H

#include "nn/data.h"
#include "nn/export_c/steps.h"
#include "nn/net.h"

/* The greatest magnitude of what a layer is given, in the samples of a calibration. */
typedef struct range {
    const st_layer *of;
    _Atomic float most;
} range;

/* A range for each layer of the net, and one of NULL, to be freed; NULL with an error. */
range *ranges_measure(st_net *n, const st_dataset *d);

struct writer {
    FILE *to;
    const st_net *net;
    const range *ranges; /* NULL: weights are float */
    ptrdiff_t constants; /* bytes */
    double products;     /* multiply-adds of convolutions and dense layers */
};

/* Text of a step, in which
 *     $     is what its names end with: its path
 *     ~     is `number`, as a constant
 *     #     is bias_$[o], or 0 where it has none
 *     @     is the type of weights and of what they are multiplied by, ` that of sums of their products
 *     !     at the beginning of a line: only where there is an activation
 *     ^     at the beginning of a line: only where weights are float
 *     |     at the beginning of a line: only where they are integers of 8 bits */
void write_text(writer *w, const step *s, const char *text, double number);

/* The first lines of a step's function: what it is, and its sizes as constants "NAME = 3, ...", by printf's rules. */
void write_begin(writer *w, const step *s, const char *sizes, ...) __attribute__((format(printf, 3, 4)));

/* static const float NAME_$[count]: numbers of a tensor; or element i = of(i, context). Integers likewise. */
void write_floats(writer *w, const step *s, const char *name, ptrdiff_t count,
                  double of(ptrdiff_t i, const void *context), const void *context);
void write_int8(writer *w, const step *s, const char *name, ptrdiff_t count,
                double of(ptrdiff_t i, const void *context), const void *context);
void write_tensor(writer *w, const step *s, const char *name, st_tensor t);

const char *step_name(const step *s, char to[ST_LAYER_PATH]); /* its path as part of a C identifier */
float input_range(const writer *w, const step *s);            /* of the step's layer; 0: float */
bool has_bias(const step *s);

#endif
