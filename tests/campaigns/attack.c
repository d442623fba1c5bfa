/* attack.c: the program stride, each of its subcommands, in hostile surroundings.
 *
 *     attack STRIDE FOLDER [NAME]
 *
 * Every command of one table runs in all of the surroundings of another: closed streams, a full disk, no
 * memory, links and devices in place of files, files without an end, models of huge nets, locks, files of
 * other writers. Each run must meet four claims:
 *   1. It ends in time, and no signal ends it.
 *   2. Its exit status is 0, and every file is written, or it ends with one line on stderr that says why not.
 *   3. No file that was there is lost or changed, unless a complete one takes its place.
 *   4. Nothing half-written stays, under any name.
 *
 * A file is complete if it has the bytes that the command writes in calm surroundings. NAME: only runs whose
 * names, "train, a full stdout", contain it. STRIDE_FAST=1 selects one run in thirteen. */
#define _GNU_SOURCE /* unshare, setgroups, pipe2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SECONDS = 30,
    WORDS = 40,
    TEXT = 1 << 16,
    PATH = 4096,
    LARGEST = 1 << 22,
    NOBODY = 65534,
    OLD_MODE = 0640,
    FEW = 13
};

/* ---- the commands -------------------------------------------------------------------------------------- */

/* IN/ and OUT/ begin the names of files that are read and written. */
typedef struct command {
    const char *name, *words, *input; /* of standard input, below IN/ */
} command;

#define TRAIN "train IN/net --data IN/table.csv --image 1x8x8 --split 0.25 --schedule constant --batch 16 "
static const command commands[] = {
    { "train", TRAIN "--epochs 2 --save OUT/net.safetensors --log OUT/log.csv --report OUT/page.html "
                     "--checkpoint OUT/run" },
    { "resume", TRAIN "--epochs 2 --save OUT/net.safetensors --checkpoint OUT/run --resume --quiet" },
    { "train on a table",
      "train IN/small --data IN/named.csv --features a,b --epochs 1 --save OUT/small.safetensors "
      "--quiet" },
    { "eval", "eval IN/table.csv --model IN/net.safetensors --json" },
    { "eval a table", "eval IN/named.csv --model IN/small.safetensors --json" },
    { "predict", "predict IN/table.csv --model IN/net.safetensors --output OUT/classes.csv" },
    { "predict a table", "predict IN/named.csv --model IN/small.safetensors --output OUT/named-classes.csv" },
    { "predict in lines", "predict IN/table.csv --model IN/net.safetensors --output OUT/classes.jsonl" },
    { "predict in json", "predict IN/x.npy --model IN/net.safetensors --json" },
    { "predict of stdin", "predict - --model IN/net.safetensors", "x.npy" },
    { "summary", "summary IN/net.safetensors" },
    { "export onnx", "export --model IN/net.safetensors OUT/net.onnx" },
    { "export c", "export --model IN/net.safetensors OUT/net.c" },
    { "export safetensors", "export --model IN/net.safetensors OUT/copy.safetensors" },
    { "export net", "export --model IN/net.safetensors OUT/copy.net" },
    { "export folder", "export --model IN/net.safetensors OUT/weights" },
    { "bench-model", "bench-model IN/net --batches 1,4 --seconds 0.01 --threads 1" },
    { "gradcheck", "gradcheck IN/net --batch 2" },
    { "report", "report IN/log.csv --output OUT/page.html" },
    { "compare", "report IN/log.csv IN/longer.csv --output OUT/page.html" },
    { "help", "help man" },
    { "completion", "completion bash" },
    { "complete", "complete train --optim ad" },
    { "version", "--version" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* ---- one run ------------------------------------------------------------------------------------------- */

typedef struct scene {
    const command *c;
    const struct surrounding *s;
    char name[256], in[64], out[320]; /* of the run; what replaces "IN/" and "OUT/" */
    char file[64];                    /* the one that the surrounding replaces, without IN/ or OUT/ */
    bool old;                         /* the files to be written were there before */
    int status;                       /* -1: a signal ended it */
    int signal;
    char said[TEXT], complained[TEXT]; /* stdout, stderr */
} scene;

/* The expected result of the command. */
typedef enum fate {
    EITHER,
    WELL,  /* as in calm surroundings */
    BADLY, /* an error */
    MUTE,  /* an error if it has something to print */
    STUCK  /* an error if it has something to write */
} fate;

typedef struct surrounding {
    const char *name;
    fate fate;
    bool (*prepare)(const scene *); /* in this process, in the run's folder; false: impossible here */
    void (*enter)(const scene *);   /* in the child */
    long a, b;
    const char *text; /* without `prepare`, of the environment */
} surrounding;

static char program[PATH], root[PATH];         /* absolute */
static long runs, failures, printed[COMMANDS]; /* lines, in calm surroundings */
static bool absent[COMMANDS];                  /* this stride was built without it */
static bool mounts;                            /* this process has mounts of its own */
static const char *missing;                    /* here, for a surrounding that is impossible */

/* One of eight texts in turn. */
__attribute__((format(printf, 1, 2))) static char *format(const char *text, ...)
{
    static char texts[8][2 * PATH];
    static int turn;
    char *to = texts[turn = (turn + 1) % 8];
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(to, sizeof texts[0], text, arguments);
    va_end(arguments);
    return to;
}

static bool shell(const char *line)
{
    return system(line) == 0;
}

static void must(bool done, const char *what)
{
    if (done) return;
    perror(what);
    exit(2);
}

static long lines_of(const char *text, size_t size)
{
    long lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    return lines;
}

/* The files of a command below `where`, "IN/" or "OUT/". */
static int files_of(const command *c, const char *where, char names[8][64])
{
    int count = 0;
    for (const char *at = c->words; (at = strstr(at, where));) {
        at += strlen(where);
        snprintf(names[count++], 64, "%.*s", (int)strcspn(at, " "), at);
    }
    return count;
}

static void run_child(const scene *s, int out, int err)
{
    char *words[WORDS + 1] = { program }, *all = strdup(s->c->words);
    const char *environment[] = { "PATH=/usr/bin:/bin", format("TMPDIR=%s/case/tmp", root),
                                  format("LOCPATH=%s/locale", root),
                                  s->s && !s->s->prepare ? s->s->text : NULL, NULL };
    for (char **to = words + 1, *word = strtok(all, " "); word; word = strtok(NULL, " ")) {
        const bool in = strncmp(word, "IN/", 3) == 0, written = strncmp(word, "OUT/", 4) == 0;
        *to++ = strdup(format("%s%s", in ? s->in : written ? s->out : "", word + (in ? 3 : written ? 4 : 0)));
    }
    int input = open(s->c->input ? format("%s%s", s->in, s->c->input) : "/dev/null", O_RDONLY);
    if (input < 0 || dup2(input, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(90);
    for (int d = 3; d < 20; d++) close(d);
    alarm(SECONDS);
    if (s->s && s->s->enter) s->s->enter(s);
    execve(program, words, (char **)environment);
    _exit(91);
}

static void read_end(int from, char to[TEXT])
{
    for (ssize_t used = 0, got = 1; got > 0; used += got)
        got = read(from, to + used, (size_t)(TEXT - 1 - used));
    close(from);
}

/* Runs the command, whose output fits into pipes (64 KB on Linux). */
static void run(scene *s)
{
    int out[2], err[2], status = 0;
    must(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) run_child(s, out[1], err[1]);
    close(out[1]), close(err[1]);
    must(waitpid(child, &status, 0) == child, "waitpid");
    read_end(out[0], s->said), read_end(err[0], s->complained);
    s->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    s->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The files to be written are there before: old ones, in s->out. */
static void place_old(const scene *s)
{
    char names[8][64];
    for (int i = files_of(s->c, "OUT/", names) - 1; i >= 0 && s->old; i--)
        if (strcmp(names[i], "weights") != 0)
            shell(format("cp -p ../old/%s '%s%s' 2>&-", names[i], s->out, names[i]));
}

/* ---- the surroundings ---------------------------------------------------------------------------------- */

enum { CLOSED, FULL, BROKEN, BROKEN_AND_IGNORED };
enum { ONLY_NAMED = 1 }; /* of files to read, the table with a header */

/* Descriptors of the bits of `a`. */
static void spoil_streams(const scene *s)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), ends[2];
    if (pipe2(ends, O_CLOEXEC)) _exit(92);
    close(ends[0]);
    signal(SIGPIPE, s->s->b == BROKEN_AND_IGNORED ? SIG_IGN : SIG_DFL);
    for (int d = 0; d < 3; d++) {
        if (s->s->a >> d & 1 && s->s->b == CLOSED) close(d);
        else if (s->s->a >> d & 1) dup2(s->s->b == FULL ? full : ends[1], d);
    }
}

static void limit(const scene *s)
{
    struct rlimit l = { (rlim_t)s->s->b, (rlim_t)s->s->b };
    if (setrlimit((int)s->s->a, &l)) _exit(92);
}

static void mask(const scene *s)
{
    umask((mode_t)s->s->a);
}

static void ignore_signal(const scene *s)
{
    signal((int)s->s->a, SIG_IGN);
}

static void leave(const scene *s) /* names are relative, and nothing can be created */
{
    (void)s;
    if (mkdir("tmp/gone", 0777) || chdir("tmp/gone") || rmdir("../gone")) _exit(92);
}

static void become_nobody(const scene *s) /* root, whom permissions do not stop */
{
    (void)s;
    if (geteuid() == 0 && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))) _exit(92);
}

static bool can_become_nobody(void)
{
    int status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_nobody(NULL);
        _exit(access(program, X_OK) || access("in", X_OK));
    }
    missing = "another user may not enter this folder";
    return waitpid(child, &status, 0) == child && status == 0;
}

static bool change_mode(const scene *s)
{
    const bool sticky = s->s->a & S_ISVTX; /* and the files in it are another user's */
    missing = "giving files to another user takes root";
    return (!sticky || geteuid() == 0) && can_become_nobody() && chmod("out", (mode_t)s->s->a) == 0;
}

static bool read_only_disk(const scene *s)
{
    (void)s;
    missing = "mounting takes root, and its right to mount";
    return mounts && mount("out", "out", NULL, MS_BIND, NULL) == 0 &&
           mount("out", "out", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

/* With `a` free pages or inodes. */
static bool full_disk(const scene *s)
{
    static const char page[4096];
    missing = "mounting takes root, and its right to mount";
    if (!mounts || mount("disk", "out", "tmpfs", 0, s->s->text)) return false;
    place_old(s);
    bool full = false;
    int count = 0;
    for (; !full; count++) {
        int filler = open(format("out/filler%d", count), O_WRONLY | O_CREAT, 0600);
        full = filler < 0 || write(filler, page, sizeof page) <= 0;
        if (filler >= 0) close(filler);
    }
    for (int i = 0; i < s->s->a; i++) must(unlink(format("out/filler%d", count - 2 - i)) == 0, "filler");
    return true;
}

static int locked[16], locks; /* until the next run */

static void lock(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && locks < 16 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        locked[locks++] = descriptor;
    else if (descriptor >= 0) close(descriptor);
}

static void unlock(void)
{
    while (locks > 0) close(locked[--locks]);
}

/* Locks the folders, and all files to be written. */
static bool lock_everything(const scene *s)
{
    char names[8][64];
    lock("."), lock("in"), lock("out"), lock("tmp");
    for (int i = files_of(s->c, "OUT/", names) - 1; i >= 0; i--) lock(format("out/%s", names[i]));
    return true;
}

/* Tests if a run writes the file again and again, and so holds its lock. */
static bool is_held(const char *name)
{
    return strcmp(name, "run") == 0 || strcmp(name, "log.csv") == 0;
}

/* This process has the checkpoint and the log. */
static bool hold_files(const scene *s)
{
    char names[8][64];
    for (int i = files_of(s->c, "OUT/", names) - 1; i >= 0; i--)
        if (is_held(names[i])) {
            const char *path = format("out/%s.stride.lock", names[i]);
            must(shell(format("echo process %ld >%s", (long)getpid(), path)), path);
            lock(path);
        }
    return true;
}

#define DEAD "999999999" /* no process */

/* Beside each file to be written one whose name only ends as a temporary file's, one of a living writer, and
 * one of a dead writer, which is to go if the file is written. */
static bool place_temporaries(const scene *s)
{
    char names[8][64];
    for (int i = files_of(s->c, "OUT/", names) - 1; i >= 0; i--)
        must(shell(format("cd out && for e in '' .1-0 .%ld-0 ." DEAD
                          "-0; do echo theirs >%s$e.stride.tmp; done",
                          (long)getpid(), names[i])),
             names[i]);
    return true;
}

/* Names begin with `a` times x, or are in folders named `text`: set_up() makes them so. */
static bool rename_files(const scene *s)
{
    return s->c != NULL;
}

/* `text` is a shell's command that makes something else of $1, in the folder of files to read (a) or to
 * write. */
static bool replace_file(const scene *s)
{
    if (s->s->enter == become_nobody && !can_become_nobody()) return false;
    must(shell(format("cd %s && set -- %s && { %s; }", s->s->a ? "in" : "out", s->file, s->s->text)),
         s->name);
    return true;
}

static void limit_memory(const scene *s)
{
    (void)s;
    struct rlimit l = { 1 << 30, 1 << 30 };
    if (setrlimit(RLIMIT_AS, &l)) _exit(92);
}

/* The file to be written is standard output, too. */
static void print_into_file(const scene *s)
{
    dup2(open(format("out/%s", s->file), O_WRONLY | O_APPEND), 1);
}

#define LIMIT(name, resource, value) name, EITHER, NULL, limit, resource, value
#define MEMORY(kb) LIMIT("an address space of " #kb " KB", RLIMIT_AS, kb * 1024L)
#define FILES(n) LIMIT("a limit of " #n " descriptors", RLIMIT_NOFILE, n)
#define SIZE(n) "files of at most " #n " bytes", STUCK, NULL, limit, RLIMIT_FSIZE, n
#define STACK(kb, fate) "a stack of " #kb " KB", fate, NULL, limit, RLIMIT_STACK, kb * 1024L
#define VARIABLE(text) text, WELL, NULL, NULL, 0, 0, text
#define FOLDERS(name, fate, text) "folders whose names " name, fate, rename_files, NULL, 0, 0, text
#define READ(name, fate, text) name " to read", fate, replace_file, NULL, true, 0, text
#define TABLE(name, fate, text) name, fate, replace_file, NULL, true, ONLY_NAMED, text
#define WRITE(name, fate, text) name " to write to", fate, replace_file, NULL, false, 0, text
static const surrounding surroundings[] = {
    { "a closed stdin", WELL, NULL, spoil_streams, 1, CLOSED },
    { "a closed stdout", MUTE, NULL, spoil_streams, 2, CLOSED },
    { "a closed stderr", WELL, NULL, spoil_streams, 4, CLOSED },
    { "three closed streams", MUTE, NULL, spoil_streams, 7, CLOSED },
    { "a full stdout", MUTE, NULL, spoil_streams, 2, FULL },
    { "a full stderr", WELL, NULL, spoil_streams, 4, FULL },
    { "a pipe that nobody reads", MUTE, NULL, spoil_streams, 2, BROKEN },
    { "a pipe that nobody reads, SIGPIPE ignored", MUTE, NULL, spoil_streams, 2, BROKEN_AND_IGNORED },
    { "a broken stderr, SIGPIPE ignored", WELL, NULL, spoil_streams, 4, BROKEN_AND_IGNORED },
    { "SIGCHLD ignored", WELL, NULL, ignore_signal, SIGCHLD },
    { MEMORY(20000) },
    { MEMORY(60000) },
    { MEMORY(80000) },
    { MEMORY(100000) },
    { MEMORY(140000) },
    { MEMORY(200000) },
    { MEMORY(300000) },
    { "a data segment of 1 MB", EITHER, NULL, limit, RLIMIT_DATA, 1 << 20, "OPENBLAS_NUM_THREADS=1" },
    { LIMIT("a data segment of 20 MB", RLIMIT_DATA, 20 << 20) },
    { FILES(3) },
    { FILES(4) },
    { FILES(5) },
    { FILES(7) },
    { SIZE(0) },
    { SIZE(10) },
    { STACK(128, WELL) },
    { STACK(256, WELL) },
    { "umask 0", WELL, NULL, mask, 0 },
    { "umask 077", WELL, NULL, mask, 077 },
    { VARIABLE("LC_ALL=de_DE") },
    { VARIABLE("LC_ALL=none") },
    { VARIABLE("OMP_NUM_THREADS=-3") },
    { VARIABLE("COLUMNS=0") },
    { "a folder that is gone", EITHER, NULL, leave },
    { "a folder that may not be written", STUCK, change_mode, become_nobody, 0555 },
    { "a sticky folder with another user's files", EITHER, change_mode, become_nobody, 01777 },
    { "a read-only disk", STUCK, read_only_disk },
    { "a full disk", STUCK, full_disk, NULL, 0, 0, "size=256k" },
    { "a disk with one free page", EITHER, full_disk, NULL, 1, 0, "size=256k" },
    { "a disk without inodes", STUCK, full_disk, NULL, 0, 0, "nr_inodes=20" },
    { FOLDERS("are not UTF-8", EITHER, "odd\377\303") },
    { FOLDERS("have escapes", WELL, "a\033[2J\302\233b") },
    { FOLDERS("have spaces and commas", WELL, " a, b") },
    { FOLDERS("change the direction of text", WELL, "a\342\200\256b\342\201\246c") },
    { "names of 210 bytes", WELL, rename_files, NULL, 210 },
    { "names that are too long", STUCK, rename_files, NULL, 254 },
    { READ("nothing", BADLY, "rm $1") },
    { READ("a dangling link", BADLY, "ln -sf nothing $1") },
    { READ("a link", WELL, "mv $1 later-$1 && ln -s later-$1 $1") },
    { READ("a loop of links", BADLY, "rm -f $1 && ln -s $1 $1") },
    { READ("a FIFO", BADLY, "rm $1 && mkfifo $1") },
    { READ("a folder", BADLY, "rm $1 && mkdir $1") },
    { READ("a link to /dev/zero", BADLY, "ln -sf /dev/zero $1") },
    { READ("an empty file", BADLY, ": >$1") },
    { READ("zeros", BADLY, "head -c 5000 /dev/zero >$1") },
    { "a file without an end to read", BADLY, replace_file, limit_memory, true, 0, "truncate -s 1T $1" },
    { "a small model of a huge net to read", BADLY, replace_file, limit_memory, true, 0,
      "cp ../../hostile $1" },
    { READ("a NUL byte", BADLY, "printf '0,1\\000\\n' >$1") },
    { TABLE("a table without a column's name", BADLY, "sed -i '1s/,b//' $1") },
    { TABLE("a table with a name too many", BADLY, "sed -i '1s/$/,more/' $1") },
    { TABLE("a table with two columns of one name", BADLY, "sed -i '1s/,b,/,a,/' $1") },
    { TABLE("a table with another column's name", BADLY, "sed -i '1s/,b,/,c,/' $1") },
    { TABLE("a table with a number in hexadecimal", BADLY, "sed -i '3s/,[^,]*,/,0x1p3,/' $1") },
    { TABLE("a table with a row too short", BADLY, "sed -i '4s/,[^,]*$//' $1") },
    { "folders and files that another process has locked", WELL, lock_everything, NULL },
    { "a checkpoint and a log that another run has", EITHER, hold_files, NULL },
    { "temporary files of other writers", WELL, place_temporaries, NULL },
    { "a forbidden file to read", BADLY, replace_file, become_nobody, true, 0, "chmod 0 $1" },
    { WRITE("a dangling link", BADLY, "rm -f $1 && ln -s later-$1 $1") },
    { WRITE("a link", WELL, "rm -f $1 && cp -p ../../old/$1 later-$1 && ln -s later-$1 $1") },
    { WRITE("a loop of links", BADLY, "rm -f $1 && ln -s $1 $1") },
    { WRITE("a link to /dev/null", BADLY, "ln -sf /dev/null $1") },
    { WRITE("a link to /dev/full", BADLY, "ln -sf /dev/full $1") },
    { WRITE("a FIFO", BADLY, "rm -f $1 && mkfifo $1") },
    { "standard output to write to", BADLY, replace_file, print_into_file, false, 0, "touch $1" },
    { WRITE("a folder", BADLY, "rm -f $1 && mkdir $1") },
};
enum { SURROUNDINGS = sizeof surroundings / sizeof *surroundings };

/* ---- the claims ---------------------------------------------------------------------------------------- */

static char broken[PATH + 100]; /* the first expectation that the run does not meet, or "" */

static void claim(bool holds, const char *text, const char *more)
{
    if (!holds && !broken[0]) snprintf(broken, sizeof broken, "%s%s", text, more);
}

/* Exactly the same; `loosely`: as many lines, and the same end; `part`: whole lines of b, from the first. */
static bool same_file(const char *a, const char *b, bool loosely, bool part)
{
    enum { END = 8 };
    static char x[LARGEST], y[LARGEST];
    FILE *of_x = fopen(a, "rb"), *of_y = fopen(b, "rb");
    const size_t size_x = of_x ? fread(x, 1, LARGEST, of_x) : 0,
                 size_y = of_y ? fread(y, 1, LARGEST, of_y) : 0;
    const bool both = of_x && of_y, begins = size_x <= size_y && memcmp(x, y, size_x) == 0;
    if (of_x) fclose(of_x);
    if (of_y) fclose(of_y);
    return both &&
           ((begins && size_x == size_y) || (part && begins && size_x > 0 && x[size_x - 1] == '\n') ||
            (loosely && size_x >= END && size_y >= END && lines_of(x, size_x) == lines_of(y, size_y) &&
             memcmp(x + size_x - END, y + size_y - END, END) == 0));
}

/* At `path`; `name`: below the folder that calm surroundings have. Pages show times, and nets where their
 * data are; a log ends with the last epoch, as the checkpoint does that a resumed run leaves. */
static void look_at_output(const scene *s, const char *path, const char *name, const struct stat *about)
{
    const bool through = strncmp(name, "later-", 6) == 0;
    if (through) name += 6;
    const bool loosely = strstr(name, ".html") || strcmp(s->in, "in/") != 0,
               part = strcmp(name, "log.csv") == 0;
    const bool had_old = through ? strstr(s->s->text, "old") != NULL : s->old && !strchr(name, '/');
    const bool complete = same_file(path, format("%s/calm/%s/%s", root, s->c->name, name), loosely, part);
    const bool is_old = same_file(path, format("%s/old/%s", root, name), loosely, false);
    const mode_t hidden = s->s->enter == mask ? (mode_t)s->s->a : 022;
    claim(S_ISREG(about->st_mode), "an unknown object: ", name);
    claim(complete || (is_old && (had_old || strcmp(name, "run") == 0)),
          "a file that is not complete: ", name);
    claim((about->st_mode & 0777) ==
              (had_old ? OLD_MODE : 0666 & ~hidden), /* a file that is replaced keeps its own */
          format("the permissions %o of ", about->st_mode & 0777), name);
}

static void look_at_outputs(const scene *s, const char *folder, const char *below)
{
    const size_t prefix = strlen(strrchr(s->out, '/') + 1); /* of each name */
    char path[PATH], name[PATH];
    struct stat about;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        const char *own = e->d_name + (strlen(e->d_name) > prefix && !below[0] ? prefix : 0);
        if (strcmp(own, ".") == 0 || strcmp(own, "..") == 0 || strncmp(own, "filler", 6) == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        snprintf(name, sizeof name, "%s%s", below, own);
        must(lstat(path, &about) == 0, path);
        if (s->s->prepare == hold_files && strstr(name, ".stride.lock")) continue;
        if (s->s->prepare == place_temporaries && strstr(name, ".stride.tmp") &&
            !(strstr(name, "." DEAD) && s->status == 0 && strncmp(name, "weights.", 8) != 0))
            continue; /* weights is a folder: what lies beside it is nobody's to remove */
        if (!s->s->a && strcmp(s->file, name) == 0 &&
            (!S_ISREG(about.st_mode) || s->s->enter == print_into_file))
            continue;
        if (S_ISDIR(about.st_mode) && strcmp(name, "weights") == 0) look_at_outputs(s, path, "weights/");
        else look_at_output(s, path, name, &about);
    }
    if (list) closedir(list);
}

static void look_at_files(const scene *s)
{
    char names[8][64], folder[sizeof s->out];
    struct stat about;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(s->out, '/') - s->out), s->out);
    look_at_outputs(s, folder, "");
    for (int i = files_of(s->c, "OUT/", names) - 1; i >= 0; i--) {
        const char *path = format("%s%s", s->out, names[i]),
                   *done = format("%s/calm/%s/%s", root, s->c->name, names[i]);
        const bool there = lstat(path, &about) == 0, expected = s->status == 0 && access(done, F_OK) == 0;
        claim(there || !s->old || strcmp(names[i], "weights") == 0 || s->s->a == 254,
              "an old file is lost: ", names[i]);
        claim(!expected || access(path, F_OK) == 0, "success without the file ", names[i]);
        if (expected && there && S_ISREG(about.st_mode))
            claim(!same_file(path, format("%s/old/%s", root, names[i]), false, false),
                  "success, and it is old: ", names[i]);
        if (!s->s->a && strcmp(s->file, names[i]) == 0 && strstr(s->s->text, "ln -s"))
            claim(there && S_ISLNK(about.st_mode), "a link is lost: ", names[i]);
    }
    claim(shell(format("diff -r --no-dereference -x '%s' -x 'later-*' '%s' ../in >../differences 2>&1",
                       s->file[0] && s->s->a ? s->file : " ", s->in)),
          "a file to be read was changed", "");
    DIR *list =
        opendir("tmp"); /* the trained net goes there if it cannot be saved, and the message says so */
    for (struct dirent *e; list && (e = readdir(list));)
        claim(e->d_name[0] == '.' ||
                  (strstr(s->complained, e->d_name) &&
                   same_file(format("tmp/%s", e->d_name),
                             format("%s/calm/%s/net.safetensors", root, s->c->name), true, false)),
              "in the temporary folder: ", e->d_name);
    if (list) closedir(list);
}

static bool is_complaint(const char *line)
{
    return strncmp(line, "stride", 6) == 0 || strncmp(line, program, strlen(program)) == 0;
}

/* Without control characters, C0 or C1, and without those that change the direction of text. */
static bool is_printable(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at >= ' ' ? *at != 0x7f && (*at != 0xc2 || at[1] >= 0xa0) : *at == '\n') at++;
    return !*at && !strstr(text, "\342\200\256") && !strstr(text, "\342\201\246");
}

/* A run that fails says so in its last line, one that succeeds does not complain. */
static void look_at_words(const scene *s)
{
    int complaints = 0;
    const char *last = "";
    for (const char *at = s->complained; *at; at += strcspn(at, "\n"), at += *at == '\n')
        complaints += is_complaint(last = at);
    if (s->status == 0) claim(complaints == 0, "it succeeds, and complains", "");
    else
        claim(complaints == 1 && is_complaint(last) && strlen(last) < 700,
              "it fails without one line that says so", "");
    claim(is_printable(s->complained) && is_printable(s->said), "it writes control characters", "");
}

static void judge(const scene *s)
{
    const surrounding *at = s->s;
    const bool prints = printed[s->c - commands] > 0, writes = strstr(s->c->words, "OUT/"),
               streams = at->enter == spoil_streams;
    const bool piped = streams && at->b == BROKEN && s->signal == SIGPIPE && prints;
    fate due = at->fate;
    if ((due == MUTE && !prints) || (due == STUCK && !writes)) due = WELL;
    if (at->prepare == hold_files) due = strstr(s->c->words, "OUT/run") ? BADLY : WELL;
    if (at->enter == limit && s->c->input) due = EITHER;  /* it copies stdin to a file */
    if (streams && at->a & 1 && s->c->input) due = BADLY; /* closed */
    broken[0] = '\0';
    claim(s->signal != SIGALRM, "it does not end", "");
    claim(s->status >= 0 || piped, "a signal ends it: ", s->status < 0 ? strsignal(s->signal) : "");
    claim(s->status <= 2 || (s->status == 127 && at->enter == limit), format("exit status %d", s->status),
          "");
    if (due == WELL) claim(s->status == 0, "it fails", "");
    else if (due != EITHER) claim(s->status != 0, "it claims success", "");
    if (!(streams && at->a & 4) && !piped) look_at_words(s);
    if (s->status == 0 && !streams)
        claim(lines_of(s->said, strlen(s->said)) == printed[s->c - commands],
              "success without all of its output", "");
    look_at_files(s);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static void set_up(scene *s)
{
    const surrounding *at = s->s;
    const bool renamed = at && at->prepare == rename_files;
    umount(format("%s/case/out", root));
    unlock();
    snprintf(s->in, sizeof s->in, "%s/", renamed && at->text ? at->text : "in");
    snprintf(s->out, sizeof s->out, "%s/%0*d", renamed && at->text ? format("%s-", at->text) : "out",
             (int)(renamed ? at->a : 0), 0);
    if (!renamed || !at->a) *(strrchr(s->out, '/') + 1) = '\0';
    must(chdir(root) == 0 &&
             shell("chmod -R u+rwx case 2>/dev/null; rm -rf case && mkdir case case/tmp && cp -a in case/in "
                   "&& chmod 777 case/tmp") &&
             chdir("case") == 0,
         "case");
    const char *folder = format("%.*s", (int)(strrchr(s->out, '/') - s->out), s->out);
    must(mkdir(folder, 0777) == 0 && chmod(folder, 0777) == 0 &&
             (strcmp(s->in, "in/") == 0 || rename("in", s->in) == 0),
         folder);
    place_old(s);
}

/* One run of many; false: impossible here. */
static bool attack(scene *s, const char *filter)
{
    static long count;
    snprintf(s->name, sizeof s->name, "%s, %s%s%s", s->c->name, s->s->name, s->file[0] ? ": " : "", s->file);
    if ((getenv("STRIDE_FAST") && count++ % FEW) || (filter && !strstr(s->name, filter))) return true;
    s->old = (runs + (s->c - commands)) % 2;
    set_up(s);
    if (s->s->prepare && !s->s->prepare(s)) return false;
    run(s);
    judge(s);
    runs++;
    if (!broken[0]) return true;
    failures++;
    printf("not ok %s%s: %s\n  stride %s\n  status %d, stderr: %.400s\n", s->name,
           s->old ? ", old files" : "", broken, s->c->words, s->status, s->complained);
    return true;
}

/* Tests if a program ends within a limit. */
static bool ends(const surrounding *at, const char *path, const char *word, const char *library)
{
    enum { PATIENCE = 5 }; /* seconds */
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(92);
        setenv("LD_PRELOAD", library, 1);
        limit(&(scene){ .s = at });
        alarm(PATIENCE);
        execl(path, path, word, (char *)NULL);
        _exit(92);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return !WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM;
}

/* Tests if the program begins within a limit, or it is not its BLAS library that keeps it from that. OpenBLAS
 * 0.3.29 waits for ever before main where it gets no memory. */
static bool begins(const surrounding *at)
{
    static char library[PATH_MAX];
    if (ends(at, program, "--version", "")) return true;
    FILE *from = popen(format("ldd '%s' | awk '/blas/ { print $3; exit }'", program), "r");
    if (!from || fscanf(from, "%4000s", library) != 1) library[0] = '\0'; /* it is linked into the program */
    if (from) pclose(from);
    return ends(at, "/bin/true", NULL, library);
}

static void attack_in(const surrounding *at, const char *filter)
{
    static scene s;
    char files[8][64];
    bool possible = true;
    if (strstr(at->name, "de_DE") && access(format("%s/locale/de_DE", root), F_OK)) {
        printf("skip %s: localedef cannot make that locale here (locales)\n", at->name);
        return;
    }
    if (at->enter == limit && !begins(at)) {
        printf("skip %s: the BLAS library waits there for ever when it is loaded\n", at->name);
        return;
    }
    for (const command *c = commands; c < commands + COMMANDS && possible; c++) {
        if (absent[c - commands]) continue;
        const bool replaces = at->prepare == replace_file;
        for (int i = replaces ? files_of(c, at->a ? "IN/" : "OUT/", files) - 1 : 0; i >= 0 && possible; i--) {
            s = (scene){ .c = c, .s = at };
            if (replaces) strcpy(s.file, files[i]);
            if (strcmp(s.file, "weights") == 0 && !strstr(at->text, "mkfifo")) continue; /* a folder */
            if (replaces && at->b == ONLY_NAMED && strcmp(s.file, "named.csv") != 0) continue;
            possible = attack(&s, filter);
        }
    }
    if (!possible) printf("skip %s: %s\n", at->name, missing);
}

/* A model of a net that needs gigabytes, without its tensors. */
static void make_hostile(const char *path)
{
    static const char header[] =
        "{\"__metadata__\":{\"stride_version\":\"1\",\"architecture\":\"{\\\"input\\\":"
        "[2000000000],\\\"layers\\\":[{\\\"type\\\":\\\"dense\\\","
        "\\\"out_features\\\":1}]}\"}}";
    FILE *to = fopen(path, "w");
    must(to != NULL, path);
    fprintf(to, "%c%c%c%c%c%c%c%c%s", (int)strlen(header), 0, 0, 0, 0, 0, 0, 0, header);
    fclose(to);
}

/* The files to be read, the old ones, and what every command does in calm surroundings. */
static void make_files(void)
{
    static scene s;
    FILE *table = fopen("in/table.csv", "w"), *array = fopen("in/x.npy", "w");
    must(table && array, "in");
    for (int i = 0; i < 120; i++)
        for (int k = 0; k <= 64; k++)
            fprintf(table,
                    k == 0   ? "%d"
                    : k < 64 ? ",%d"
                             : ",%d\n",
                    k == 0 ? i % 2 : (i * 7919 + k * 104729) % 97 + (k % 2 == i % 2) * 60);
    fprintf(array, "\x93NUMPY\1%c%c%c%-117s\n", 0, 118, 0,
            "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 8, 8), }");
    for (int i = 0; i < 128; i++) fputc(i, array);
    fclose(table), fclose(array);
    FILE *named = fopen("in/named.csv", "w");
    must(named != NULL, "in/named.csv");
    fputs("label,a,b,z\n", named);
    for (int i = 0; i < 60; i++) fprintf(named, "%d,%d,%d,%d\n", i % 2, i * 37 % 19, i * 53 % 23, i / 3 % 2);
    fclose(named);
    make_hostile("hostile");
    must(shell(format(
             "exec >log 2>&1; train() { '%s' %s --quiet \"$@\"; }; mkdir calm old locale; "
             "echo 'input 1x8x8, conv 3 3x3, relu, maxpool 2, dense 2' >in/net; echo 'dense 2' >in/small; "
             "'%s' train in/small --data in/named.csv --features a,b --epochs 1 --save in/small.safetensors "
             "--quiet || exit; "
             "train --epochs 1 --checkpoint old/run --save in/net.safetensors --log in/log.csv && "
             "train --epochs 2 --save net --log in/longer.csv || exit; "
             "for f in net.safetensors small.safetensors log.csv page.html classes.csv named-classes.csv "
             "classes.jsonl net.onnx net.c copy.safetensors copy.net; do echo old >old/$f; done; chmod 640 "
             "old/*; "
             "localedef -i de_DE -f ISO-8859-1 locale/de_DE || :",
             program,
             "train in/net --data in/table.csv --image 1x8x8 --split 0.25 --schedule constant --batch 16",
             program)),
         format("cannot make the files, see %s/log", root));
    for (const command *c = commands; c < commands + COMMANDS; c++) {
        s = (scene){ .c = c };
        set_up(&s);
        run(&s);
        absent[c - commands] = s.status != 0 && strstr(s.complained, "built without ONNX");
        if (absent[c - commands]) {
            printf("skip %s: stride is built without ONNX (protobuf-c-compiler, libprotobuf-c-dev, "
                   "libonnx-dev)\n",
                   c->name);
            continue;
        }
        must(s.status == 0 && shell(format("cp -a out '../calm/%s'", c->name)),
             format("%s: %s", c->name, s.complained));
        printed[c - commands] = lines_of(s.said, strlen(s.said));
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || !realpath(argv[1], program) ||
        !shell(format("rm -rf '%s' && mkdir -p '%s/in'", argv[2], argv[2])) || !realpath(argv[2], root) ||
        chdir(root)) {
        fprintf(stderr, "usage: attack STRIDE FOLDER [NAME]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    mounts = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    make_files();
    for (int i = 0; i < SURROUNDINGS; i++) attack_in(&surroundings[i], argc > 3 ? argv[3] : NULL);
    umount(format("%s/case/out", root));
    printf("attack: %ld runs of %d commands in %d surroundings: %ld failed\n", runs, COMMANDS, SURROUNDINGS,
           failures);
    return failures > 0 || runs == 0;
}
