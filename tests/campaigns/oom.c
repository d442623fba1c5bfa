/* oom.c: memory runs out at every allocation in turn: an error that says so, nothing lost, and the next call
 * succeeds.
 *
 *     oom FOLDER [NAME]
 *
 * This program's malloc and its relatives stand in for the C library's. Of one piece of work after another
 * they let the k-th allocation fail, for every k. Allocations that the library, jansson, zlib or the C
 * library asks for on the thread that works count; those of OpenBLAS and its OpenMP, which abort a process
 * that is out of memory, and those of the dynamic linker are left alone. So are jansson's of powers of two
 * from 32 bytes on: where its parser cannot double the buffer of a string, 2.14 writes beyond it. What is
 * freed is overwritten, so that whoever looks at it sees something else.
 *
 * The address sanitizer's allocator stays where it is: then it is calls from our own code (-Wl,--wrap) and
 * jansson's that fail, and the sanitizer says what was lost, or looked at after it was freed.
 *
 * Each piece of work is done by a child, which is started again behind the allocation that it died of. */
#define _GNU_SOURCE /* dladdr */
#include "examples/stride/report.h"
#include "nn/onnx/onnx.h"
#include <stride.h>
#include "nn/callbacks/watch.h"
#include "nn/data/formats.h"
#include "tests/each_epoch.h"
#include "tests/log_lines.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED
#endif
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)

/* ---- the allocator ----------------------------------------------------------------------------------- */

/* The functions in place of the allocator, and the allocator itself. */
#ifdef SANITIZED
#define STAND_IN(name) __wrap_##name
#define REAL_ONE(name) __real_##name
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
#else
#define STAND_IN(name) name
#define REAL_ONE(name) __libc_##name
#define __libc_aligned_alloc __libc_memalign
#endif
extern void *REAL_ONE(malloc)(size_t size);
extern void *REAL_ONE(calloc)(size_t count, size_t size);
extern void *REAL_ONE(realloc)(void *old, size_t size);
extern void *REAL_ONE(aligned_alloc)(size_t alignment, size_t size);
extern void REAL_ONE(free)(void *memory);

enum { POISON = 0xdb };

static _Thread_local bool working; /* on this thread */
static long left = -1;             /* allocations before the one that fails; negative: none does */
static long counted;
static long live;          /* allocated and not freed, by anybody */
static const void *failed; /* who asked for what it did not get */

static bool may_fail(const void *caller)
{
    static const char *const aborting[] = { "gomp", "libomp", "blas", "gfortran", "ld-linux" };
    Dl_info where;
    if (!dladdr(caller, &where) || !where.dli_fname) return false;
    for (size_t i = 0; i < sizeof aborting / sizeof *aborting; i++)
        if (strstr(where.dli_fname, aborting[i])) return false;
    return true;
}

static bool fails(const void *caller)
{
    if (!working || !may_fail(caller)) return false;
    counted++;
    if (left < 0 || left-- > 0) return false;
    failed = caller;
    errno = ENOMEM;
    return true;
}

static void *kept(void *memory)
{
    if (memory) __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
    return memory;
}

#define CALLER __builtin_return_address(0)

void *STAND_IN(malloc)(size_t size)
{
    if (fails(CALLER)) return NULL;
    void *memory = kept(REAL_ONE(malloc)(size));
    if (memory && working) memset(memory, POISON, size);
    return memory;
}

void *STAND_IN(calloc)(size_t count, size_t size)
{
    return fails(CALLER) ? NULL : kept(REAL_ONE(calloc)(count, size));
}

void *STAND_IN(realloc)(void *old, size_t size)
{
    if (fails(CALLER)) return NULL;
    void *memory = REAL_ONE(realloc)(old, size);
    return old ? memory : kept(memory);
}

void *STAND_IN(aligned_alloc)(size_t alignment, size_t size)
{
    return fails(CALLER) ? NULL : kept(REAL_ONE(aligned_alloc)(alignment, size));
}

void STAND_IN(free)(void *memory)
{
    if (!memory) return;
    __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
    int kept_errno = errno;
    memset(memory, POISON, malloc_usable_size(memory));
    REAL_ONE(free)(memory);
    errno = kept_errno;
}

#ifndef SANITIZED
void *memalign(size_t alignment, size_t size)
{
    return fails(CALLER) ? NULL : kept(REAL_ONE(aligned_alloc)(alignment, size));
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    void *memory = fails(CALLER) ? NULL : kept(REAL_ONE(aligned_alloc)(alignment, size));
    if (!memory) return ENOMEM;
    *to = memory;
    return 0;
}
#endif

static void *for_jansson(size_t size)
{
    bool doubled = size >= 32 && (size & (size - 1)) == 0;
    return doubled ? kept(REAL_ONE(malloc)(size)) : STAND_IN(malloc)(size);
}

/* The disk is not what is tried. */
int fsync(int descriptor)
{
    (void)descriptor;
    return 0;
}

/* ---- what came of it --------------------------------------------------------------------------------- */

/* Fowler, Noll and Vo: of all bytes of a result; never 0. */
static uint64_t digest(uint64_t sum, const void *at, size_t size)
{
    const unsigned char *byte = at;
    for (size_t i = 0; i < size; i++) sum = (sum ^ byte[i]) * UINT64_C(1099511628211);
    return sum | 1;
}

static uint64_t of_tensor(uint64_t sum, st_tensor x)
{
    return st_is_null(x) ? sum : digest(sum, st_data(x), (size_t)st_numel(x) * sizeof(st_real));
}

static uint64_t of_net(const st_net *n)
{
    return n ? of_tensor(of_tensor(1, st_net_parameters(n)), st_net_states(n)) : 0;
}

static uint64_t of_data(const st_dataset *d)
{
    if (!d) return 0;
    st_real x[3 * 32 * 32], y[1];
    uint64_t sum = 1;
    st_tensor row = st_tensor_wrap(x, d->x), target = st_tensor_wrap(y, d->target);
    for (ptrdiff_t i = 0; i < d->count && !st_error(); i++) {
        d->get(d, i, row, target);
        sum = of_tensor(of_tensor(sum, row), target);
    }
    st_tensor_free(row), st_tensor_free(target);
    return st_error() ? 0 : sum;
}

static char folder[1000];

static const char *in_folder(const char *name)
{
    static char path[8][2100];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* The digest of a file; reading it is no work. */
static uint64_t of_file(const char *path)
{
    unsigned char part[4096];
    uint64_t sum = 1;
    bool before = working;
    working = false;
    FILE *f = fopen(path, "rb");
    for (size_t count; f && (count = fread(part, 1, sizeof part, f)) > 0;) sum = digest(sum, part, count);
    if (f) fclose(f);
    working = before;
    return sum;
}

/* ---- what there is before ---------------------------------------------------------------------------- */

enum { SAMPLES = 8, BATCH = 4, EPOCHS = 1 };

static struct {
    st_net *n, *flat;
    st_dataset *digits, *validation;
    st_tensor x, y, images, target;
    st_tensor weights, states, flat_weights; /* what the nets began with */
    uint64_t parameters;                     /* the digest of n's */
} all;

static st_net *small_net(void)
{
    return st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 2, .kernel = { 5, 5 }, .stride = { 4, 4 }),
        st_batchnorm(), st_relu(), st_dropout(.p = 0.25),
        st_residual(st_sequence(st_conv2d(.out_channels = 2, .kernel = { 3, 3 }, .padding = { 1, 1 }))),
        st_concat(st_maxpool(.kernel = { 2, 2 }), st_avgpool(.kernel = { 2, 2 })), st_flatten(),
        st_dense(.out_features = 10));
}

/* A caller has a net that is built, or none. */
static st_net *built(st_net *n)
{
    if (n && st_net_build(n, BATCH, 5) == 0) return n;
    st_net_free(n);
    return NULL;
}

static void put_bytes(const char *path, const unsigned char *at, size_t count, bool zipped)
{
    if (zipped) {
        gzFile f = gzopen(path, "wb");
        if (!f || gzwrite(f, at, (unsigned)count) != (int)count || gzclose(f)) perror(path);
    } else {
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(at, 1, count, f) != count || fclose(f)) perror(path);
    }
}

static void put_files(void)
{
    static unsigned char images[16 + 4 * 36] = { 0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 6 };
    static unsigned char labels[8 + 4] = { 0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4 };
    static unsigned char cifar[300 * 3073];
    static const char csv_text[] = "a,b,class\n1,2.5,0\n-3,4e2,1\n0.1,7,2\n";
    for (size_t i = 16; i < sizeof images; i++) images[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof cifar; i++) cifar[i] = (unsigned char)(i % 3073 ? i * 11 : i / 3073 % 10);
    put_bytes(in_folder("images"), images, sizeof images, false);
    put_bytes(in_folder("labels.gz"), labels, sizeof labels, true);
    put_bytes(in_folder("cifar"), cifar, sizeof cifar, false);
    put_bytes(in_folder("table.csv"), (const unsigned char *)csv_text, sizeof csv_text - 1, false);
    put_bytes(in_folder("table.csv.gz"), (const unsigned char *)csv_text, sizeof csv_text - 1, true);
}

static int prepare(void)
{
    all.n = built(small_net());
    all.flat = built(st_net_new(ST_SHAPE(3, 4), st_flatten(), st_dense(.out_features = 2)));
    all.digits = st_digits(SAMPLES, 1);
    all.validation = st_digits(6, 2);
    all.x = st_tensor_new(ST_SHAPE(5, 3, 4));
    all.y = st_tensor_new(ST_SHAPE(5));
    all.images = st_tensor_new(ST_SHAPE(BATCH, 1, 28, 28));
    st_normal(all.x, (st_random_key){ 1, 2 }, 0, 1);
    st_normal(all.images, (st_random_key){ 1, 3 }, 0, 1);
    all.target = st_tensor_new(ST_SHAPE(5, 2));
    all.weights = st_tensor_clone(st_net_parameters(all.n));
    all.states = st_tensor_clone(st_net_states(all.n));
    all.flat_weights = st_tensor_clone(st_net_parameters(all.flat));
    st_net_set_metadata(all.n, "data", "drawn");
    all.parameters = of_net(all.n);
    st_net_save(all.n, in_folder("saved"));
    st_npy_save(in_folder("x.npy"), all.x);
    st_npy_save(in_folder("y.npy"), all.y);
    put_files();
    return st_error() ? -1 : 0;
}

/* ---- kinds of the registries --------------------------------------------------------------------------- */

typedef bool takes_options(const void *kind, const st_option_bytes *o);

/* Of numbers and flags: 0.5, 2, 2x2 and true. */
static void give(const st_field *f, st_option_bytes *o)
{
    static const double half = 0.5;
    static const int two[2] = { 2, 2 };
    static const bool yes = true;
    void *at = o->bytes + f->offset;
    if (f->kind == ST_FIELD_REAL) memcpy(at, &half, sizeof half);
    else if (f->kind == ST_FIELD_BOOL) memcpy(at, &yes, sizeof yes);
    else if (f->kind == ST_FIELD_INT) memcpy(at, two, sizeof *two);
    else if (f->kind == ST_FIELD_PAIR) memcpy(at, two, sizeof two);
}

/* The options of a kind: those without a default, and flags, where the kind takes them, so that it keeps all
 * that it may keep. */
static st_option_bytes most_options(const void *kind, const st_field *fields, takes_options *takes)
{
    const bool before = working;
    st_option_bytes o = { 0 };
    working = false;
    for (const st_field *f = fields; f && f->name; f++)
        if (f->fallback == 0 && f->least > 0) give(f, &o);
    takes(kind, &o), st_error_clear();
    for (const st_field *f = fields; f && f->name; f++) {
        const st_option_bytes without = o;
        if (f->fallback == 0) give(f, &o);
        if (!takes(kind, &o)) o = without;
        st_error_clear();
    }
    working = before;
    return o;
}

/* What a layer takes: rows in place of images; pooling before another layer, in place of two convolutions. */
enum { OF_ROWS = 1, OF_WINDOWS = 2, FORMS = 4 };
static int form;

static st_layer *layer_of(const st_layer_type *type, const st_option_bytes *o)
{
    st_layer *child[2];
    const int children = type->children == ST_LAYER_ANY ? 2 : type->children;
    for (int i = 0; i < children; i++)
        child[i] = i == 0 && form & OF_WINDOWS ? st_maxpool(.kernel = { 2, 2 })
                                               : st_conv2d(.out_channels = 4, .kernel = { 1, 1 });
    return st_layer_new(type, type->fields ? o : NULL, children, child);
}

static st_shape layer_input(void)
{
    return form & OF_ROWS ? ST_SHAPE(2, 4) : ST_SHAPE(2, 4, 4, 4);
}

/* Leaves the form that it took. */
static bool layer_takes(const void *type, const st_option_bytes *o)
{
    const int before = form;
    for (form = 0; form < FORMS; form++) {
        st_error_clear();
        st_layer *l = layer_of(type, o);
        const bool takes = l && st_layer_build(l, layer_input(), 1) == 0;
        st_layer_free(l);
        if (takes) return true;
    }
    form = before;
    return false;
}

static bool loss_takes(const void *kind, const st_option_bytes *o)
{
    return st_loss_new(kind, o).kind;
}
static bool schedule_takes(const void *kind, const st_option_bytes *o)
{
    return st_schedule_new(kind, o).kind;
}
static bool optim_takes(const void *kind, const st_option_bytes *o)
{
    st_optim *made = st_optim_new(kind, o);
    st_optim_free(made);
    return made;
}

/* ---- work: a digest of its result, or 0 where it failed, with everything given back ------------------- */

typedef uint64_t work(void);
static bool again; /* after a failure, whose files are still there */

static uint64_t build(void)
{
    st_net *n = built(small_net());
    uint64_t sum = of_net(n);
    st_net_free(n);
    return sum;
}

/* Its parameters stay; a net that could not be built again runs when it could. */
static uint64_t build_again(void)
{
    static ptrdiff_t batch = BATCH;
    if (!again) batch = batch == BATCH ? 2 * BATCH : BATCH;
    if (st_net_build(all.n, batch, 6)) return of_net(all.n) == all.parameters ? 0 : 2;
    return of_tensor(of_net(all.n), st_net_forward(all.n, all.images, ST_PREDICT));
}

/* A layer of each type copied, built alone, and shared. */
static uint64_t layers(void)
{
    enum { MOST_TYPES = 128 };
    static struct {
        st_option_bytes options;
        int form;
        bool known; /* found once, as that takes longer than the rest */
    } chosen[MOST_TYPES];
    uint64_t sum = 1;
    for (int i = 0; st_layer_types[i] && sum; i++) {
        const st_layer_type *type = st_layer_types[i];
        if (i == MOST_TYPES)
            return 0 * (uint64_t)st_error_set("more types of layers than oom.c has room for");
        if (!chosen[i].known) {
            chosen[i].options = most_options(type, type->fields, layer_takes);
            chosen[i].form = form, chosen[i].known = true;
        }
        const st_option_bytes o = chosen[i].options;
        form = chosen[i].form;
        st_tensor x = st_tensor_new(layer_input()), y = { 0 }, same = { 0 };
        st_layer *l = layer_of(type, &o), *twin = l ? st_layer_clone(l) : NULL;
        if (twin && st_layer_build(l, x.shape, 1) == 0 && st_layer_build_shared(twin, x.shape, l) == 0) {
            y = st_tensor_new(l->y), same = st_tensor_new(l->y);
            st_layer_forward(l, x, y), st_layer_forward(twin, x, same);
        }
        sum = !st_error() && of_tensor(sum, y) == of_tensor(sum, same) ? of_tensor(sum, y) : 0;
        st_tensor_free(y), st_tensor_free(same), st_tensor_free(x), st_layer_free(twin), st_layer_free(l);
    }
    return sum;
}

/* By hand, with each kind of optimizer: a step that fails changes nothing. */
static uint64_t steps(void)
{
    uint64_t sum = 1;
    bool taken = true, intact = true;
    st_net *n = all.flat;
    st_tensor x = st_narrow(all.x, 0, 0, BATCH), target = st_narrow(all.target, 0, 0, BATCH),
              dy = st_tensor_new(target.shape);
    st_copy(st_net_parameters(n), all.flat_weights);
    for (int i = 0; st_optim_kinds[i] && taken && !st_error(); i++) {
        const st_option_bytes options =
            most_options(st_optim_kinds[i], st_optim_kinds[i]->fields, optim_takes);
        st_optim *o = st_optim_new(st_optim_kinds[i], &options);
        st_loss_value(st_mse(), st_net_forward(n, x, ST_TRAIN), target, dy);
        st_net_zero_gradients(n);
        st_net_backward(n, dy, (st_tensor){ 0 });
        uint64_t before = of_net(n);
        taken = o && st_optim_step(o, 0.1, st_net_parameters(n), st_net_gradients(n)) == 0;
        intact = intact && (taken || of_net(n) == before);
        sum = of_tensor(sum, st_net_parameters(n));
        st_optim_free(o);
    }
    st_tensor_free(dy);
    return !intact ? 2 : taken && !st_error() ? sum : 0;
}

/* Runs with each kind of loss, optimizer and schedule. */
static uint64_t run_of_each_kind(void)
{
    uint64_t sum = 1;
    int loss = 0, optim = 0, schedule = 0;
    for (bool more = true; more && sum;) {
        const st_loss_kind *l = st_loss_kinds[loss];
        const st_optim_kind *o = st_optim_kinds[optim];
        const st_schedule_kind *s = st_schedule_kinds[schedule];
        const st_option_bytes of_loss = most_options(l, l->fields, loss_takes),
                              of_optim = most_options(o, o->fields, optim_takes),
                              of_schedule = most_options(s, s->fields, schedule_takes);
        st_net *n = st_net_new(ST_SHAPE(3, 4), st_flatten(), st_dense(.out_features = 2), st_log_softmax());
        st_dataset *d = st_dataset_tensors(all.x, l->classes ? all.y : all.target);
        st_optim *made = st_optim_new(o, &of_optim);
        const int status =
            st_train(n, d, .loss = st_loss_new(l, &of_loss), .optim = made, .epochs = EPOCHS, .batch = BATCH,
                     .schedule = st_schedule_new(s, &of_schedule), .validation = d);
        sum = status || st_error() ? 0 : digest(sum, &(uint64_t){ of_net(n) }, sizeof(uint64_t));
        st_net_free(n), st_optim_free(made), st_dataset_free(d);
        const bool rest[] = { st_loss_kinds[loss + 1], st_optim_kinds[optim + 1],
                              st_schedule_kinds[schedule + 1] };
        loss += rest[0], optim += rest[1], schedule += rest[2];
        more = rest[0] || rest[1] || rest[2];
    }
    return sum;
}

/* The caller's net: where the run cannot begin, it is as it was. */
static uint64_t run_of_a_net(void)
{
    st_copy(st_net_parameters(all.n), all.weights);
    st_copy(st_net_states(all.n), all.states);
    all.n->step = 0;
    st_optim *o = st_sgd(.lr = 0.1, .momentum = 0.9);
    st_train_options options = { .loss = st_cross_entropy(), .optim = o, .epochs = 1, .batch = BATCH };
    int status = st_train_run(all.n, all.digits, options, NULL);
    st_optim_free(o);
    if (status) return of_net(all.n) == all.parameters ? 0 : 2;
    return of_net(all.n);
}

/* A team of two, of which the other does what this one does. */
static int mirrored_gather(const st_comm *t, ptrdiff_t n, size_t size, void *x)
{
    size_t own = (size_t)st_comm_first(t, n, 1) * size;
    memmove((char *)x + own, x, (size_t)n * size - own);
    return 0;
}
static int mirrored_exchange(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts)
{
    size_t own = (size_t)st_comm_first(t, n, 1) * size;
    for (int q = 0; q < 2; q++) memcpy((char *)parts + q * own, x, own);
    return 0;
}
static int mirrored_broadcast(const st_comm *t, int from, ptrdiff_t n, size_t size, void *x)
{
    (void)t, (void)from, (void)n, (void)size, (void)x;
    return 0;
}
static int mirrored_least(const st_comm *t, int *x)
{
    (void)t, (void)x;
    return 0;
}

/* Two of four micro-batches at hand. */
static uint64_t rank(void)
{
    const st_comm two = { 0,    2,   mirrored_gather, mirrored_exchange, mirrored_broadcast, mirrored_least,
                          NULL, NULL };
    st_net *n = built(small_net());
    st_optim *o = st_sgd(.lr = 0.01, .momentum = 0.9);
    st_train_options options = {
        .loss = st_cross_entropy(), .optim = o, .epochs = 1, .batch = BATCH, .micro_batches = 4, .ranks = &two
    };
    uint64_t before = n ? of_net(n) : 0;
    int status = st_train_run(n, all.digits, options, NULL);
    uint64_t sum = !n ? 0 : status == 0 ? of_net(n) : of_net(n) == before ? 0 : 2;
    st_net_free(n), st_optim_free(o);
    return sum;
}

static bool go_on(const st_train_report *r, void *context)
{
    (void)r, (void)context;
    return true;
}

static uint64_t run(void)
{
    const char *path = in_folder("checkpoint"), *log = in_folder("run.csv");
    st_net *n = small_net();
    st_optim *o = st_adam(.lr = 0.01);
    st_dataset *drawn = st_dataset_augment(all.digits, .shift = 1, .noise = 0.1, .seed = 3);
    if (!again) unlink(path);
    int status =
        st_train(n, drawn, .loss = st_cross_entropy(.label_smoothing = 0.1), .optim = o, .epochs = EPOCHS,
                 .batch = BATCH, .schedule = st_cosine_lr(.end_factor = 0.1), .validation = all.validation,
                 .callbacks = { st_clip(.norm = 1), each_epoch(go_on, NULL), st_early_stopping(.patience = 2),
                                st_ema(), st_log(log), st_checkpoint(path, 1, true) });
    uint64_t sum = status ? 0 : of_net(n);
    st_net_free(n), st_optim_free(o), st_dataset_free(drawn);
    return sum;
}

/* A rate is found, and the net is what it was. */
static uint64_t find_rate(void)
{
    double lr = 0;
    FILE *to = fopen("/dev/null", "w");
    if (!to) return 0 * (uint64_t)st_error_set("no memory for a stream");
    st_copy(st_net_parameters(all.n), all.weights);
    st_copy(st_net_states(all.n), all.states);
    all.n->step = 0;
    st_optim *o = st_sgd(.lr = 0.1);
    int status =
        st_train(all.n, all.digits, .loss = st_cross_entropy(), .optim = o, .batch = BATCH, .epochs = 100,
                 .callbacks = { st_lr_finder(.lr = &lr, .least = 1e-3, .steps = 100), st_progress(to) });
    fclose(to), st_optim_free(o);
    if (of_net(all.n) != all.parameters) return 2;
    return status ? 0 : digest(1, &lr, sizeof lr);
}

/* From the middle of a run: nothing was changed where the file could not be read. */
static uint64_t resume(void)
{
    st_train_result result = { 0 };
    st_net *n = small_net();
    st_optim *o = st_adam(.lr = 0.01);
    st_train_options options = { .loss = st_cross_entropy(),
                                 .optim = o,
                                 .epochs = 1,
                                 .batch = BATCH,
                                 .callbacks = { st_checkpoint(in_folder("middle"), .resume = true) } };
    bool began = access(in_folder("middle"), F_OK) == 0;
    options.epochs = began ? 2 : 1;
    int status = st_train_run(n, all.digits, options, &result);
    uint64_t sum = status ? 0 : digest(of_net(n), &result.epochs, sizeof result.epochs);
    if (!began) sum = resume(); /* the first time */
    else if (status == 0) sum = result.steps == 2 * SAMPLES / BATCH ? sum : 2;
    st_net_free(n), st_optim_free(o);
    return sum;
}

static uint64_t save(void)
{
    uint64_t before = of_file(in_folder("saved"));
    int status = st_net_save(all.n, in_folder("saved"));
    if (of_file(in_folder("saved")) != before) return 2;
    return status ? 0 : before;
}

static uint64_t load(void)
{
    st_net *n = st_net_load(in_folder("saved"), .batch = BATCH);
    uint64_t sum = n && st_net_metadata(n, "data") ? of_net(n) : 0;
    st_net_free(n);
    return sum;
}

static uint64_t load_tensors(void)
{
    int status = st_net_load_tensors(all.n, in_folder("saved"));
    return of_net(all.n) != all.parameters ? 2 : status ? 0 : all.parameters;
}

/* In a library without ONNX the result is its error. */
static uint64_t export(void)
{
    const char *path = in_folder("net.onnx");
    st_net *n =
        built(st_net_new(ST_SHAPE(2, 6, 6), st_conv2d(.out_channels = 4, .kernel = { 3, 3 }),
                         st_batchnorm(.no_affine = true), st_gelu(), st_upsample(.scale = { 2, 2 }),
                         st_groupnorm(.groups = 2), st_concat(st_relu6(), st_residual(st_elu())),
                         st_adaptive_avgpool({ 4, 4 }), st_maxpool(.kernel = { 2, 2 }, .padding = { 1, 1 })));
    if (n) st_net_set_metadata(n, "mean", "0");
    int status = n && !st_error() ? st_net_export_onnx(n, path) : -1;
    st_net_free(n);
    if (status == 0) return of_file(path);
    if (!strstr(st_error(), "without ONNX")) return 0;
    st_error_clear();
    return 1;
}

static uint64_t write_npy(void)
{
    int status = st_npy_save(in_folder("x.npy"), all.x);
    return status ? 0 : of_file(in_folder("x.npy"));
}

static uint64_t read_npy(void)
{
    st_tensor x = st_npy_load(in_folder("x.npy"));
    uint64_t sum = st_is_null(x) ? 0 : of_tensor(1, x);
    st_tensor_free(x);
    return sum;
}

static uint64_t took(st_dataset *d)
{
    uint64_t sum = of_data(d);
    st_dataset_free(d);
    return sum;
}

#define READS(name, made)                                                                                    \
    static uint64_t name(void)                                                                               \
    {                                                                                                        \
        return took(made);                                                                                   \
    }
READS(npy, st_dataset_npy(in_folder("x.npy"), in_folder("y.npy")))
READS(idx, st_dataset_idx(in_folder("images"), in_folder("labels.gz")))
READS(table, st_dataset_csv(in_folder("table.csv"), .label = -1))
READS(zipped_table, st_dataset_csv(in_folder("table.csv.gz"), .label = -1))
READS(cifar, st_dataset_cifar10((const char *const[]){ in_folder("cifar"), in_folder("cifar") }, 2))
READS(tensors, st_dataset_tensors(all.x, all.y))

static uint64_t digits(void)
{
    st_dataset *d = st_digits(20, 3), *part = d ? st_dataset_slice(d, 5, 10) : NULL;
    uint64_t sum = of_data(part);
    st_dataset_free(part), st_dataset_free(d);
    return sum;
}
static uint64_t normalise(void)
{
    st_normalization *scale = st_normalization_measure(all.digits), *back = NULL;
    st_dataset *normal = scale ? st_dataset_normalize(all.digits, scale) : NULL;
    if (normal && st_net_set_normalization(all.n, scale) == 0) back = st_net_normalization(all.n);
    uint64_t sum = back ? of_data(normal) : 0;
    if (sum) sum = digest(sum, back->mean, sizeof *back->mean);
    st_net_set_metadata(all.n, "normalization", NULL);
    st_dataset_free(normal), st_normalization_free(scale), st_normalization_free(back);
    return sum;
}

static uint64_t classes(void)
{
    static const char *const names[] = { "0", "1", "two", "3", "4", "5", "6", "7", "8", "nine" };
    st_class_names *back = st_net_set_classes(all.n, 10, names) ? NULL : st_net_classes(all.n);
    uint64_t sum = back ? digest(1, back->name[9], 4) : 0;
    st_net_set_metadata(all.n, "classes", NULL);
    st_class_names_free(back);
    return sum;
}

static uint64_t share(void)
{
    st_net *twin = st_net_share(all.n, BATCH);
    uint64_t sum = twin ? of_tensor(of_net(twin), st_net_forward(twin, all.images, ST_PREDICT)) : 0;
    st_net_free(twin);
    return sum;
}

static uint64_t gradients(void)
{
    st_layer *l = st_conv2d(.out_channels = 2, .kernel = { 3, 3 });
    st_gradcheck_result r = { 0 };
    if (l) r = st_gradcheck_layer(l, ST_SHAPE(2, 2, 5, 5), (st_gradcheck_options){ 0 });
    st_layer_free(l);
    return r.passed ? digest(1, &r.checked, sizeof r.checked) : 0;
}

static uint64_t gradients_of_a_net(void)
{
    uint64_t before = of_net(all.flat);
    if (st_net_build(all.flat, BATCH, 1)) return 0; /* for fewer than x has */
    st_gradcheck_result r =
        st_gradcheck_net(all.flat, all.x, all.target, st_mse(), (st_gradcheck_options){ 0 });
    if (of_net(all.flat) != before) return 2;
    return r.passed ? digest(1, &r.checked, sizeof r.checked) : 0;
}

static void look(const st_watch_call *c, void *context)
{
    (void)context;
    st_watch_run(c);
}

static uint64_t watched(void)
{
    st_watch *w = st_watch_begin(all.n, look, NULL);
    uint64_t sum = w ? of_tensor(1, st_net_forward(all.n, all.images, ST_PREDICT)) : 0;
    st_watch_end(w);
    return sum;
}

/* Numbers go wrong, and that is what must be said; or that there was no memory to say where. */
static uint64_t anomaly(void)
{
    st_net *n = small_net();
    st_optim *o = st_sgd(.lr = 0.1);
    st_tensor x = st_tensor_new(ST_SHAPE(4, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(4));
    st_fill(x, (st_real)NAN);
    st_dataset *d = st_is_null(x) || st_is_null(y) ? NULL : st_dataset_tensors(x, y);
    bool made = n && o && d;
    if (made &&
        st_train(n, d, .loss = st_cross_entropy(), .optim = o, .callbacks = { st_detect_anomaly() }) == 0)
        st_error_set("it was not found");
    uint64_t sum = 0;
    if (made && !strstr(st_error(), "memory")) {
        sum = digest(1, st_error(), strlen(st_error()));
        st_error_clear();
    }
    st_dataset_free(d), st_tensor_free(x), st_tensor_free(y), st_net_free(n), st_optim_free(o);
    return sum;
}

static uint64_t evaluate(void)
{
    st_metrics score;
    return st_evaluate(all.n, all.validation, st_cross_entropy(), &score)
               ? 0
               : digest(1, &score.loss, sizeof score.loss);
}

/* A first layer that must pack what it is given. */
static uint64_t predict_view(void)
{
    st_tensor y = st_tensor_new(ST_SHAPE(5, 2)), x = st_flip(st_permute(all.x, ST_AXES(0, 1, 2)), 2);
    uint64_t sum = !st_is_null(y) && st_net_predict(all.flat, x, y) == 0 ? of_tensor(1, y) : 0;
    st_tensor_free(y);
    return sum;
}

static uint64_t summary(void)
{
    char text[1 << 14] = "";
    FILE *to = fmemopen(text, sizeof text, "w");
    if (!to) return 0 * (uint64_t)st_error_set("no memory for a stream");
    int status = st_net_summary(all.n, BATCH, to);
    fclose(to);
    st_net_build(all.n, BATCH, 0);
    return status || st_error() ? 0 : digest(1, text, strlen(text));
}

static uint64_t page(void)
{
    static const st_train_report epochs[2] = { { .epoch = 1, .epochs = 2, .training.loss = 2 },
                                               { .epoch = 2, .epochs = 2, .training.loss = 1 } };
    int status = report_write(in_folder("page.html"), &(report){ .epochs = epochs, .count = 2 });
    return status ? 0 : of_file(in_folder("page.html"));
}

static uint64_t write_log(void)
{
    const char *const path[] = { in_folder("log.csv"), in_folder("log.jsonl") };
    uint64_t sum = 1;
    for (int i = 0; i < 2 && sum; i++) {
        if (!again) unlink(path[i]);
        log_lines l;
        bool good = log_begin(&l, path[i], false) == 0;
        for (int epoch = 1; epoch <= 3 && good; epoch++)
            good = log_report(&l, &(st_train_report){ .epoch = epoch }) == 0;
        if (log_end(&l)) good = false;
        if (good) {
            good = log_begin(&l, path[i], true) == 0 &&
                   log_report(&l, &(st_train_report){ .epoch = 3, .lr = 1 }) == 0;
            if (log_end(&l)) good = false;
        }
        uint64_t bytes = of_file(path[i]);
        sum = good ? digest(sum, &bytes, sizeof bytes) : 0;
    }
    return sum;
}

/* ---- the campaign ------------------------------------------------------------------------------------ */

static const struct job {
    const char *name;
    work *work;
} jobs[] = {
    { "building a net", build },
    { "building it again for another batch", build_again },
    { "a layer of each type, built, copied and shared", layers },
    { "steps by hand, with each kind of optimizer", steps },
    { "training with each kind of loss, optimizer and schedule", run_of_each_kind },
    { "training a net that the caller has", run_of_a_net },
    { "training as a rank of a team", rank },
    { "training with checkpoints, and going on where it ended", run },
    { "finding a learning rate", find_rate },
    { "going on from a checkpoint", resume },
    { "saving a net", save },
    { "loading a net", load },
    { "loading a net's tensors", load_tensors },
    { "exporting a net to ONNX", export },
    { "writing a file of NumPy", write_npy },
    { "reading a file of NumPy", read_npy },
    { "data of NumPy's files", npy },
    { "data of IDX files, one of them gzipped", idx },
    { "data of a table", table },
    { "data of a gzipped table", zipped_table },
    { "data of CIFAR-10's files", cifar },
    { "drawn digits, and a slice of them", digits },
    { "data of tensors", tensors },
    { "normalisation measured, applied, noted, read back", normalise },
    { "names of classes noted and read back", classes },
    { "a net that shares parameters", share },
    { "a gradient check", gradients },
    { "a gradient check of a net", gradients_of_a_net },
    { "watching a net", watched },
    { "finding where numbers go wrong", anomaly },
    { "evaluating", evaluate },
    { "predicting from a view that must be packed", predict_view },
    { "a summary", summary },
    { "logs, gone on with", write_log },
    { "the page of a run", page },
};
enum { JOBS = sizeof jobs / sizeof *jobs };

/* Progress that a child reports before it dies. */
static struct page {
    long at, failures, tolerated, wrong;
    bool done;
} * said;

static void complain(const char *what, const char *more)
{
    Dl_info where = { 0 };
    said->wrong++;
    if (failed) dladdr(failed, &where);
    printf("     allocation %ld, from %s+%#tx: %s %s\n", said->at, where.dli_fname ? where.dli_fname : "?",
           where.dli_fbase ? (const char *)failed - (const char *)where.dli_fbase : (ptrdiff_t)0, what, more);
    fflush(stdout);
}

/* An error that says that memory ran out, and nothing else instead. */
static bool is_clear(const char *text)
{
    static const char *const misleading[] = { "corrupt", "truncated", "not JSON", "ends early", "UTF-8 at" };
    if (!text || !strstr(text, "memory")) return false;
    for (size_t i = 0; i < sizeof misleading / sizeof *misleading; i++)
        if (strstr(text, misleading[i])) return false;
    return true;
}

static void try(work *of, uint64_t expected)
{
    long before = live;
    failed = NULL;
    counted = 0;
    left = said->at;
    working = true;
    again = false;
    uint64_t sum = of();
    working = false;
    said->done = left >= 0;
    left = -1;
    if (said->done && (sum != expected || st_error()))
        complain("nothing failed, but", st_error() ? st_error() : "the result is another");
    if (said->done) return;
    said->failures++;
    if (sum == 2) complain("what was there is lost:", st_error() ? st_error() : "");
    else if (sum && sum != expected) complain("success, but another result", "");
    else if (sum && st_error()) complain("success, with an error:", st_error());
    else if (sum) said->tolerated++;
    else if (!is_clear(st_error())) complain("not a clear error:", st_error() ? st_error() : "(none)");
    st_error_clear();
    again = true;
    if (of() != expected || st_error())
        complain("afterwards it", st_error() ? st_error() : "comes to another result");
    st_error_clear();
#ifndef SANITIZED /* which counts for itself, and knows what the C library hands to us */
    if (live != before) {
        char text[64];
        snprintf(text, sizeof text, "%ld", live - before);
        complain("blocks lost:", text);
    }
#else
    (void)before;
#endif
}

static int child(const struct job *j)
{
    if (prepare()) return fprintf(stderr, "oom: %s\n", st_error()), 2;
    uint64_t expected = j->work(), same = j->work();
    if (!expected || expected != same || st_error())
        return fprintf(stderr, "oom: %s: %s\n", j->name, st_error() ? st_error() : "not the same twice"), 2;
    for (; !said->done; said->at += !said->done) try(j->work, expected);
    return 0;
}

static bool campaign(const struct job *j)
{
    *said = (struct page){ 0 };
    while (!said->done) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) exit(child(j)); /* what a sanitizer or a count of lines has to say comes then */
        if (pid < 0 || waitpid(pid, &status, 0) != pid) return perror("oom"), false;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return false;
        if (said->done && status) printf("     ended with status %d\n", WEXITSTATUS(status)), said->wrong++;
        if (said->done || said->wrong > 50) break;
        printf("     allocation %ld: killed by signal %d\n", said->at++,
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        said->wrong++;
    }
    printf("%s %s: %ld allocations failed, %ld of them without harm\n", said->wrong ? "FAIL" : "ok  ",
           j->name, said->failures, said->tolerated);
    return said->wrong == 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    for (const struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] != '.') unlink(in_folder(entry->d_name));
    if (d) closedir(d);
}

int main(int argc, char **argv)
{
    if (argc < 2) return fputs("usage: oom FOLDER [NAME]\n", stderr), 2;
    double began = now();
    json_set_alloc_funcs(for_jansson, free);
    static char lines[BUFSIZ];
    setvbuf(stdout, lines, _IOLBF, sizeof lines); /* no allocation of whoever prints first */
    int passed = 0, tried = 0;
    long failures = 0;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    mkdir(folder, 0777);
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED) return perror("oom"), 2;
    for (int i = 0; i < JOBS; i++) {
        if (argc > 2 && !strstr(jobs[i].name, argv[2])) continue;
        empty_folder();
        tried++;
        passed += campaign(&jobs[i]);
        failures += said->failures;
    }
    empty_folder();
    rmdir(folder);
    printf("%d passed, %d failed: %ld allocations failed in %.0f s\n", passed, tried - passed, failures,
           now() - began);
    return passed < tried;
}

#else

int main(void)
{
    puts("skip memory that runs out: it takes glibc's allocator, without threads being watched\n0 passed, 0 "
         "failed");
    return 0;
}

#endif
