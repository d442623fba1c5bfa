/* test_replace.c: what may be saved where: trying says what saving does, and neither leaves or loses anything else. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* setgroups */
#include "tests/files.h"
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/files/replace.h"
#include "nn/files/save.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
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
      OLD("net", "440") " && " OLD("net.stride.tmp", "440"), "net", "net", 0440, 0 },
    { "a link in place of the temporary file", OLD("target", "600") " && ln -s target net.stride.tmp", "net",
      "net", 0644, 0 },
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
    { "a folder in place of the temporary file", "mkdir net.stride.tmp", "net", "", 0, EEXIST },
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

static int write_nothing(FILE *to, const void *context)
{
    (void)to, (void)context;
    return 0;
}

/* In the room, as another user, who may not write everywhere: 0, or 1 for what was not as expected. Only a
 * new file is added, and what a killed writer left is removed. */
static int attempt(st_net *n, const place *p)
{
    struct stat s;
    const char *path = p->path;
    const bool saved = p->reason == 0, existed = access(path, F_OK) == 0,
               left = saved && lstat("net.stride.tmp", &s) == 0;
    const int before = entries() - left;
    for (int trying = 1; trying >= 0; trying--) {
        int status = trying ? st_file_try(path, write_nothing, NULL) : st_net_save(n, path);
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

SETUP(enter_folder)

TEST(trying_says_what_saving_does)
{
    auto_net *n = small_net();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const place *p = &places[i];
        struct stat s;
        int status = -1;
        char remove[2 * sizeof room + 40];
        if (p->anothers && geteuid() != 0) continue;
        snprintf(room, sizeof room, "%s", path_of("room"));
        assert_int_equal(mkdir(room, 0777), 0);
        assert_int_equal(chmod(path_of("."), 0755) | chmod(room, 0777), 0);
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
    if (geteuid() != 0) skip();
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
