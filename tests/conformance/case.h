/* case.h: what the conformance suites share: one line for each case, and inputs that are views in every way.
 *
 * A suite begins a case, expects things of it, and ends it: "ok CASE", or "not ok CASE: " and what was the
 * first that did not hold. With STRIDE_FAST=1 in the environment it tries a fraction of its cases. */
#ifndef STRIDE_TESTS_CONFORMANCE_CASE_H
#define STRIDE_TESTS_CONFORMANCE_CASE_H

#include "layers/layers.h"
#include "tests/support.h"

/* ---- cases ----------------------------------------------------------------------------------- */

/* How many of `all` cases to try: all of them, or a part where STRIDE_FAST is set. */
int case_count(int all, int fast);

void case_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void case_layer(const layer *l, shape x, const char *view); /* named by its options, view and input */
void case_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void case_end(void); /* an error that is latched is a failure too */
void case_skip(const char *name, const char *reason);

int case_status(void); /* what main returns: not 0 after a failure, or where nothing was tried */

/* ---- what is expected ------------------------------------------------------------------------ */

/* Same shape, and every element within `limit`. */
void expect_near(const char *what, tensor x, tensor expected, double limit);

/* Equal once multiplied by `scale`, which makes integers of both: for quotients that cannot be exact. */
void expect_multiple(const char *what, tensor x, tensor expected, double scale);

/* ---- inputs ---------------------------------------------------------------------------------- */

typedef enum view_kind {
    VIEW_PLAIN,     /* contiguous */
    VIEW_NHWC,      /* the second axis is the last in memory */
    VIEW_FLIPPED,   /* every axis backwards */
    VIEW_MIXED,     /* with gaps, permuted, stepped and flipped */
    VIEW_BROADCAST, /* the images are one */
    VIEW_KINDS
} view_kind;
extern const char *const view_names[VIEW_KINDS];

/* A view of shape s of zeros; tensor_free ends it and what it looks at. */
tensor view_of(dice *d, view_kind kind, shape s);

/* Every place of x from the normal distribution. */
void fill_normal(tensor x, uint64_t seed);

tensor filled(shape s, double value); /* a new tensor */

/* ---- layers ---------------------------------------------------------------------------------- */

/* In training mode, at step 1 of seed 1; fails the case where it cannot be built. */
bool case_build(layer *l, shape x);

/* Leaves NaN wherever a pass over such an x leaves something behind; gradients are 0 afterwards. */
void case_soil(layer *l, shape x);

#endif
