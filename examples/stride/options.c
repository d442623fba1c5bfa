/* options.c: --name=VALUE, --name VALUE, -n VALUE and -nVALUE; "--" ends them, and "-" is an operand. */
#include "examples/stride/options.h"

#include "examples/stride/nearest.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26, LONGEST_TITLE = 64 };

/* ---- messages ---------------------------------------------------------------------------------- */

const char *subcommand_title(const subcommand *c)
{
    static char title[LONGEST_TITLE];
    snprintf(title, sizeof title, "stride%s%s", c->name[0] ? " " : "", c->name);
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
    bool asks = text[0] && text[strlen(text) - 1] == '?';
    fprintf(stderr, "%s: %s%s: %s --help\n", title, text, asks ? " Try" : "; try", title);
    return 2;
}

int subcommand_end(const subcommand *c)
{
    bool arrived = fflush(stdout) == 0 && !ferror(stdout);
    if (!error_text() && arrived) return 0;
    if (error_text()) fprintf(stderr, "%s: %s\n", subcommand_title(c), error_text());
    else fprintf(stderr, "%s: writing the output: %s\n", subcommand_title(c), strerror(errno));
    return 1;
}

/* ---- values ------------------------------------------------------------------------------------ */

int choice_of(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (int i = 0; choices; i++) {
        if (strncmp(choices, word, length) == 0 && (choices[length] == '|' || !choices[length])) return i;
        choices = strchr(choices, '|');
        if (choices) choices++;
    }
    return -1;
}

static nearest_string near_choice(const char *choices, const char *word)
{
    nearest n = { word, strlen(word) };
    static char names[16][32]; /* a nearest keeps the name it was given */
    for (int i = 0; choices && i < 16; i++) {
        snprintf(names[i], sizeof names[i], "%.*s", (int)strcspn(choices, "|"), choices);
        nearest_try(&n, names[i]);
        choices = strchr(choices, '|');
        if (choices) choices++;
    }
    return nearest_text(&n);
}

static bool read_integer(const option_row *o, const char *text, long *to)
{
    char *end;
    errno = 0;
    *to = strtol(text, &end, 10);
    return !errno && end != text && !*end && (double)*to >= o->least && (double)*to <= o->most;
}

static bool read_number(const option_row *o, const char *text, double *to)
{
    char *end;
    *to = strtod(text, &end);
    return end != text && !*end && isfinite(*to) && *to >= o->least && *to <= o->most;
}

/* 0, or 2 with a message. `name` is the option as it was given. */
static int read_value(const subcommand *c, const option_row *o, const char *name, const char *text,
                      void *settings)
{
    void *at = (char *)settings + o->offset;
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)at = true; return 0;
    case OPTION_TEXT:
    case OPTION_FILE: *(const char **)at = text; return 0;
    case OPTION_INTEGER:
        if (read_integer(o, text, at)) return 0;
        return subcommand_refuse(c, "%s: \"%s\" is not a whole number from %.15g to %.15g", name, text,
                                 o->least, o->most);
    case OPTION_NUMBER:
        if (read_number(o, text, at)) return 0;
        return subcommand_refuse(c, "%s: \"%s\" is not a number from %.15g to %.15g", name, text, o->least,
                                 o->most);
    case OPTION_CHOICE:
        *(int *)at = choice_of(o->value, text);
        if (*(int *)at >= 0) return 0;
        return subcommand_refuse(c, "%s: \"%s\" is none of %s%s", name, text, o->value,
                                 near_choice(o->value, text).text);
    }
    return 2;
}

/* ---- the command line -------------------------------------------------------------------------- */

static const option_row *next_option(const subcommand *c, const option_row *o)
{
    o = o ? o + 1 : c->options;
    return o && o->name ? o : NULL;
}

static const option_row *option_named(const subcommand *c, const char *name, size_t length)
{
    const option_row *o = NULL;
    while ((o = next_option(c, o)))
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) return o;
    return NULL;
}

static const option_row *option_lettered(const subcommand *c, char letter)
{
    const option_row *o = NULL;
    while ((o = next_option(c, o)))
        if (o->letter == letter) return o;
    return NULL;
}

static int refuse_option(const subcommand *c, const char *given, size_t length)
{
    nearest n = { given + 2, length };
    const option_row *o = NULL;
    if (given[1] == '-')
        while ((o = next_option(c, o))) nearest_try(&n, o->name);
    int shown = given[1] == '-' ? (int)length + 2 : 2;
    return subcommand_refuse(c, "unknown option %.*s%s%s%s", shown, given, n.name ? "; did you mean --" : "",
                             n.name ? n.name : "", n.name ? "?" : "");
}

/* One argument that begins with a dash, and perhaps the next, its value; how many were taken is added to *i. */
static int read_option(const subcommand *c, int argc, char **argv, int *i, void *settings)
{
    char *given = argv[(*i)++], name[40];
    bool is_long = given[1] == '-';
    size_t length = is_long ? strcspn(given + 2, "=") : 1;
    const option_row *o = is_long ? option_named(c, given + 2, length) : option_lettered(c, given[1]);
    if (!o) return refuse_option(c, given, length);
    snprintf(name, sizeof name, is_long ? "--%s" : "-%.1s", is_long ? o->name : &o->letter);
    const char *value = given + (is_long ? 2 : 1) + length;
    bool attached = *value;
    if (is_long && attached) value++; /* = */
    if (o->kind == OPTION_FLAG)
        return attached ? subcommand_refuse(c, "%s takes no value", name)
                        : read_value(c, o, name, NULL, settings);
    if (!attached && *i == argc) return subcommand_refuse(c, "%s needs a value, %s", name, o->value);
    return read_value(c, o, name, attached ? value : argv[(*i)++], settings);
}

static int set_defaults(const subcommand *c, void *settings)
{
    const option_row *o = NULL;
    while ((o = next_option(c, o)))
        if (o->fallback && read_value(c, o, o->name, o->fallback, settings)) return 2;
    return 0;
}

static bool is_help(const char *given)
{
    return strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0;
}

/* Operands are moved to the front of argv. */
static int parse(const subcommand *c, int argc, char **argv, void *settings, int *operands)
{
    bool options = true;
    for (int i = 0; i < argc;) {
        if (options && strcmp(argv[i], "--") == 0) options = false, i++;
        else if (options && argv[i][0] == '-' && argv[i][1]) {
            if (read_option(c, argc, argv, &i, settings)) return 2;
        } else argv[(*operands)++] = argv[i++];
    }
    if (*operands > c->most)
        return subcommand_refuse(c, c->most ? "\"%s\" is one word too many" : "\"%s\" is no option",
                                 argv[c->most]);
    if (*operands < c->least)
        return subcommand_refuse(c, "something is missing: stride %s %s", c->name, c->usage);
    return 0;
}

bool subcommand_asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i])) return true;
    return false;
}

int subcommand_run(const subcommand *c, int argc, char **argv)
{
    if (subcommand_asks_help(argc, argv)) {
        subcommand_help(c, stdout);
        return subcommand_end(c);
    }
    int operands = 0;
    void *settings = calloc(1, c->size + 1);
    if (!settings) {
        error_set("no memory");
        return subcommand_end(c);
    }
    int status = set_defaults(c, settings);
    if (!status) status = parse(c, argc, argv, settings, &operands);
    if (!status) status = c->run(settings, operands, argv);
    free(settings);
    return status;
}

/* ---- help -------------------------------------------------------------------------------------- */

static int characters(const char *text, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes; i++) count += (text[i] & 0xc0) != 0x80;
    return count;
}

void put_wrapped(FILE *to, const char *text, int column)
{
    int at = column;
    while (*text) {
        size_t word = strcspn(text, " \n");
        int width = characters(text, word);
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
    bool choice = o->kind == OPTION_CHOICE;
    const char *value = o->kind == OPTION_FLAG ? NULL : choice && strlen(o->value) > 10 ? "NAME" : o->value;
    int used =
        snprintf(left, sizeof left, "  %c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, value ? " " : "", value ? value : "");
    fprintf(to, "%-*s", HELP_COLUMN, left);
    if (used >= HELP_COLUMN - 1) fprintf(to, "\n%*s", HELP_COLUMN, "");
    snprintf(help, sizeof help, "%s%s%s%s%s%s", o->help, choice && value != o->value ? ": " : "",
             choice && value != o->value ? o->value : "", o->fallback ? " (" : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "");
    put_wrapped(to, help, HELP_COLUMN);
}

void subcommand_help(const subcommand *c, FILE *to)
{
    static const option_row help = { "help", 'h', .help = "this text" };
    fprintf(to, "usage: stride %s %s\n\n", c->name, c->usage);
    put_wrapped(to, c->what, 0);
    if (c->details) {
        fputc('\n', to);
        put_wrapped(to, c->details, 0);
    }
    fputc('\n', to);
    const option_row *o = NULL;
    while ((o = next_option(c, o)))
        if (o->help) put_option(o, to);
    put_option(&help, to);
    if (c->examples) fprintf(to, "\nexamples:\n%s", c->examples);
}
