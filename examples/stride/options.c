/* options.c: getopt_long over a table. */
#define _GNU_SOURCE /* getopt_long */
#include "examples/stride/options.h"

#include "examples/stride/nearest.h"
#include "examples/stride/paths.h"
#include "examples/stride/text.h"
#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/threads.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 80, HELP_COLUMN = 26, LONGEST_TITLE = 64, MOST_OPTIONS = 64, FIRST_LONG = 256 };

/* ---- messages ---------------------------------------------------------------------------------- */

const char *subcommand_title(const subcommand *c)
{
    static char title[LONGEST_TITLE];
    const char *program = c->program ? c->program : "stride";
    snprintf(title, sizeof title, "%s%s%s", program, c->name[0] ? " " : "", c->name);
    return title;
}

int subcommand_refuse(const subcommand *c, const char *format, ...)
{
    const char *title = subcommand_title(c);
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const bool asks = text[0] && text[strlen(text) - 1] == '?';
    fputs(title, stderr);
    text_put_in(stderr, ": ", text, asks ? " Try: " : "; try: ");
    fprintf(stderr, "%s --help\n", title);
    return 2;
}

int subcommand_end(const subcommand *c)
{
    bool arrived = fflush(stdout) == 0 && !ferror(stdout);
    if (!st_error() && arrived) return 0;
    fprintf(stderr, "%s: ", subcommand_title(c));
    if (st_error()) text_put(stderr, st_error());
    else fprintf(stderr, "writing the output: %s", strerror(errno));
    fputc('\n', stderr);
    return 1;
}

/* ---- values ------------------------------------------------------------------------------------ */

option_words choices_of(const option_row *o)
{
    option_words w = { "" };
    size_t used = 0;
    if (!o->word) snprintf(w.text, sizeof w.text, "%s", o->value);
    for (int i = 0; o->word && o->word(i).text[0] && used < sizeof w.text; i++)
        used += (size_t)snprintf(w.text + used, sizeof w.text - used, "%s%s", i ? "|" : "", o->word(i).text);
    return w;
}

int choice_of(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    int begins = 0, found = -1;
    for (int i = 0; choices && length > 0; i++) {
        const char *choice = choices, *bar = strchr(choices, '|');
        choices = bar ? bar + 1 : NULL;
        if (strncmp(choice, word, length) != 0) continue;
        if (strcspn(choice, "|") == length) return i;
        begins++, found = i;
    }
    return begins == 1 ? found : -1;
}

option_word option_word_of(const char *text, size_t length)
{
    option_word w;
    snprintf(w.text, sizeof w.text, "%.*s", (int)length, text);
    for (char *c = w.text; *c; c++)
        if (*c == '_') *c = '-';
    return w;
}

/* The word before the options. */
static option_word given_word(const char *text)
{
    return option_word_of(text, strcspn(text, " "));
}

option_given given_of(const char *choices, const char *text)
{
    return (option_given){ choice_of(choices, given_word(text).text), text + strcspn(text, " ") };
}

void put_choices(FILE *to, const char *choices, const char *prefix)
{
    for (size_t length; choices && *choices; choices += length + (choices[length] == '|')) {
        length = strcspn(choices, "|");
        if (strncmp(choices, prefix, strlen(prefix)) == 0) fprintf(to, "%.*s\n", (int)length, choices);
    }
}

option_word choice_at(const char *choices, int index)
{
    option_word c;
    for (; index > 0; index--) choices = strchr(choices, '|') + 1;
    snprintf(c.text, sizeof c.text, "%.*s", (int)strcspn(choices, "|"), choices);
    return c;
}

static bool read_integer(const option_row *o, const char *text, long *to)
{
    char *end;
    errno = 0;
    *to = strtol(text, &end, 10);
    return !errno && end != text && !*end && (double)*to >= o->least && (double)*to <= o->most;
}

/* A 0 that is given becomes ST_ZERO: in the library's options a plain 0 would take the default. */
static bool read_number(const option_row *o, const char *text, double *to)
{
    char *end;
    *to = strtod(text, &end);
    if (*to == 0) *to = ST_ZERO;
    return end != text && !*end && isfinite(*to) && *to >= o->least && *to <= o->most;
}

static nearest_text nearest_choice(const char *choices, const char *word)
{
    nearest n = { word, strlen(word) };
    for (const char *at = choices; at; at = strchr(at, '|'), at += at != NULL)
        nearest_try(&n, choice_at(at, 0).text);
    return nearest_question(&n, "");
}

static int refuse_choice(const subcommand *c, const option_row *o, const char *name, const char *text)
{
    const option_words all = choices_of(o);
    return subcommand_refuse(c, "%s: expected one of %s, not \"%.200s\"%s", name, all.text, text,
                             nearest_choice(all.text, text).text);
}

int subcommand_refuse_word(const subcommand *c, const char *word)
{
    return subcommand_refuse(c, "expected one of %s, not \"%.200s\"%s", c->words, word,
                             nearest_choice(c->words, word).text);
}

/* 0, or 2 with a message. `name` is the option as it was given. */
static int read_value(const subcommand *c, const option_row *o, const char *name, const char *text,
                      void *settings)
{
    void *at = (char *)settings + o->offset;
    option_list *list = at;
    const bool whole = o->kind != OPTION_NUMBER && o->kind != OPTION_MAYBE;
    if (o->kind == OPTION_MAYBE && !text) {
        *(double *)at = GIVEN;
        return 0;
    }
    if ((o->kind == OPTION_TEXT || o->kind == OPTION_LIST) && !*text)
        return subcommand_refuse(c, "%s: expected %s, not \"\"", name, o->value);
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)at = true; return 0;
    case OPTION_TEXT: *(const char **)at = text; return 0;
    case OPTION_LIST:
        if (list->count == MOST_LISTED)
            return subcommand_refuse(c, "%s: given more than %d times", name, MOST_LISTED);
        list->text[list->count++] = text;
        return 0;
    case OPTION_INTEGER:
    case OPTION_THREADS:
    case OPTION_NUMBER:
    case OPTION_MAYBE:
        if (whole ? read_integer(o, text, at) : read_number(o, text, at)) return 0;
        return subcommand_refuse(c, "%s: expected a %snumber from %.15g to %.15g, not \"%s\"", name,
                                 whole ? "whole " : "", o->least, o->most, text);
    case OPTION_CHOICE:
        *(int *)at = choice_of(choices_of(o).text, text);
        if (*(int *)at >= 0) return 0;
        return refuse_choice(c, o, name, text);
    case OPTION_KIND:
        *(option_given *)at = given_of(choices_of(o).text, text);
        if (((option_given *)at)->index >= 0) return 0;
        return refuse_choice(c, o, name, given_word(text).text);
    }
    return 2;
}

/* ---- the command line -------------------------------------------------------------------------- */

/* The options in turn, from NULL on; NULL after the last. */
static const option_row *next_option(const subcommand *c, const option_row *o)
{
    o = o ? o + 1 : c->options;
    return o && o->name ? o : NULL;
}

/* The option for a code of getopt_long: a letter, or FIRST_LONG + its row. */
static const option_row *row_of(const subcommand *c, int code)
{
    if (code >= FIRST_LONG) return &c->options[code - FIRST_LONG];
    const option_row *o = NULL;
    while ((o = next_option(c, o)) && (!code || o->letter != code)) continue;
    return o;
}

static int refuse_unknown(const subcommand *c, const char *given)
{
    const int length = (int)strcspn(given, "=");
    nearest n = { given + 2, (size_t)length - 2 };
    const option_row *o = NULL;
    while ((o = next_option(c, o))) nearest_try(&n, o->name);
    return subcommand_refuse(c, "unknown option %.*s%s", length, given, nearest_question(&n, "--").text);
}

/* Stores operands in the options of c->operands, and moves optind behind them. */
static int take_operands(const subcommand *c, int argc, char **argv, void *settings)
{
    for (int i = 0; i < 2 && c->operands[i] && argc - optind > c->least; i++) {
        const option_row *o = NULL;
        while ((o = next_option(c, o)) && strcmp(o->name, c->operands[i]) != 0) continue;
        const char **at = (const char **)(void *)((char *)settings + o->offset);
        if (strcmp(o->name, "model") == 0 && !path_is_model(argv[optind])) {
            const char *other = i == 0 ? c->operands[1] : NULL;
            const bool could_be = argc - optind <= c->most + (other != NULL) || *at != o->fallback;
            if (could_be || (other && strcmp(other, "net") == 0)) continue;
            return subcommand_refuse(c, "%.200s: %s", argv[optind],
                                     access(argv[optind], F_OK) ? strerror(errno) : "not a saved net");
        }
        if (*at && *at != o->fallback) return subcommand_refuse(c, "--%s is given twice", o->name);
        *at = argv[optind++];
    }
    return 0;
}

/* -lr and -epochs would be read as -l and -e with a value. 0, or 2 with a message. */
static int check_dashes(const subcommand *c, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const option_row *o = NULL;
        if (argv[i][0] != '-' || !argv[i][1] || !argv[i][2]) continue;
        while ((o = next_option(c, o)) && strcmp(o->name, argv[i] + 1) != 0) continue;
        if (o) return subcommand_refuse(c, "unknown option %s; did you mean --%s?", argv[i], o->name);
    }
    return 0;
}

/* Reads the options; getopt_long moves the operands to the end of argv, from optind on. */
static int parse(const subcommand *c, int argc, char **argv, void *settings)
{
    struct option longs[MOST_OPTIONS] = { { 0 } };
    char letters[2 * MOST_OPTIONS + 2] = ":", name[40];
    const option_row *o = NULL;
    for (int i = 0, used = 1; (o = next_option(c, o)) && i < MOST_OPTIONS - 1; i++) {
        const int argument = o->kind == OPTION_FLAG    ? no_argument
                             : o->kind == OPTION_MAYBE ? optional_argument
                                                       : required_argument;
        longs[i] = (struct option){ o->name, argument, NULL, FIRST_LONG + i };
        if (o->letter) letters[used++] = o->letter;
        if (o->letter && o->kind != OPTION_FLAG) letters[used++] = ':';
    }
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        const int given = code == '?' || code == ':' ? optopt : code;
        const bool is_long = given >= FIRST_LONG;
        o = row_of(c, given);
        if (!o && optopt) return subcommand_refuse(c, "unknown option -%c", optopt);
        if (!o) return refuse_unknown(c, argv[optind - 1]);
        snprintf(name, sizeof name, is_long ? "--%s" : "-%.1s", is_long ? o->name : &o->letter);
        if (code == ':')
            return subcommand_refuse(c, "%s needs a value, %s", name,
                                     o->word ? choices_of(o).text : o->value);
        if (code == '?') return subcommand_refuse(c, "%s takes no value", name);
        double number;
        if (o->kind == OPTION_MAYBE && !optarg && optind < argc && read_number(o, argv[optind], &number))
            optarg = argv[optind++]; /* the next word, if it is such a number */
        if (read_value(c, o, name, optarg, settings)) return 2;
    }
    return 0;
}

/* Stores operands in their options, and checks the number of the others. */
static int check_operands(const subcommand *c, int argc, char **argv, void *settings)
{
    const char *title = subcommand_title(c);
    for (int i = optind; i < argc; i++)
        if (!*argv[i]) return subcommand_refuse(c, "an argument is \"\"; usage: %s %s", title, c->usage);
    if (take_operands(c, argc, argv, settings)) return 2;
    const int left = argc - optind;
    if (left > c->most && c->most > 1)
        return subcommand_refuse(c, "%d arguments, expected at most %d; usage: %s %s", left, c->most, title,
                                 c->usage);
    if (left > c->most)
        return subcommand_refuse(c, "unexpected \"%s\"; usage: %s %s",
                                 argv[optind + (c->operands[0] ? 0 : c->most)], title, c->usage);
    if (left < c->least) return subcommand_refuse(c, "missing argument; usage: %s %s", title, c->usage);
    return 0;
}

bool subcommand_asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static void use_threads(const subcommand *c, long count)
{
    if (count == 0) return;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    st_set_num_threads((int)count);
    if (count > st_num_threads() || (processors > 0 && count > processors))
        fprintf(stderr, "%s: warning: --threads %ld: %d are used, this machine has %ld processor%s\n",
                subcommand_title(c), count, st_num_threads(), processors, processors == 1 ? "" : "s");
}

static int parse_and_run(const subcommand *c, int argc, char **argv, void *settings)
{
    const option_row *o = NULL;
    int status = 0;
    while ((o = next_option(c, o)) && !status)
        if (o->fallback) status = read_value(c, o, o->name, o->fallback, settings);
    if (!status && (check_dashes(c, argc, argv) || parse(c, argc, argv, settings) ||
                    check_operands(c, argc, argv, settings)))
        status = 2;
    while (!status && (o = next_option(c, o)))
        if (o->kind == OPTION_THREADS) use_threads(c, *(const long *)((char *)settings + o->offset));
    return status ? status : c->run(settings, argc - optind, argv + optind);
}

int subcommand_run(const subcommand *c, int argc, char **argv)
{
    void *settings = calloc(1, c->size + 1);
    int status = 0;
    if (subcommand_asks_help(argc, argv)) subcommand_help(c, stdout);
    else if (!settings) st_error_set("no memory");
    else status = parse_and_run(c, argc, argv, settings);
    free(settings);
    return status ? status : subcommand_end(c);
}

/* After an option that takes a value: its choices. Otherwise options or operands. */
void subcommand_complete(const subcommand *c, int count, char **words, FILE *to)
{
    const char *last = count > 0 ? words[count - 1] : "", *before = count > 1 ? words[count - 2] : "";
    const option_row *o = NULL;
    while ((o = next_option(c, o))) {
        bool named = (before[0] == '-' && before[1] == '-' && strcmp(before + 2, o->name) == 0) ||
                     (o->letter && before[0] == '-' && before[1] == o->letter && !before[2]);
        if (!named || o->kind == OPTION_FLAG) continue;
        if (o->kind == OPTION_CHOICE || o->kind == OPTION_KIND) put_choices(to, choices_of(o).text, last);
        return;
    }
    if (last[0] != '-') {
        if (c->words) put_choices(to, c->words, last);
        return;
    }
    while ((o = next_option(c, o)))
        if (strncmp(o->name, last + 2, last[1] ? strlen(last + 2) : 0) == 0) fprintf(to, "--%s\n", o->name);
    if (strncmp("--help", last, strlen(last)) == 0) fputs("--help\n", to);
}

/* ---- help -------------------------------------------------------------------------------------- */

void put_wrapped(FILE *to, const char *text, int column)
{
    int at = column;
    while (*text) {
        size_t word = strcspn(text, " \n");
        int width = text_width(text) - text_width(text + word);
        if (at > column && at + 1 + width >= WIDTH) {
            fprintf(to, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", (int)word, text);
        at += width;
        text += word;
        if (*text == '\n') {
            fprintf(to, "\n%*s", text[1] && text[1] != '\n' ? column : 0, "");
            at = column;
        }
        if (*text) text++;
    }
    fputc('\n', to);
}

static void put_option(const option_row *o, FILE *to)
{
    char left[80], help[512];
    const bool choice = o->kind == OPTION_CHOICE || o->kind == OPTION_KIND;
    const option_words all = choice ? choices_of(o) : (option_words){ "" };
    const bool named = strlen(all.text) > 10; /* too long for the left column */
    const char *value = o->kind == OPTION_FLAG ? NULL : named ? "NAME" : choice ? all.text : o->value;
    int used =
        snprintf(left, sizeof left, "  %c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, value ? " " : "", value ? value : "");
    fprintf(to, "%-*s", HELP_COLUMN, left);
    if (used >= HELP_COLUMN - 1) fprintf(to, "\n%*s", HELP_COLUMN, "");
    snprintf(help, sizeof help, "%s%s%s%s%s%s", o->help, named ? ": " : "", named ? all.text : "",
             o->fallback ? " (" : "", o->fallback ? o->fallback : "", o->fallback ? ")" : "");
    put_wrapped(to, help, HELP_COLUMN);
}

void subcommand_help(const subcommand *c, FILE *to)
{
    static const option_row help = { "help", 'h', .help = "this text" };
    fprintf(to, "usage: %s %s\n\n", subcommand_title(c), c->usage);
    put_wrapped(to, c->what, 0);
    if (c->details) {
        fputc('\n', to);
        put_wrapped(to, c->details, 0);
    }
    fputc('\n', to);
    const option_row *o = NULL;
    while ((o = next_option(c, o))) put_option(o, to);
    put_option(&help, to);
    if (c->examples) fprintf(to, "\nexamples:\n%s", c->examples);
}
