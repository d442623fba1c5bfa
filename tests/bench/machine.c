/* machine.c: what the machine can do, which all else is a share of: multiply-adds on registers, a large
 * product by BLAS, a copy of memory. */
#include "tests/bench/peak.h"
#include "tests/bench/work.h"
#include "tensor/parallel.h"
#include "tensor/system.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct machine {
    work base;
    long size; /* of a matrix's side; bytes of a copy */
    float *memory[3];
    int threads;
    float result[MOST_THREADS];
} machine;

static int choose(work *w, const char *pass)
{
    (void)w;
    return strcmp(pass, "run") == 0 ? 0 : st_error_set("no pass is called %s", pass);
}

static void end(work *w)
{
    machine *m = (machine *)w;
    for (int i = 0; i < 3; i++) system_free_aligned(m->memory[i]);
    free(m);
}

static void add_on_one(ptrdiff_t i, int thread, void *context)
{
    (void)i;
    ((machine *)context)->result[thread] = peak_run();
}

/* On all threads at the same time. */
static void multiply_add(void *w)
{
    const machine *m = w;
    parallel_for(m->threads, m->threads, add_on_one, w);
}

static void sgemm(void *w)
{
    machine *m = w;
    int n = (int)m->size;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, m->memory[0], n, m->memory[1], n, 0,
                m->memory[2], n);
}

static void copy_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    machine *m = context;
    size_t part = (size_t)m->size / (size_t)m->threads;
    memcpy((char *)m->memory[1] + (size_t)i * part, (char *)m->memory[0] + (size_t)i * part, part);
}

/* In a part for each thread, each as the C library copies. */
static void copy(void *w)
{
    const machine *m = w;
    parallel_for(m->threads, m->threads, copy_part, w);
}

/* So many arrays as tensors have them, on huge pages; each byte is written, so that it is there. */
static int reserve(machine *m, int arrays, size_t bytes)
{
    for (int i = 0; i < arrays; i++) {
        m->memory[i] = system_aligned(64, (bytes + 63) / 64 * 64);
        if (!m->memory[i]) return st_error_set("no memory for %zu bytes", bytes);
        for (size_t k = 0; k < bytes / sizeof(float); k++) m->memory[i][k] = 1.0F / (float)(k % 7 + 1);
    }
    return 0;
}

static int prepare(machine *m, const char *kind, long size)
{
    m->base = (work){ .choose = choose, .end = end };
    m->size = size;
    m->threads = st_num_threads();
    if (strcmp(kind, "fma") == 0) {
        m->base.run = multiply_add;
        return 0;
    }
    if (strcmp(kind, "sgemm") == 0) {
        m->base.run = sgemm;
        return reserve(m, 3, (size_t)(size * size) * sizeof(float));
    }
    m->base.run = copy;
    m->size = size << 20;
    return reserve(m, 2, (size_t)m->size);
}

work *work_of_machine(int count, char **word)
{
    bool fma_kind = strcmp(word[0], "fma") == 0;
    if (!fma_kind && strcmp(word[0], "sgemm") != 0 && strcmp(word[0], "copy") != 0) return NULL;
    long size = fma_kind ? 0 : work_number(count > 1 ? word[1] : "", 1, 8192);
    machine *m = size < 0 ? NULL : calloc(1, sizeof *m);
    if (size >= 0 && !m) st_error_set("no memory");
    if (m && prepare(m, word[0], size)) {
        end(&m->base);
        return NULL;
    }
    return m ? &m->base : NULL;
}
