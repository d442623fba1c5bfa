/* onnx.h: one of ONNX's cases, as an operator's function sees it.
 *
 * A case is a model of one node with its inputs and the outputs to expect. The function of its operator
 * reads inputs and attributes, computes with the library and hands over outputs:
 *
 *     static void relu(onnx_case *c) { onnx_output(c, 0, onnx_run(c, st_relu(), onnx_input(c, 0))); }
 *
 * Cases that the library cannot express are left out by onnx_skip, with the reason. Nothing can be overlooked: a
 * case with an attribute or an input that was not asked for, or an output that was not handed over, is
 * skipped too. A refusal by the library is a failure. */
#ifndef STRIDE_TESTS_CONFORMANCE_ONNX_H
#define STRIDE_TESTS_CONFORMANCE_ONNX_H

#include "layers/layers.h"

#include <stdbool.h>
#include <stdint.h>

enum { ONNX_INPUTS = 16, ONNX_OUTPUTS = 8, ONNX_ATTRIBUTES = 64, ONNX_REASON = 160 };

/* Types of elements, as ONNX numbers them. */
enum { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_DOUBLE = 11 };

/* A tensor as it stood in a file. Every number that a case can be claimed with is exact in double. */
typedef struct onnx_value {
    char *name;
    int type;
    st_shape shape;
    double *number; /* row-major; NULL for types that are not numbers of up to 64 bits */
} onnx_value;

typedef struct onnx_case {
    const char *operation;
    int version; /* of the set of operators */
    const struct Onnx__NodeProto *node;
    int inputs, outputs;
    const onnx_value *input[ONNX_INPUTS];     /* NULL: left out */
    const onnx_value *expected[ONNX_OUTPUTS]; /* NULL: not asked for */
    st_tensor output[ONNX_OUTPUTS];
    bool input_read[ONNX_INPUTS], attribute_read[ONNX_ATTRIBUTES];
    char reason[ONNX_REASON]; /* why it is skipped; empty: it is not */
    struct onnx_kept *kept;   /* tensors and layers that end with the case */
} onnx_case;

/* ---- what a function may ask for ----------------------------------------------------------------- */

void onnx_skip(onnx_case *c, const char *reason, ...) __attribute__((format(printf, 2, 3)));
bool onnx_skipped(const onnx_case *c);

bool onnx_has(const onnx_case *c, int input);
st_tensor onnx_input(onnx_case *c, int input); /* a copy; null where left out or of another type than real */

/* Integers of an input (or of an attribute): how many, -1 where it is left out. */
enum { ONNX_INTEGERS = 64 };
int onnx_input_integers(onnx_case *c, int input, ptrdiff_t to[ONNX_INTEGERS]);
int onnx_integers(onnx_case *c, const char *attribute, ptrdiff_t to[ONNX_INTEGERS]);

ptrdiff_t onnx_integer(onnx_case *c, const char *attribute, ptrdiff_t fallback);
double onnx_number(onnx_case *c, const char *attribute, double fallback);
const char *onnx_text(onnx_case *c, const char *attribute, const char *fallback);
int onnx_numbers(onnx_case *c, const char *attribute, double to[ONNX_INTEGERS]);

/* ---- what it makes --------------------------------------------------------------------------------- */

st_tensor onnx_new(onnx_case *c, st_shape s); /* ends with the case */
st_tensor onnx_copy(onnx_case *c, st_tensor x);
st_layer *onnx_keep(onnx_case *c, st_layer *l);

/* Builds a layer for x; then its parameters may be set, and onnx_forward runs it. */
st_layer *onnx_build(onnx_case *c, st_layer *l, st_shape x);
st_tensor onnx_forward(onnx_case *c, st_layer *l, st_tensor x, bool training);
st_tensor onnx_run(onnx_case *c, st_layer *l, st_tensor x); /* both, in inference */

void onnx_output(onnx_case *c, int output, st_tensor y);

/* ---- operators (operators.c, windows.c, training.c) ---------------------------------------------- */

typedef struct onnx_operator {
    const char *name;
    void (*compute)(onnx_case *c);
} onnx_operator;

/* Tables ended by an operator without a name. */
extern const onnx_operator onnx_elementwise[], onnx_windows[], onnx_views[], onnx_training[];

/* Axis as ONNX counts it; negative from the end. */
int onnx_axis(ptrdiff_t axis, int rank);

/* ---- all cases (cases.c) ---------------------------------------------------------------------------- */

/* Runs every case under `folder` and prints a line for each, those that are skipped unless claimed_only.
 * The number of failures. */
int onnx_cases(const char *folder, bool claimed_only);

#endif
