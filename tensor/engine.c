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

int engine_choose(void)
{
    const char *name = getenv("STRIDE_ENGINE");
    if (engine_is_reference()) return 0;
    if (engine_machines) return engine_machines->choose(name && name[0] ? name : NULL);
    return name && name[0] ? st_error_set("STRIDE_ENGINE=%s: expected reference", name) : 0;
}

const char *engine_name(void)
{
    const int machine = engine_choose();
    if (machine < 0) return NULL;
    return engine_is_reference() || !engine_machines ? "reference" : engine_machines->name(machine);
}
