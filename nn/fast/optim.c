/* optim.c: the steps of the optimizers, compiled for each instruction set. */
#include "nn/optim_impl.h"
#include "nn/optimizers_impl.h"
#include "tensor/fast/isa.h"

#include <string.h>

/* x - x is NaN if x is NaN or infinite, otherwise 0 (or -0, where numbers are rounded downward): a loop
 * without branches, which vectors can run. */
INLINE bool all_finite(ptrdiff_t n, const st_real *w)
{
    isa_bits any = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real zero = w[i] - w[i];
        isa_bits bits;
        memcpy(&bits, &zero, sizeof bits);
        any |= bits;
    }
    return (isa_bits)((unsigned long long)any << 1) == 0; /* without the sign */
}

#define SWEEP(M, NAME)                                                                                       \
    M##_TARGET static bool M##_##NAME(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)     \
    {                                                                                                        \
        optim_##NAME(c, n, w, g);                                                                            \
        return all_finite(n, w);                                                                             \
    }
#define SWEEP_NAME(M, NAME) M##_##NAME,
#define EACH_SWEEP(NAME)                                                                                     \
    EACH_ISA_OF(SWEEP, NAME)                                                                                 \
    static optim_sweep *const NAME##_sweeps[] = { EACH_ISA_OF(SWEEP_NAME, NAME) };

EACH_SWEEP(sgd)
EACH_SWEEP(adam)
EACH_SWEEP(adamw)
EACH_SWEEP(rmsprop)

static optim_sweep *by_vectors(const st_optim_kind *kind)
{
    static const struct {
        const st_optim_kind *kind;
        optim_sweep *const *sweeps;
    } all[] = {
        { &optim_kind_sgd, sgd_sweeps },
        { &optim_kind_adam, adam_sweeps },
        { &optim_kind_adamw, adamw_sweeps },
        { &optim_kind_rmsprop, rmsprop_sweeps },
    };
    const int isa = engine_choose();
    if (isa < 0) return NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].kind == kind) return all[i].sweeps[isa];
    return NULL;
}

optim_sweep *(*optim_sweep_by_vectors)(const st_optim_kind *kind) = by_vectors;
