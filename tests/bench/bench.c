/* bench.c: how fast Stride is on this machine, as shares of what the machine can do. */
#define _POSIX_C_SOURCE 200809L
#include "examples/arguments.h"
#include "tensor/error.h"
#include "tests/bench/campaign.h"
#include "tests/bench/report.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: bench [options] [NAME...]\n"
    "\n"
    "Measures the machine, layers and networks, with one thread and with two, in rounds that\n"
    "take each subject in turn. Names are parts of what to measure: conv, \"relu backward\",\n"
    "train, lenet5; without any, everything is measured. Progress goes to stderr.\n"
    "\n"
    "  -r, --rounds=N    how often each is measured (5)\n"
    "  -c, --csv=FILE    a line for each result\n"
    "  -q, --quick       a round of small batches: to try the program, not to measure\n"
    "  -h, --help        this text\n";

typedef struct settings {
    int rounds;
    bool quick;
    const char *csv;
    char **names; /* ended by NULL */
} settings;

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "rounds", required_argument, NULL, 'r' },
        { "csv", required_argument, NULL, 'c' },
        { "quick", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = { .rounds = 5 };
    for (int c; (c = getopt_long(argc, argv, "r:c:qh", options, NULL)) != -1;) switch (c) {
        case 'r': s.rounds = (int)argument_integer("--rounds", optarg, 1, CAMPAIGN_ROUNDS); break;
        case 'c': s.csv = optarg; break;
        case 'q': s.quick = true; break;
        case 'h': fputs(usage, stdout); exit(finish("bench", 0));
        default: exit(2);
        }
    if (s.quick) s.rounds = 1;
    s.names = argv + optind;
    return s;
}

/* ---- what is selected ---------------------------------------------------------------------------- */

static bool is_selected(const subject *s, char **names)
{
    char text[2 * SUBJECT_TEXT];
    snprintf(text, sizeof text, "%s %s", s->name, s->pass);
    if (strcmp(s->process, "machine") == 0) return true; /* all others are shares of it */
    for (char **name = names; *name; name++)
        if (strstr(text, *name)) return true;
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

static int select_subjects(subject *all, int count, char **names)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (is_selected(&all[i], names)) all[kept++] = all[i];
    return kept;
}

/* ---- running ------------------------------------------------------------------------------------- */

/* stride_peer lies beside this program. */
static char *own_peer(const char *program)
{
    static char command[1024];
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash + 1 - program) : 0;
    snprintf(command, sizeof command, "'%.*sstride_peer'", folder, program);
    return command;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    int count;
    subject *all = subjects_new(s.quick ? 4 : 64, &count);
    if (!all) return report_error("bench");
    check_names(all, count, s.names);
    campaign c = { .subjects = all,
                   .subject_count = select_subjects(all, count, s.names),
                   .peers = { { "stride", own_peer(argv[0]) } },
                   .peer_count = 1,
                   .rounds = s.rounds,
                   .threads_count = CAMPAIGN_THREADS,
                   .progress = isatty(STDERR_FILENO) };
    bool good = campaign_run(&c) == 0 && (!s.csv || report_csv(&c, s.csv) == 0);
    if (good) report_table(&c, stdout);
    campaign_end(&c);
    free(all);
    return good ? finish("bench", 0) : report_error("bench");
}
