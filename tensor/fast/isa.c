/* isa.c: the instruction sets that this processor has. */
#include "tensor/fast/isa.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

#define NAME(M) #M,
#define ACCURATE_NAME(M) #M ", STRIDE_WINOGRAD=off",
static const char *const names[] = { EACH_ISA(NAME) }, *const accurate_names[] = { EACH_ISA(ACCURATE_NAME) };

enum { ISAS = sizeof names / sizeof *names };

static bool runs(const char *name)
{
#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return strcmp(name, "generic") == 0;
}

bool engine_is_accurate(void)
{
    const char *winograd = getenv("STRIDE_WINOGRAD");
    return winograd && strcmp(winograd, "off") == 0;
}

int isa_best(void)
{
    int isa = 0;
    while (!runs(names[isa])) isa++;
    return isa;
}

static int choose(const char *name)
{
    const char *winograd = getenv("STRIDE_WINOGRAD");
    if (winograd && winograd[0] && strcmp(winograd, "on") != 0 && !engine_is_accurate())
        return st_error_set("STRIDE_WINOGRAD=%.80s: expected on or off", winograd);
    if (!name) return isa_best();
    for (int i = 0; i < ISAS; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        return runs(name) ? i : st_error_set("STRIDE_ENGINE=%s: this machine has no such instructions", name);
    }
    return st_error_set("STRIDE_ENGINE=%s: expected reference, generic%s", name,
                        ISAS == 1 ? "" : ", avx2 or avx512");
}

static const char *name_of(int isa)
{
    return engine_is_accurate() ? accurate_names[isa] : names[isa];
}

static const engine_sets sets = { choose, name_of };
const engine_sets *engine_isas = &sets;

#define BYTES(M) (int)sizeof(M##_vector),

int isa_bytes(int isa)
{
    static const int bytes[] = { EACH_ISA(BYTES) };
    return bytes[isa];
}
