/* bench.c: how fast Stride is on this machine, as shares of what the machine can do. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/error.h"
#include "tests/bench/moonshot.h"
#include "tests/bench/report.h"
#include "tests/bench/sweep.h"
#include "tests/bench/worker.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: bench [options] [NAME...]\n"
    "\n"
    "Measures the machine, layers and networks, with one thread and with two, in rounds that\n"
    "take each subject in turn. Names are parts of what to measure: conv, 26x26, train,\n"
    "lenet5; without any, everything is measured. Progress goes to stderr.\n"
    "\n"
    "  -r, --rounds=N    how often each is measured (5)\n"
    "  -s, --seconds=N   no further round begins that would end later than that\n"
    "  -i, --list=FILE   measure its lines instead, \"layer 64x3x32x32 conv 8 3\" or \"net lenet5\n"
    "                    64\", one after the other in all rounds, and print means and the least\n"
    "  -n, --threads=N   with so many threads alone\n"
    "  -c, --csv=FILE    a line for each result\n"
    "  -p, --peer=NAME[@PART]=COMMAND\n"
    "                    hold Stride against another program, which answers COMMAND's stdin as\n"
    "                    tests/bench/stride_peer.c does; may be repeated. Further words of NAME\n"
    "                    are a setting of the first: of each peer's settings the fastest counts.\n"
    "                    With PART it measures only what has that in its name\n"
    "  -l, --log=FILE    what peers say besides; else it goes to stderr\n"
    "  -m, --mnist=COMMAND\n"
    "                    what trains MNIST, for the goals listed after the peers\n"
    "  -o, --once=COMMAND\n"
    "                    what predicts one picture, likewise (tests/bench/once.c)\n"
    "  -t, --cpu-time    one thread is measured by the time that processors have spent, which is\n"
    "                    steadier on a machine that is busy; two threads only with --list\n"
    "  -q, --quick       one round of small batches: to try the program, not to measure\n"
    "  -h, --help        this text\n";

typedef struct settings {
    int rounds, seconds, threads; /* 0 threads: one and two */
    bool quick, cpu_time;
    const char *list, *csv, *log, *mnist, *once;
    peer peers[CAMPAIGN_PEERS];
    int peer_count;
    char **names; /* ended by NULL */
} settings;

/* The exit status: that, or 1 if something could not be done or written. */
static int finish(int status)
{
    if (status) fprintf(stderr, "bench: %s\n", st_error());
    else if (fflush(stdout) || ferror(stdout))
        fprintf(stderr, "bench: writing the output: %s\n", strerror(errno));
    else return 0;
    return 1;
}

static int integer(const char *option, const char *text, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end != text && !*end && value >= 1 && value <= most) return (int)value;
    fprintf(stderr, "%s: \"%s\" is not a whole number from 1 to %ld\n", option, text, most);
    exit(2);
}

/* "NAME[@PART]=COMMAND", in place. */
static void add_peer(settings *s, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
        fprintf(stderr, "--peer: \"%s\" is not NAME=COMMAND\n", text);
        exit(2);
    }
    if (s->peer_count == CAMPAIGN_PEERS) {
        fprintf(stderr, "--peer: at most %d\n", CAMPAIGN_PEERS - 1);
        exit(2);
    }
    *equals = 0;
    char *at = strchr(text, '@');
    if (at) *at++ = 0;
    s->peers[s->peer_count++] = (peer){ text, equals + 1, at };
}

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "rounds", required_argument, NULL, 'r' },
        { "seconds", required_argument, NULL, 's' },
        { "list", required_argument, NULL, 'i' },
        { "threads", required_argument, NULL, 'n' },
        { "csv", required_argument, NULL, 'c' },
        { "peer", required_argument, NULL, 'p' },
        { "log", required_argument, NULL, 'l' },
        { "mnist", required_argument, NULL, 'm' },
        { "once", required_argument, NULL, 'o' },
        { "cpu-time", no_argument, NULL, 't' },
        { "quick", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = { .peer_count = 1 };
    for (int c; (c = getopt_long(argc, argv, "r:s:i:n:c:p:l:m:o:tqh", options, NULL)) != -1;) switch (c) {
        case 'r': s.rounds = integer("--rounds", optarg, CAMPAIGN_ROUNDS); break;
        case 's': s.seconds = integer("--seconds", optarg, 1000000); break;
        case 'i': s.list = optarg; break;
        case 'n': s.threads = integer("--threads", optarg, CAMPAIGN_THREADS); break;
        case 'c': s.csv = optarg; break;
        case 'p': add_peer(&s, optarg); break;
        case 'l': s.log = optarg; break;
        case 'm': s.mnist = optarg; break;
        case 'o': s.once = optarg; break;
        case 't': s.cpu_time = true; break;
        case 'q': s.quick = true; break;
        case 'h': fputs(usage, stdout); exit(finish(0));
        default: exit(2);
        }
    if (!s.rounds) s.rounds = s.quick ? 1 : 5;
    if (s.quick) setenv("BENCH_SECONDS", "0.001", 1);
    if (s.cpu_time && !s.list) s.threads = 1;
    s.names = argv + optind;
    return s;
}

/* ---- what is selected ---------------------------------------------------------------------------- */

static bool is_selected(const subject *s, char **names)
{
    if (strcmp(s->process, "machine") == 0) return true; /* all others are shares of it */
    for (char **name = names; *name; name++)
        if (subject_is_called(s, *name)) return true;
    return !*names;
}

/* A name must select something. */
static void check_names(const subject *all, int count, char **names)
{
    for (char **name = names; *name; name++) {
        char *one[] = { *name, NULL };
        int hits = 0;
        for (int i = 0; i < count; i++)
            hits += strcmp(all[i].process, "machine") != 0 && is_selected(&all[i], one);
        if (hits > 0) continue;
        fprintf(stderr, "bench: nothing to measure is called \"%s\"\n", *name);
        exit(2);
    }
}

/* Beside a busy process what counts is the clock. */
static int select_subjects(subject *all, int count, const settings *s)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (is_selected(&all[i], s->names) && !(s->cpu_time && all[i].busy)) all[kept++] = all[i];
    return kept;
}

/* ---- running ------------------------------------------------------------------------------------- */

static void report(const campaign *c, const program_runs *runs, FILE *csv)
{
    if (c->in_turn) {
        if (csv) sweep_csv(c, csv);
        sweep_table(c, stdout);
        return;
    }
    if (csv) report_csv(c, csv);
    report_table(c, stdout);
    if (c->peer_count == 1) return;
    fputc('\n', stdout);
    compare_table(c, stdout);
    moonshot_table(c, runs, stdout);
}

static int refuse_file(const char *file)
{
    return st_error_set("%s: %s", file, strerror(errno));
}

/* That a file cannot be written is found before anything is measured. */
static int run(settings *s, campaign *c)
{
    program_runs runs = { NAN, NAN, NAN, NAN };
    FILE *csv = s->csv ? fopen(s->csv, "w") : NULL;
    if (s->csv && !csv) return refuse_file(s->csv);
    int status = campaign_run(c);
    if (status == 0 && s->mnist && !s->cpu_time) status = moonshot_mnist(s->mnist, &runs);
    if (status == 0 && s->once && !s->cpu_time) status = moonshot_once(s->once, &runs);
    if (status == 0) report(c, &runs, csv);
    bool failed = csv && ferror(csv);
    if (csv && fclose(csv)) failed = true;
    if (status == 0 && failed) return refuse_file(s->csv);
    if (status == 0 && c->in_turn && sweep_failures(c) > 0)
        return st_error_set("results that are missing, or not Stride's: %d", sweep_failures(c));
    return status;
}

static campaign campaign_of(const settings *s, subject *all, int count, const char *program)
{
    campaign c = { .subjects = all,
                   .subject_count = select_subjects(all, count, s),
                   .peers = s->peers,
                   .peer_count = s->peer_count,
                   .rounds = s->rounds,
                   .seconds = s->seconds,
                   .in_turn = s->list != NULL,
                   .threads = { s->threads == 2 ? 2 : 1, 2 },
                   .threads_count = s->threads ? 1 : 2,
                   .folder = campaign_folder(program),
                   .progress = isatty(STDERR_FILENO) };
    if (s->cpu_time && s->threads != 2) c.clock[0] = "cpu";
    return c;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    int count;
    subject *all = s.list ? subjects_read(s.list, s.quick, &count) : subjects_new(s.quick ? 4 : 64, &count);
    if (!all) return finish(-1);
    check_names(all, count, s.names);
    s.peers[0] = campaign_stride(argv[0]);
    if (worker_log(s.log)) return finish(-1);
    campaign c = campaign_of(&s, all, count, argv[0]);
    int status = run(&s, &c);
    campaign_end(&c);
    free(all);
    return finish(status);
}
