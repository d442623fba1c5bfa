/* engine.c: reads STRIDE_ENGINE. */
#include "tensor/engine.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

__attribute__((weak)) const engine_sets *engine_isas;

bool engine_is_reference(void)
{
    const char *name = getenv("STRIDE_ENGINE");
    return name && strcmp(name, "reference") == 0;
}

int engine_choose(void)
{
    const char *name = getenv("STRIDE_ENGINE");
    if (engine_is_reference()) return 0;
    if (engine_isas) return engine_isas->choose(name && name[0] ? name : NULL);
    return name && name[0] ? st_error_set("STRIDE_ENGINE=%s: expected reference", name) : 0;
}

const char *engine_name(void)
{
    const int isa = engine_choose();
    if (isa < 0) return NULL;
    return engine_is_reference() || !engine_isas ? "reference" : engine_isas->name(isa);
}
