/* parity.h: a case of parity.c: its file, and what of it was compared. */
#ifndef STRIDE_TESTS_CONFORMANCE_PARITY_H
#define STRIDE_TESTS_CONFORMANCE_PARITY_H

#include "nn/files/safetensors.h"
#include <stride.h>

enum { MOST_TENSORS = 256 };

typedef struct trial {
    safetensors *file;
    json_t *options, *noise; /* noise: of each tensor in float32 */
    const char *dict;        /* a file with the parameters; NULL: the case's own */
    bool sums;               /* of many terms */
    bool onnx;               /* compared as ONNX does */
    st_tensor kept[MOST_TENSORS];
    int count;
    int compared; /* tensors */
    char why[512];
} trial;

/* The case's metadata, "" for none; a number of its options. */
const char *text(const trial *t, const char *key);
double option(const trial *t, const char *name);

/* Tensors that are freed with the case: any, new zeros, one of its file; null, with an error, where it has
 * none. */
st_tensor keep(trial *t, st_tensor x);
st_tensor make(trial *t, st_shape s);
bool has(const trial *t, const char *name);
st_tensor given(trial *t, const char *name);

/* Keeps the first difference only. Both contiguous. */
void compare(trial *t, const char *name, st_tensor got, st_tensor expected);

st_optim *optim_named(const trial *t);

/* tensors.c */
void judge_tensors(trial *t);
void judge_update(trial *t);

#endif
