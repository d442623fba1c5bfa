/* engine.c: reads STRIDE_ENGINE. */
#include "tensor/engine.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

__attribute__((weak)) const engine_sets *engine_machines;

bool engine_is_reference(void)
{
    const char *name = getenv("STRIDE_ENGINE");
    return name && strcmp(name, "reference") == 0;
}

int engine_choose(int *machine, bool *reference)
{
    const char *name = getenv("STRIDE_ENGINE");
    *machine = 0;
    *reference = engine_is_reference();
    if (*reference) return 0;
    if (engine_machines) return engine_machines->choose(name && name[0] ? name : NULL, machine);
    return name && name[0] ? st_error_set("STRIDE_ENGINE=%s: expected reference", name) : 0;
}

const char *engine_name(void)
{
    int machine;
    bool reference;
    if (engine_choose(&machine, &reference)) return NULL;
    return reference || !engine_machines ? "reference" : engine_machines->name(machine);
}
