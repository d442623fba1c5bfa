/* machine.c: chooses an instruction set at run time. */
#include "tensor/machine.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

#define NAME(M) #M,
static const char *const names[] = { EACH_MACHINE(NAME) };

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

int machine_best(void)
{
    int machine = 0;
    while (!runs(names[machine])) machine++;
    return machine;
}

int machine_choose(int *machine, bool *reference)
{
    const char *name = getenv("STRIDE_ENGINE");
    bool any = !name || !name[0];
    *machine = any ? machine_best() : MACHINES - 1;
    *reference = machine_is_reference();
    if (any || *reference) return 0;
    for (int i = 0; i < MACHINES; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *machine = i;
        if (runs(name)) return 0;
        return st_error_set("STRIDE_ENGINE=%s: this machine has no such instructions", name);
    }
    return st_error_set("STRIDE_ENGINE=%s: expected reference, generic%s", name,
                        MACHINES == 1 ? "" : ", avx2 or avx512");
}

bool machine_is_reference(void)
{
    const char *name = getenv("STRIDE_ENGINE");
    return name && strcmp(name, "reference") == 0;
}

#define BYTES(M) (int)sizeof(M##_vector),

int machine_bytes(int machine)
{
    static const int bytes[] = { EACH_MACHINE(BYTES) };
    return bytes[machine];
}

const char *machine_engine(void)
{
    int machine;
    bool reference;
    if (machine_choose(&machine, &reference)) return NULL;
    return reference ? "reference" : names[machine];
}
