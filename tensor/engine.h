/* engine.h: which code runs, the definitions or algorithms; private to the library.
 *
 * The environment variable STRIDE_ENGINE says so: "reference" runs the definitions, the name of an
 * instruction set runs its algorithms. Without the variable the best instruction set of this processor is
 * chosen. */
#ifndef STRIDE_TENSOR_ENGINE_H
#define STRIDE_TENSOR_ENGINE_H

#include <stdbool.h>

bool engine_is_reference(void);

/* The index of the instruction set to run, for algorithms. -1 with an error: an unknown name, an instruction
 * set that this processor does not have, or (tensor/fast/isa.h) a wrong STRIDE_WINOGRAD. */
int engine_choose(void);

/* "reference", or a text with everything that the results of the chosen algorithms depend on, for checkpoints
 * to compare; NULL with an error. */
const char *engine_name(void);

/* The instruction sets. */
typedef struct engine_sets {
    int (*choose)(const char *name); /* the index of that name, or -1; NULL: of the best one */
    const char *(*name)(int isa);
} engine_sets;

/* NULL in the core; tensor/fast/ puts them in (tables.h). */
extern const engine_sets *engine_isas;

#endif
