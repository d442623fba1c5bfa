/* machine.c: the instruction sets that this processor has. */
#include "tensor/fast/machine.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

#define NAME(M) #M,
#define ACCURATE_NAME(M) #M ", STRIDE_WINOGRAD=off",
static const char *const names[] = { EACH_MACHINE(NAME) }, *const accurate_names[] = { EACH_MACHINE(
                                                               ACCURATE_NAME) };

enum { MACHINES = sizeof names / sizeof *names };

static bool runs(const char *name)
{
#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return strcmp(name, "generic") == 0;
}

bool machine_is_accurate(void)
{
    const char *winograd = getenv("STRIDE_WINOGRAD");
    return winograd && strcmp(winograd, "off") == 0;
}

int machine_best(void)
{
    int machine = 0;
    while (!runs(names[machine])) machine++;
    return machine;
}

static int choose(const char *name)
{
    const char *winograd = getenv("STRIDE_WINOGRAD");
    if (winograd && winograd[0] && strcmp(winograd, "on") != 0 && !machine_is_accurate())
        return st_error_set("STRIDE_WINOGRAD=%.80s: expected on or off", winograd);
    if (!name) return machine_best();
    for (int i = 0; i < MACHINES; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        return runs(name) ? i : st_error_set("STRIDE_ENGINE=%s: this machine has no such instructions", name);
    }
    return st_error_set("STRIDE_ENGINE=%s: expected reference, generic%s", name,
                        MACHINES == 1 ? "" : ", avx2 or avx512");
}

static const char *name_of(int machine)
{
    return machine_is_accurate() ? accurate_names[machine] : names[machine];
}

static const engine_sets sets = { choose, name_of };
const engine_sets *engine_machines = &sets;

#define BYTES(M) (int)sizeof(M##_vector),

int machine_bytes(int machine)
{
    static const int bytes[] = { EACH_MACHINE(BYTES) };
    return bytes[machine];
}
