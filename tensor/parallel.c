/* parallel.c: a loop whose items may run in any order: in the caller, or shared among a pool's threads. */
#include "tensor/parallel.h"
#include "tensor/error.h"

__attribute__((weak)) const parallel_pool *parallel_threads;

void parallel_for(int threads, ptrdiff_t count, parallel_work *work, void *context)
{
    if (parallel_threads && threads > 1 && count > 1 &&
        parallel_threads->share(threads, count, work, context))
        return;
    for (ptrdiff_t i = 0; i < count; i++) work(i, 0, context);
}

int st_num_threads(void)
{
    return parallel_threads ? parallel_threads->wanted() : 1;
}

int st_set_num_threads(int threads)
{
    if (threads >= 0) return parallel_threads ? parallel_threads->set(threads) : 0;
    return st_error_set("st_set_num_threads: %d threads; expected at least 1, or 0 for the default", threads);
}
