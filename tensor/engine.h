/* engine.h: which code runs, the definitions or algorithms; private to the library.
 *
 * The environment variable STRIDE_ENGINE says so: "reference" runs the definitions, the name of an
 * instruction set runs its algorithms. Without the variable the best instruction set of this processor is
 * chosen. STRIDE_WINOGRAD=off leaves out the algorithms that err more than a product does. */
#ifndef STRIDE_TENSOR_ENGINE_H
#define STRIDE_TENSOR_ENGINE_H

#include <stdbool.h>

bool engine_is_reference(void);
bool engine_is_accurate(void); /* STRIDE_WINOGRAD is off */

/* Chooses an instruction set, which algorithms know by its index. -1 with an error: an unknown name, an
 * instruction set that this processor does not have, or another value of STRIDE_WINOGRAD than on and off. */
int engine_choose(int *machine, bool *reference);

const char *engine_name(void); /* "reference", or that of the chosen instruction set; NULL with an error */

/* The instruction sets. */
typedef struct engine_sets {
    int (*choose)(const char *name, int *machine); /* of that name; NULL: the best one */
    const char *(*name)(int machine);
} engine_sets;

/* NULL in the core; tensor/fast/ puts them in. Not const: clang would read the weak definition when it
 * compiles. */
extern const engine_sets *engine_machines;

#endif
