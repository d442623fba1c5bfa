/* test_replace.c: what may be saved where: trying says what saving does, and neither leaves or loses anything
 * else, nor waits for anyone. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* setgroups, flock */
#include "tests/files.h"
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/files/replace.h"
#include "nn/files/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, SECONDS = 20 };

static char room[600]; /* a folder for one case */

/* In the current folder. */
static int entries(void)
{
    int count = 0;
    DIR *d = opendir(".");
    while (d && readdir(d)) count++;
    if (d) closedir(d);
    return count;
}

/* ---- places --------------------------------------------------------------------------------------- */

#define TEN(x) x x x x x x x x x x
#define LONG_NAME TEN(TEN("ab")) TEN("abcd") /* 240 bytes */

typedef struct place {
    const char *claim;
    const char *make;       /* a command, run in the room */
    const char *path, *end; /* end: the file that is written */
    mode_t mode;            /* of that file; 0: not looked at */
    int reason;             /* 0: it can be saved; an errno; -1: any */
    bool anothers;          /* old files are root's: it is skipped where the maker is not */
} place;

#define DEAD "999999999" /* no process has this number */
#define OLD(name, mode) "printf old >" name " && chmod " mode " " name

static const place places[] = {
    { "a new file", "", "net", "net", 0644, 0 },
    { "an old file", OLD("net", "600"), "net", "net", 0600, 0 },
    { "a file of another group", OLD("net", "664"), "net", "net", 0644, 0, true },
    { "a file that is read only", OLD("net", "440"), "net", "net", 0440, 0 },
    { "a link", OLD("target", "640") " && ln -s target net", "net", "target", 0640, 0 },
    { "a chain of links",
      "mkdir -m 777 sub && ln -s sub/middle net && ln -s ../target sub/middle && " OLD("target", "644"),
      "net", "target", 0644, 0 },
    { "a long name", "", LONG_NAME, LONG_NAME, 0644, 0 },
    { "a link with a whole path", OLD("target", "640") " && ln -s \"$PWD\"/target net", "net", "target", 0640,
      0 },
    { "what a killed writer of a file that is read only left",
      OLD("net", "440") " && " OLD("net." DEAD "-0.stride.tmp", "440"), "net", "net", 0440, 0 },
    { "a link in place of the temporary file",
      OLD("target", "600") " && ln -s target net." DEAD "-0.stride.tmp", "net", "net", 0644, 0 },
    { "a folder in place of the temporary file", "mkdir net." DEAD "-0.stride.tmp", "net", "net", 0644, 0 },
    { "a dangling link", "ln -s target net", "net", "", 0, ENOENT },
    { "a link to itself", "ln -s net net", "net", "", 0, ELOOP },
    { "a link into no folder", "ln -s nowhere/net net", "net", "", 0, ENOENT },
    { "a link to a device", "ln -s /dev/null net", "net", "", 0, -1 },
    { "a pipe", "mkfifo -m 666 net", "net", "", 0, -1 },
    { "a folder", "mkdir -m 777 net", "net", "", 0, -1 },
    { "a folder with a slash", "mkdir -m 777 net", "net/", "", 0, -1 },
    { "a folder that is not there", "", "nowhere/net", "", 0, ENOENT },
    { "a folder that is a file", OLD("net", "600"), "net/net", "", 0, ENOTDIR },
    { "a name too long", "", LONG_NAME LONG_NAME, "", 0, ENAMETOOLONG },
    { "a folder that is locked", "mkdir -m 555 locked", "locked/net", "", 0, EACCES },
};

static void make_place(const place *p)
{
    char command[4000];
    snprintf(command, sizeof command, "cd '%s' && { %s; }%s", room, p->make[0] ? p->make : ":",
             geteuid() == 0 && !p->anothers ? " && find . -type f -exec chown 65534:65534 {} +" : "");
    assert_int_equal(system(command), 0);
}

/* ---- trying and saving ----------------------------------------------------------------------------- */

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 1));
    assert_int_equal(st_net_build(n, 1, 1), 0);
    return n;
}

/* In the room, as another user, who may not write everywhere: 0, or 1 for what was not as expected. Only a
 * new file is added, and what a killed writer left is removed. */
static int attempt(st_net *n, const place *p)
{
    struct stat s;
    const char *path = p->path;
    const bool saved = p->reason == 0, existed = access(path, F_OK) == 0,
               left = saved && lstat("net." DEAD "-0.stride.tmp", &s) == 0 && S_ISREG(s.st_mode);
    const int before = entries() - left;
    for (int trying = 1; trying >= 0; trying--) {
        int status = trying ? st_file_try(path, NULL, NULL) : st_net_save(n, path);
        const char *text = st_error() ? st_error() : "";
        bool named = strstr(text, strlen(path) < 100 ? path : path + strlen(path) - 100) &&
                     (p->reason < 0 || strstr(text, strerror(p->reason)));
        if ((status == 0) != saved || saved == named ||
            entries() != before + (saved && !trying && !existed)) {
            fprintf(stderr, "%s: %s: \"%s\", %d entries\n", p->claim, trying ? "trying" : "saving", text,
                    entries());
            return 1;
        }
        st_error_clear();
    }
    return 0;
}

static void be_nobody(void)
{
    if (geteuid() != 0) return;
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) _exit(3);
}

/* False below a folder like /root, which nobody else may enter. */
static bool another_user_may_enter(const char *folder)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        be_nobody();
        _exit(access(folder, X_OK) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

SETUP(enter_folder)

TEST(trying_says_what_saving_does)
{
    assert_int_equal(chmod(path_of("."), 0755), 0);
    if (!another_user_may_enter(path_of("."))) skip_because("another user may not enter %s", path_of("."));
    auto_net *n = small_net();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const place *p = &places[i];
        struct stat s;
        int status = -1;
        char remove[2 * sizeof room + 40];
        if (p->anothers && geteuid() != 0) continue;
        snprintf(room, sizeof room, "%s", path_of("room"));
        assert_int_equal(mkdir(room, 0777), 0);
        assert_int_equal(chmod(room, 0777), 0);
        make_place(p);
        pid_t child = fork();
        if (child == 0) {
            umask(022);
            be_nobody();
            alarm(SECONDS); /* a pipe has no reader */
            _exit(chdir(room) || attempt(n, p));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status) fail_msg("%s: status %d", p->claim, status);
        if (p->mode) {
            char end[1200];
            snprintf(end, sizeof end, "%s/%s", room, p->end);
            assert_int_equal(lstat(end, &s), 0);
            about("%s: %o", p->claim, s.st_mode);
            assert_true(S_ISREG(s.st_mode) && (s.st_mode & 07777) == p->mode && s.st_size > 3);
        }
        snprintf(remove, sizeof remove, "chmod -R u+rwx '%s'; rm -rf '%s'", room, room);
        assert_int_equal(system(remove), 0);
    }
}

/* Root saves over another's file: it stays theirs. */
TEST(the_owner_stays)
{
    if (geteuid() != 0) skip_because("giving a file to another user takes root");
    struct stat s;
    auto_net *n = small_net();
    const char *path = written("theirs", BYTES("old"));
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(st_net_save(n, path), 0);
    assert_int_equal(stat(path, &s), 0);
    assert_true(s.st_uid == NOBODY && s.st_gid == NOBODY && (s.st_mode & 07777) == 0640);
    unlink(path);
}

/* ---- waiting for nobody ---------------------------------------------------------------------------- */

static const char *const text = "contents";

static int write_text(FILE *to, const void *context)
{
    (void)context;
    return fputs(text, to) < 0 ? -1 : 0;
}

static bool holds(const char *path, const char *expected)
{
    const bytes b = contents(path);
    return b.count == strlen(expected) && memcmp(b.at, expected, b.count) == 0;
}

static void replaces(const char *path)
{
    assert_int_equal(st_file_replace(path, write_text, NULL), 0);
    assert_true(holds(path, text));
}

static int names_in_folder(void)
{
    int count = -2;
    DIR *d = opendir(path_of("."));
    while (d && readdir(d)) count++;
    if (d) closedir(d);
    return count;
}

/* A test that waits is killed. */
static void in_seconds(void)
{
    alarm(SECONDS);
}

TEST(locks_of_others_keep_nobody_waiting)
{
    in_seconds();
    const char *path = written("net", BYTES("old"));
    const int folder = open(path_of("."), O_RDONLY), file = open(path, O_RDONLY);
    assert_int_equal(flock(folder, LOCK_EX) | flock(file, LOCK_EX), 0);
    replaces(path);
    close(folder), close(file);
    alarm(0), unlink(path);
}

static int write_and_fork(FILE *to, const void *child)
{
    if ((*(pid_t *)child = fork()) == 0) {
        pause();
        _exit(0);
    }
    return fputs(text, to) < 0 ? -1 : 0;
}

TEST(a_child_forked_during_a_write_keeps_nobody_waiting)
{
    in_seconds();
    pid_t child = 0;
    const char *path = path_of("net");
    assert_int_equal(st_file_replace(path, write_and_fork, &child), 0);
    assert_true(child > 0);
    replaces(path);
    assert_int_equal(names_in_folder(), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    alarm(0), unlink(path);
}

/* Into the same folder, and even the same file. */
static int write_within(FILE *to, const void *path)
{
    st_file_replace(path_of("other"), write_text, NULL);
    return st_file_replace(path, write_text, NULL) || fputs("outer", to) < 0 ? -1 : 0;
}

static int write_and_refuse(FILE *to, const void *context)
{
    (void)context;
    fputs(text, to);
    errno = 0; /* as a function that converts numbers leaves it */
    return -1;
}

TEST(a_writer_that_fails_without_a_reason_leaves_the_old_file)
{
    const char *path = path_of("file");
    assert_int_equal(st_file_replace(path, write_text, NULL), 0);
    expect_failure(st_file_replace(path, write_and_refuse, NULL), "cannot be written: ");
    assert_int_equal(st_file_replace(path_of("none"), write_and_refuse, NULL), -1);
    st_error_clear();
    assert_int_equal(access(path_of("none"), F_OK), -1);
    expect_failure(st_file_replace(path, NULL, NULL), "st_file_replace: the writer is NULL");
    assert_true(holds(path, text));
    unlink(path_of("file"));
}

TEST(a_writer_may_replace_files_itself)
{
    in_seconds();
    const char *path = path_of("net");
    assert_int_equal(st_file_replace(path, write_within, path), 0);
    assert_true(holds(path, "outer"));
    assert_true(holds(path_of("other"), text));
    assert_int_equal(names_in_folder(), 2);
    alarm(0), unlink(path), unlink(path_of("other"));
}

static int write_slowly(FILE *to, const void *begun)
{
    *(volatile bool *)begun = true;
    usleep(50000); /* a thread may be cancelled in it */
    return fputs(text, to) < 0 ? -1 : 0;
}

static void *replace_slowly(void *begun)
{
    st_file_replace(path_of("net"), write_slowly, begun);
    pthread_testcancel();
    return NULL;
}

TEST(a_thread_that_is_cancelled_leaves_nothing_half_written)
{
    in_seconds();
    pthread_t thread;
    volatile bool begun = false;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, replace_slowly, (void *)&begun), 0);
    while (!begun) usleep(100);
    pthread_cancel(thread);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(result == PTHREAD_CANCELED);
    assert_true(holds(path_of("net"), text));
    replaces(path_of("net"));
    assert_int_equal(names_in_folder(), 1);
    alarm(0), unlink(path_of("net"));
}

/* ---- what is removed ------------------------------------------------------------------------------- */

TEST(only_temporary_files_of_dead_writers_are_removed)
{
    char living[64], locked[64];
    snprintf(living, sizeof living, "net.%ld-0.stride.tmp", (long)getppid());
    snprintf(locked, sizeof locked, "net.%ld-7.stride.tmp", (long)getpid());
    const char *const stay[] = { "net.stride.tmp",
                                 "net.tmp",
                                 "nets." DEAD "-0.stride.tmp",
                                 "net." DEAD "-0.stride.tmp~",
                                 "net." DEAD "-x.stride.tmp",
                                 "net." DEAD "-.stride.tmp",
                                 "net." DEAD ".stride.tmp",
                                 "net..-0.stride.tmp",
                                 living,
                                 locked };
    enum { STAY = sizeof stay / sizeof *stay };
    for (int i = 0; i < STAY; i++) written(stay[i], BYTES("theirs"));
    written("net." DEAD "-0.stride.tmp", BYTES("half")), written("net." DEAD "-12.stride.tmp", BYTES("half"));
    const int lock = open(path_of(locked), O_RDONLY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    replaces(path_of("net"));
    assert_int_equal(names_in_folder(), STAY + 1);
    for (int i = 0; i < STAY; i++) {
        assert_true(holds(path_of(stay[i]), "theirs"));
        assert_true(st_file_is_temporary(stay[i], "net") == (stay[i] == living || stay[i] == locked));
        unlink(path_of(stay[i]));
    }
    close(lock), unlink(path_of("net"));
    assert_true(st_file_is_temporary("net.stride.lock", "net") && !st_file_is_temporary("net", "net"));
    assert_false(st_file_is_temporary(NULL, "net") || st_file_is_temporary("net", NULL));
}

/* Later output of the stream would be lost. */
TEST(standard_streams_are_not_replaced)
{
    const char *path = written("log", BYTES("old"));
    for (int stream = 0; stream < 5; stream++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            char name[32];
            snprintf(name, sizeof name, "/dev/fd/%d", stream);
            if (dup2(open(path, O_RDWR), stream) != stream) _exit(2);
            bool by_path =
                stream > 2 || (st_file_replace(path, write_text, NULL) && strstr(st_error(), "standard"));
            st_error_clear();
            bool by_link = st_file_replace(name, write_text, NULL) && strstr(st_error(), "standard");
            _exit(!by_path || !by_link);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(holds(path, "old"));
    }
    unlink(path);
}
