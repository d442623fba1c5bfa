/* test_faults.c: disks that fail: every call to the system in turn, while files are written and while they
 * are read.
 *
 * This program's open, fdopen, rename, ... stand in for the C library's, and its streams write, read, seek
 * and close by functions of ours, so that the n-th of all these calls can fail, a write after half of its
 * bytes. Which takes glibc, and no sanitizer that has such functions of its own. BLAS's product is replaced
 * as well, to count calls. */
#define _GNU_SOURCE /* fopencookie, RTLD_NEXT */
#include "tests/files.h"
#include "tests/log_lines.h"
#include "tests/support.h"

#include "examples/stride/report.h"
#include "nn/data/formats.h"
#include "nn/data/digits.h"
#include "nn/onnx/onnx.h"
#include "nn/files/checkpoint.h"
#include "nn/files/save.h"
#include "nn/train.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    !defined(SANITIZED)

/* ---- calls that fail --------------------------------------------------------------------------------- */

static int left = -1; /* calls before the one that fails; negative: none does */
static int reason;    /* its errno */
static const char *failed;
static char calls[1000]; /* since they were counted, by name */

static void count_calls(int before, int with)
{
    left = before, reason = with, failed = NULL;
    calls[0] = '\0';
}

/* False where none failed: there were fewer. */
static bool one_failed(void)
{
    left = -1;
    return failed != NULL;
}

static bool fails(const char *call)
{
    if (left < 0) return false;
    strncat(calls, call, sizeof calls - strlen(calls) - 1);
    strncat(calls, " ", sizeof calls - strlen(calls) - 1);
    if (left-- > 0) return false;
    left = 1 << 30;
    errno = reason;
    failed = call;
    return true;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return fstatat(AT_FDCWD, path, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

int open(const char *path, int flags, ...)
{
    return fails(is_folder(path) ? "open-folder" : "open")
               ? -1
               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
}

int open64(const char *path, int flags, ...)
{
    return open(path, flags);
}

int close(int descriptor)
{
    bool failing = fails("close");
    int status = (int)syscall(SYS_close, descriptor);
    return failing ? errno = reason, -1 : status;
}

ssize_t read(int descriptor, void *to, size_t size)
{
    return fails("read") ? -1 : (ssize_t)syscall(SYS_read, descriptor, to, size);
}

off_t lseek(int descriptor, off_t offset, int from)
{
    return fails("seek") ? -1 : (off_t)syscall(SYS_lseek, descriptor, offset, from);
}

off64_t lseek64(int descriptor, off64_t offset, int from)
{
    return lseek(descriptor, offset, from);
}

int fsync(int descriptor)
{
    struct stat status;
    bool folder = fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
    return fails(folder ? "flush-folder" : "flush") ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int ftruncate(int descriptor, off_t size)
{
    return fails("truncate") ? -1 : (int)syscall(SYS_ftruncate, descriptor, size);
}

int rename(const char *from, const char *to)
{
    return fails("rename") ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int stat(const char *restrict path, struct stat *restrict status)
{
    return fails("stat") ? -1 : fstatat(AT_FDCWD, path, status, 0);
}

int access(const char *path, int mode)
{
    return fails("access") ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

char *realpath(const char *restrict path, char *restrict resolved)
{
    char *(*real_one)(const char *, char *);
    *(void **)&real_one = dlsym(RTLD_NEXT, "realpath");
    return fails("realpath") ? NULL : real_one(path, resolved);
}

/* ---- streams of such calls ----------------------------------------------------------------------------- */

enum { STREAMS = 8 };

static struct stream {
    FILE *f;
    int descriptor;
} streams[STREAMS];

static ssize_t put(void *cookie, const char *from, size_t size)
{
    const struct stream *s = cookie;
    bool failing = fails("write");
    ssize_t written = syscall(SYS_write, s->descriptor, from, failing ? size / 2 : size);
    return failing ? errno = reason, 0 : written;
}

static ssize_t take(void *cookie, char *to, size_t size)
{
    return read(((const struct stream *)cookie)->descriptor, to, size);
}

static int go(void *cookie, off64_t *offset, int from)
{
    off_t at = lseek(((const struct stream *)cookie)->descriptor, *offset, from);
    if (at >= 0) *offset = at;
    return at < 0 ? -1 : 0;
}

static int end(void *cookie)
{
    struct stream *s = cookie;
    s->f = NULL;
    bool failing = fails("close-stream");
    int status = (int)syscall(SYS_close, s->descriptor);
    return failing ? errno = reason, -1 : status;
}

static FILE *stream_of(int descriptor, const char *mode)
{
    struct stream *s = streams;
    while (s < streams + STREAMS - 1 && s->f) s++;
    *s = (struct stream){ fopencookie(s, mode, (cookie_io_functions_t){ take, put, go, end }), descriptor };
    return s->f;
}

FILE *fdopen(int descriptor, const char *mode)
{
    return fails("fdopen") ? NULL : stream_of(descriptor, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    int flags = (mode[0] == 'w'   ? O_CREAT | O_TRUNC
                 : mode[0] == 'a' ? O_CREAT | O_APPEND
                                  : 0) |
                (strchr(mode, '+') ? O_RDWR
                 : mode[0] == 'r'  ? O_RDONLY
                                   : O_WRONLY);
    int descriptor = fails("fopen") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
    return descriptor < 0 ? NULL : stream_of(descriptor, mode);
}

int fileno(FILE *f)
{
    for (const struct stream *s = streams; s < streams + STREAMS; s++)
        if (s->f == f) return s->descriptor;
    return f == stdin ? 0 : f == stdout ? 1 : 2;
}

/* ---- files --------------------------------------------------------------------------------------------- */

typedef struct content {
    size_t count;
    char at[1 << 17];
} content;

static void get(const char *name, content *c)
{
    FILE *f = fopen(path_of(name), "rb");
    assert_non_null(f);
    c->count = fread(c->at, 1, sizeof c->at, f);
    assert_true(c->count < sizeof c->at);
    fclose(f);
}

static bool is(const char *name, const content *expected)
{
    static content found;
    get(name, &found);
    return found.count == expected->count && memcmp(found.at, expected->at, found.count) == 0;
}

static void put_file(const char *name, const content *c)
{
    written(name, (bytes){ c->count, c->at });
}

static int count_files(void)
{
    int count = 0;
    DIR *all = opendir(path_of("."));
    assert_non_null(all);
    while (readdir(all)) count++;
    closedir(all);
    return count;
}

/* One line that says which file and why. */
static void assert_says(const char *name, const char *why)
{
    if (!st_error()) fail_msg("no error");
    if (!strstr(st_error(), name) || !strstr(st_error(), why) || strchr(st_error(), '\n'))
        fail_msg("\"%s\" lacks %s or %s", st_error(), name, why);
    st_error_clear();
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28),
                           st_conv2d(.out_channels = 1, .kernel = { 3, 3 }, .stride = { 12, 12 }),
                           st_batchnorm(), st_flatten(), st_dense(.out_features = 10));
    assert_int_equal(st_net_build(n, 4, 7), 0);
    return n;
}

static int save(const char *path)
{
    auto_net *n = small_net();
    int status = st_net_save(n, path);
    return status;
}

static uint64_t digest(uint64_t sum, st_tensor x)
{
    const unsigned char *byte = (const unsigned char *)st_data(x);
    for (size_t i = 0; i < (size_t)st_numel(x) * sizeof(st_real); i++)
        sum = (sum ^ byte[i]) * UINT64_C(1099511628211);
    return sum | 1;
}

static int train_from(const char *path, bool resume, int epochs, st_train_result *result)
{
    auto_net *n = small_net();
    auto_dataset *digits = st_digits(4, 1);
    auto_optim *o = st_adam(.lr = 0.01);
    st_train_options options = { .loss = st_cross_entropy(),
                                 .optim = o,
                                 .epochs = epochs,
                                 .batch = 4,
                                 .callbacks = { st_checkpoint(.path = path, .resume = resume) } };
    uint64_t before = digest(1, st_net_parameters(n));
    int status = st_train_run(n, digits, options, result);
    if (status && resume && digest(1, st_net_parameters(n)) != before)
        fail_msg("%s: parameters are changed", failed);
    return status;
}

static int write_checkpoint(const char *path)
{
    return train_from(path, false, 1, NULL);
}

static int array(const char *path)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(50, 60)); /* more than one block of the stream */
    st_fill(x, 3);
    int status = st_npy_save(path, x);
    return status;
}

static int export(const char *path)
{
    auto_net *n = small_net();
    int status = st_net_export_onnx(n, path);
    return status;
}

static int page(const char *path)
{
    static const st_train_report epochs[2] = { { .epoch = 1, .epochs = 2, .training.loss = 2 },
                                               { .epoch = 2, .epochs = 2, .training.loss = 1 } };
    return report_write(path, &(report){ .epochs = epochs, .count = 2 });
}

/* Calls that may fail without harm: the file is in place by then, or the C library had only read ahead. */
static bool is_harmless(const char *call)
{
    static const char *const calls_without[] = { "open-folder", "flush-folder", "close",
                                                 "stat",        "seek",         "read" };
    for (size_t i = 0; i < sizeof calls_without / sizeof *calls_without; i++)
        if (strcmp(call, calls_without[i]) == 0) return true;
    return false;
}

static void a_disk_that_fails_at_any_call_leaves_the_old_file(void **state)
{
    static const struct {
        const char *name;
        int (*write)(const char *path);
    } writers[] = { { "net", save },
                    { "checkpoint", write_checkpoint },
                    { "array.npy", array },
                    { "page.html", page },
                    { "net.onnx", export } };
    static const int reasons[] = { EIO, ENOSPC };
    static content whole, old = { 3, "old" };
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        const char *name = writers[i].name;
        count_calls(1 << 30, 0);
        int unable = writers[i].write(path_of(name));
        one_failed();
        if (unable && strstr(st_error(), "without ONNX")) {
            st_error_clear();
            continue;
        }
        assert_int_equal(unable, 0);
        if (!strstr(calls, "flush close-stream rename flush-folder ")) fail_msg("%s: %s", name, calls);
        get(name, &whole);
        int files = count_files(), most = 0;
        for (int k = 0; k < 2; k++)
            for (int call = 0;; call++) {
                put_file(name, &old);
                count_calls(call, reasons[k]);
                int status = writers[i].write(path_of(name));
                if (!one_failed()) break;
                about("%s, call %d: %s", name, call, failed);
                most = call;
                assert_int_equal(count_files(), files);
                if (status == 0) {
                    assert_true(is_harmless(failed));
                    assert_true(is(name, &whole));
                    continue;
                }
                assert_says(name, strerror(reasons[k]));
                assert_true(is(name, &old));
                assert_int_equal(writers[i].write(path_of(name)), 0);
                assert_true(is(name, &whole));
            }
        assert_true(most >= 8);
    }
}

static int log_from(int epoch, const char *path)
{
    log_lines l;
    bool good = log_begin(&l, path, true) == 0;
    for (; epoch <= 3 && good; epoch++) good = log_report(&l, &(st_train_report){ .epoch = epoch }) == 0;
    return log_end(&l) || !good ? -1 : 0;
}

/* A log grows; what a failure leaves, it can go on with. */
static void a_log_that_fails_at_any_call_goes_on(void **state)
{
    static content whole;
    static const char *const names[] = { "log.csv", "log.jsonl" };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(log_from(1, path_of(names[i])), 0);
        get(names[i], &whole);
        for (int again = 0; again < 2; again++)
            for (int call = 0;; call++) {
                int why = call % 2 ? EIO : ENOSPC;
                if (!again) unlink(path_of(names[i]));
                count_calls(call, why);
                int status = log_from(again ? 3 : 1, path_of(names[i]));
                if (!one_failed()) break;
                about("%s, call %d: %s", names[i], call, failed);
                if (status) assert_says(names[i], strerror(why));
                else if (!is_harmless(failed) || !is(names[i], &whole)) fail_msg("taken: %s", failed);
                assert_int_equal(log_from(again ? 3 : 1, path_of(names[i])), 0);
                assert_true(is(names[i], &whole));
            }
    }
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static uint64_t of_data(st_dataset *d)
{
    if (!d) return 0;
    uint64_t sum = 1;
    auto_tensor x = st_tensor_new(d->x), y = st_tensor_new(d->target);
    for (ptrdiff_t i = 0; i < d->count; i++) {
        d->get(d, i, x, y);
        sum = digest(digest(sum, x), y);
    }
    st_dataset_free(d);
    return sum;
}

static uint64_t load(const char *path)
{
    auto_net *n = st_net_load(path, .batch = 4);
    uint64_t sum = n ? digest(1, st_net_parameters(n)) : 0;
    return sum;
}

static uint64_t load_tensors(const char *path)
{
    auto_net *n = small_net();
    st_fill(st_net_parameters(n), 1);
    uint64_t before = digest(1, st_net_parameters(n));
    int status = st_net_load_tensors(n, path);
    if (status && digest(1, st_net_parameters(n)) != before) fail_msg("%s: parameters are changed", failed);
    return status ? 0 : before;
}

static uint64_t load_matching(const char *path)
{
    auto_net *n = small_net();
    st_fill(st_net_parameters(n), 1);
    uint64_t before = digest(1, st_net_parameters(n));
    int count = st_net_load_matching(n, path, NULL, NULL);
    if (count < 0 && digest(1, st_net_parameters(n)) != before)
        fail_msg("%s: parameters are changed", failed);
    return (uint64_t)(count + 1);
}

static uint64_t resume(const char *path)
{
    st_train_result result;
    int status = train_from(path, true, 1, &result);
    assert_true(status || result.resumed == 1);
    return status ? 0 : (uint64_t)result.resumed;
}

static uint64_t read_array(const char *path)
{
    auto_tensor x = st_npy_load(path);
    uint64_t sum = st_is_null(x) ? 0 : digest(1, x);
    return sum;
}

static uint64_t images(const char *path)
{
    return of_data(st_dataset_idx(path, path_of("labels")));
}
static uint64_t labels(const char *path)
{
    return of_data(st_dataset_idx(path_of("images"), path));
}
static uint64_t table(const char *path)
{
    return of_data(st_dataset_csv_new(path, (st_csv_options){ 0 }));
}
static uint64_t records(const char *path)
{
    return of_data(st_dataset_cifar10(&path, 1));
}

static const struct reader {
    const char *name;
    uint64_t (*read)(const char *path);
    bool ends_anywhere; /* a part of it may be a file, too */
} readers[] = {
    { "saved", load },
    { "saved", load_tensors },
    { "saved", load_matching },
    { "kept", resume },
    { "kept", load },
    { "x.npy", read_array },
    { "images", images },
    { "images.gz", images },
    { "labels", labels },
    { "labels.gz", labels },
    { "table.csv", table, true },
    { "table.csv.gz", table },
    { "records", records },
    { "records.gz", records },
};
enum { READERS = sizeof readers / sizeof *readers };

static void make_files(void)
{
    static unsigned char pixels[16 + 2 * 6] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                                0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7 };
    static unsigned char classes[8 + 2] = { 0, 0, 8, 1, 0, 0, 0, 2, 4, 1 }, record[3073] = { 7, 1, 2, 3 };
    const bytes of_table = BYTES("0,1.5,-2\n1,3,4e1\n");
    assert_int_equal(save(path_of("saved")), 0);
    assert_int_equal(write_checkpoint(path_of("kept")), 0);
    st_tensor x = st_tensor_new(ST_SHAPE(30, 40)); /* more than one block of the stream */
    assert_int_equal(st_npy_save(path_of("x.npy"), x), 0);
    st_tensor_free(x);
    written("images", (bytes){ sizeof pixels, pixels }),
        zipped("images.gz", (bytes){ sizeof pixels, pixels });
    written("labels", (bytes){ sizeof classes, classes }),
        zipped("labels.gz", (bytes){ sizeof classes, classes });
    written("records", (bytes){ sizeof record, record }),
        zipped("records.gz", (bytes){ sizeof record, record });
    written("table.csv", of_table), zipped("table.csv.gz", of_table);
}

static void a_disk_that_fails_at_any_call_is_named(void **state)
{
    make_files();
    for (const struct reader *r = readers; r < readers + READERS; r++) {
        uint64_t expected = r->read(path_of(r->name));
        assert_true(expected != 0);
        int most = 0;
        for (int call = 0;; call++) {
            count_calls(call, EIO);
            uint64_t sum = r->read(path_of(r->name));
            if (!one_failed()) break;
            about("%s, call %d: %s", r->name, call, failed);
            most = call;
            if (sum && (sum != expected || st_error())) fail_msg("%s: taken, but not the same", r->name);
            if (!sum && (!st_error() || !strstr(st_error(), strerror(EIO))))
                fail_msg("%s", st_error() ? st_error() : "no error");
            st_error_clear();
            assert_true(r->read(path_of(r->name)) == expected);
        }
        assert_true(most >= 2);
    }
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    static content whole;
    make_files();
    for (const struct reader *r = readers; r < readers + READERS; r++) {
        if (r->ends_anywhere) continue;
        get(r->name, &whole);
        for (size_t kept = whole.count; kept-- > 0;) {
            assert_int_equal(truncate(path_of(r->name), (off_t)kept), 0);
            about("%s: %zu bytes of %zu", r->name, kept, whole.count);
            assert_true(r->read(path_of(r->name)) == 0);
            assert_says(r->name, "");
        }
        put_file(r->name, &whole);
    }
}

/* ---- BLAS ---------------------------------------------------------------------------------------- */

#ifdef STRIDE_DOUBLE
#define blas_gemm cblas_dgemm
#define blas_gemv cblas_dgemv
#else
#define blas_gemm cblas_sgemm
#define blas_gemv cblas_sgemv
#endif

static int products; /* that BLAS was called for */

/* Orders and transposes are enums in cblas.h. The product is 0, which is good enough to train with. */
void blas_gemm(int order, int transpose_a, int transpose_b, int m, int n, int k, st_real alpha,
               const st_real *a, int lda, const st_real *b, int ldb, st_real beta, st_real *c, int ldc);
void blas_gemm(int order, int transpose_a, int transpose_b, int m, int n, int k, st_real alpha,
               const st_real *a, int lda, const st_real *b, int ldb, st_real beta, st_real *c, int ldc)
{
    products++;
    for (int i = 0; i < m; i++) memset(c + (ptrdiff_t)i * ldc, 0, (size_t)n * sizeof *c);
}

void blas_gemv(int order, int transpose, int m, int n, st_real alpha, const st_real *a, int lda,
               const st_real *x, int step_x, st_real beta, st_real *y, int step_y);
void blas_gemv(int order, int transpose, int m, int n, st_real alpha, const st_real *a, int lda,
               const st_real *x, int step_x, st_real beta, st_real *y, int step_y)
{
    (void)order, (void)transpose, (void)m, (void)n, (void)alpha, (void)a, (void)lda, (void)x, (void)step_x;
    (void)beta, (void)y, (void)step_y;
    products++;
}

static int products_of_training(void)
{
    auto_net *n = st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }), st_relu(),
        st_maxpool(.kernel = { 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }), st_relu(),
        st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 120), st_relu(),
        st_dense(.out_features = 84), st_relu(), st_dense(.out_features = 10));
    auto_dataset *d = st_digits(20, 1);
    auto_optim *o = st_sgd(.lr = 0.05);
    products = 0;
    assert_int_equal(st_train(n, d, .loss = st_cross_entropy(), .optim = o, .batch = 12), 0);
    return products;
}

/* The control is a product of each kind. */
static void lenet5_trains_without_blas(void **state)
{
    int threads = st_num_threads();
    st_set_num_threads(1);
    use_engine(NULL);
    auto_tensor a = st_tensor_new(ST_SHAPE(2, 2)), b = st_tensor_new(ST_SHAPE(2, 2));
    products = 0;
    st_gemm(a, 1, b, b, 0);
    assert_int_equal(products, 1);
    st_gemm(st_narrow(a, 1, 0, 1), 1, b, st_narrow(b, 1, 0, 1), 0);
    assert_int_equal(products, 2);
    for (int i = 0; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        about("%s", engines[i]);
        assert_int_equal(products_of_training(), 0);
    }
    use_engine(NULL);
    st_set_num_threads(threads);
}

#else

static void everything(void **state)
{
    skip_because("calls can be made to fail with glibc and without a sanitizer alone");
}

#endif

int main(void)
{
    const struct CMUnitTest claims[] = {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    !defined(SANITIZED)
        CLAIM(a_disk_that_fails_at_any_call_leaves_the_old_file),
        CLAIM(a_log_that_fails_at_any_call_goes_on),
        CLAIM(a_disk_that_fails_at_any_call_is_named),
        CLAIM(a_file_cut_at_any_byte_is_refused),
        CLAIM(lenet5_trains_without_blas),
#else
        CLAIM(everything),
#endif
    };
    return cmocka_run_group_tests(claims, enter_folder, NULL);
}
