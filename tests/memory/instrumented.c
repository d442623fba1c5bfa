/* instrumented.c: what clang's memory sanitizer has to be told of libraries that it was not compiled with.
 *
 * It follows every byte from where it is written, and does not see what such a library writes. Matrix
 * products are done here, plainly, in place of BLAS. Memory that libraries allocate counts as written
 * (MSAN_OPTIONS has poison_in_malloc=0 and poison_in_free=0), ours does not: our calls of malloc,
 * aligned_alloc, realloc and free come here (-Wl,--wrap), and what they give is marked as unwritten. What
 * libraries write into our memory is marked as written. So what is read of theirs is never complained of;
 * whatever our own code leaves unwritten and then depends on is. Nor is what a layer finds in its scratch
 * written, whoever had it before. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "layers/layer_impl.h"

#include <cblas.h>
#include <dlfcn.h>
#include <jansson.h>
#include <sanitizer/allocator_interface.h>
#include <sanitizer/msan_interface.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- BLAS -------------------------------------------------------------------------------------------- */

#define GEMM(NAME, TYPE)                                                                                     \
    void NAME(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE turn_a,             \
              OPENBLAS_CONST enum CBLAS_TRANSPOSE turn_b, OPENBLAS_CONST blasint m,                          \
              OPENBLAS_CONST blasint n, OPENBLAS_CONST blasint k, OPENBLAS_CONST TYPE alpha,                 \
              OPENBLAS_CONST TYPE *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST TYPE *b,                    \
              OPENBLAS_CONST blasint ldb, OPENBLAS_CONST TYPE beta, TYPE *c, OPENBLAS_CONST blasint ldc)     \
    {                                                                                                        \
        const bool by_rows = order == CblasRowMajor, by_columns = !by_rows;                                  \
        for (ptrdiff_t i = 0; i < m; i++)                                                                    \
            for (ptrdiff_t j = 0; j < n; j++) {                                                              \
                TYPE sum = 0, *to = c + (by_rows ? i * ldc + j : j * ldc + i);                               \
                for (ptrdiff_t p = 0; p < k; p++)                                                            \
                    sum += a[(turn_a == CblasTrans) == by_columns ? i * lda + p : p * lda + i] *             \
                           b[(turn_b == CblasTrans) == by_columns ? p * ldb + j : j * ldb + p];              \
                *to = beta == 0 ? alpha * sum : alpha * sum + beta * *to;                                    \
            }                                                                                                \
    }
GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)

/* blas.c gives matrices by rows. */
#define GEMV(NAME, MATRICES, TYPE)                                                                           \
    void NAME(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE turn_a,             \
              OPENBLAS_CONST blasint m, OPENBLAS_CONST blasint n, OPENBLAS_CONST TYPE alpha,                 \
              OPENBLAS_CONST TYPE *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST TYPE *x,                    \
              OPENBLAS_CONST blasint step_x, OPENBLAS_CONST TYPE beta, TYPE *y,                              \
              OPENBLAS_CONST blasint step_y)                                                                 \
    {                                                                                                        \
        const bool turns = turn_a == CblasTrans;                                                             \
        MATRICES(order, turn_a, CblasNoTrans, turns ? n : m, 1, turns ? m : n, alpha, a, lda, x, step_x,     \
                 beta, y, step_y);                                                                           \
    }
GEMV(cblas_sgemv, cblas_sgemm, float)
GEMV(cblas_dgemv, cblas_dgemm, double)

/* ---- memory ------------------------------------------------------------------------------------------ */

void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);

static void *unwritten(void *memory, size_t size)
{
    if (memory) __msan_poison(memory, size);
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return unwritten(__real_malloc(size), size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return unwritten(__real_aligned_alloc(alignment, size), size);
}

/* It may be a library's next. */
void __wrap_free(void *memory)
{
    if (memory) __msan_unpoison(memory, __sanitizer_get_allocated_size(memory));
    __real_free(memory);
}

/* In other memory whenever it grows, so that what it lay in is given back as above. */
void *__wrap_realloc(void *memory, size_t size)
{
    size_t before = memory ? __sanitizer_get_allocated_size(memory) : 0;
    if (memory && size <= before) return memory;
    void *fresh = __wrap_malloc(size);
    if (fresh && memory) memcpy(fresh, memory, before), __wrap_free(memory);
    return fresh;
}

/* ---- scratch ------------------------------------------------------------------------------------------- */

/* The linker's names of a public function, which has another name in double. */
#define PASTED(before, name) before##name
#define REAL(name) PASTED(__real_, name)
#define WRAP(name) PASTED(__wrap_, name)

void REAL(st_layer_forward)(st_layer *l, st_tensor x, st_tensor y);
void REAL(st_layer_backward)(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
void WRAP(st_layer_forward)(st_layer *l, st_tensor x, st_tensor y);
void WRAP(st_layer_backward)(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

static void forget_scratch(const st_layer *l)
{
    if (!l || !l->impl->run || !l->impl->run->ready) return;
    const st_tensor both[] = { l->impl->run->scratch, l->impl->run->partial };
    for (int i = 0; i < 2; i++) __msan_poison(st_data(both[i]), (size_t)st_numel(both[i]) * sizeof(st_real));
}

void WRAP(st_layer_forward)(st_layer *l, st_tensor x, st_tensor y)
{
    forget_scratch(l);
    REAL(st_layer_forward)(l, x, y);
}
void WRAP(st_layer_backward)(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    forget_scratch(l);
    REAL(st_layer_backward)(l, x, y, dy, dx);
}

/* ---- what libraries write into our memory -------------------------------------------------------------- */

/* A place on the stack for a library's own variables: our functions leave theirs there as unwritten. */
static __attribute__((noinline)) void clear_stack(void)
{
    char below[1 << 14];
    __msan_unpoison(below, sizeof below);
}

/* The library's own function of that name. */
#define THEIRS(NAME)                                                                                         \
    static __typeof__(NAME) *theirs;                                                                         \
    if (!theirs) theirs = (__typeof__(NAME) *)dlsym(RTLD_NEXT, #NAME);                                       \
    clear_stack()

int gzread(gzFile file, voidp buffer, unsigned size)
{
    THEIRS(gzread);
    int count = theirs(file, buffer, size);
    if (count > 0) __msan_unpoison(buffer, (size_t)count);
    return count;
}

const char *gzerror(gzFile file, int *code)
{
    THEIRS(gzerror);
    const char *text = theirs(file, code);
    __msan_unpoison(code, sizeof *code);
    return text;
}

size_t json_dumpb(const json_t *json, char *buffer, size_t size, size_t flags)
{
    THEIRS(json_dumpb);
    size_t length = theirs(json, buffer, size, flags);
    __msan_unpoison(buffer, length < size ? length : size);
    return length;
}

char *json_dumps(const json_t *json, size_t flags)
{
    THEIRS(json_dumps);
    return theirs(json, flags);
}

/* json_unpack has written at each value's place in the format. A key is an argument too. */
static void written_by_unpack(const char *format, va_list arguments)
{
    enum { DEEPEST = 8 };
    bool object[DEEPEST] = { false }, key = false;
    int depth = 0;
    for (const char *at = format; *at; at++) {
        if (strchr(" ,:!*?", *at)) continue;
        if (*at == '{' || *at == '[') {
            if (++depth == DEEPEST) abort();
            key = object[depth] = *at == '{';
        } else if (*at == '}' || *at == ']') key = object[--depth];
        else if (key) va_arg(arguments, const char *), key = false;
        else {
            __msan_unpoison(va_arg(arguments, void *),
                            *at == 'i' || *at == 'b' ? sizeof(int) : sizeof(void *));
            key = object[depth];
        }
    }
}

int json_unpack_ex(json_t *json, json_error_t *error, size_t flags, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format), va_copy(again, arguments), clear_stack();
    int status = json_vunpack_ex(json, error, flags, format, arguments);
    if (status == 0) written_by_unpack(format, again);
    if (error) __msan_unpoison(error, sizeof *error);
    va_end(arguments), va_end(again);
    return status;
}

int json_unpack(json_t *json, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format), va_copy(again, arguments), clear_stack();
    int status = json_vunpack_ex(json, NULL, 0, format, arguments);
    if (status == 0) written_by_unpack(format, again);
    va_end(arguments), va_end(again);
    return status;
}

json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *error)
{
    THEIRS(json_loadb);
    if (error) __msan_unpoison(error, sizeof *error);
    return theirs(text, size, flags, error);
}

json_t *json_loads(const char *text, size_t flags, json_error_t *error)
{
    THEIRS(json_loads);
    if (error) __msan_unpoison(error, sizeof *error);
    return theirs(text, flags, error);
}

/* jansson allocates with functions of ours, from memory that is not. */
static json_malloc_t given;

static void *give(size_t size)
{
    void *memory = given(size);
    if (memory) __msan_unpoison(memory, size);
    return memory;
}

void json_set_alloc_funcs(json_malloc_t allocate, json_free_t release)
{
    THEIRS(json_set_alloc_funcs);
    given = allocate;
    theirs(give, release);
}

/* Arguments that a library passes to a function of ours lie on its own stack. */
typedef struct dump {
    json_dump_callback_t call;
    void *context;
} dump;

static int hand_on(const char *text, size_t size, void *context)
{
    const dump *d = context;
    __msan_unpoison(text, size);
    return d->call(text, size, d->context);
}

int json_dump_callback(const json_t *json, json_dump_callback_t call, void *context, size_t flags)
{
    THEIRS(json_dump_callback);
    return theirs(json, hand_on, &(dump){ call, context }, flags);
}
