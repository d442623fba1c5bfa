/* manual.c: the manual page, in roff, from the tables of options. */
#include "examples/stride/commands.h"

#include <string.h>

/* ---- the manual page --------------------------------------------------------------------------- */

/* Text of roff's: no line begins with a dot or a quote, and what escapes is escaped. */
static void put_roff(FILE *to, const char *text)
{
    for (const char *at = text; *at; at++) {
        if ((at == text || at[-1] == '\n') && (*at == '.' || *at == '\'')) fputs("\\&", to);
        if (*at == '\\') fputs("\\e", to);
        else if (*at == '-') fputs("\\-", to);
        else if (*at == '\n' && at[1] == '\n') fputs("\n.PP", to);
        else fputc(*at, to);
    }
    if (text[0] && text[strlen(text) - 1] != '\n') fputc('\n', to);
}

static void put_verbatim(FILE *to, const char *text)
{
    fputs(".PP\n.nf\n", to);
    put_roff(to, text);
    fputs(".fi\n", to);
}

static void put_option(FILE *to, const option_row *o)
{
    fputs(".TP\n", to);
    if (o->letter) fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", to);
    for (const char *at = o->name; *at; at++) fprintf(to, *at == '-' ? "\\-" : "%c", *at);
    fprintf(to, "\\fR%s%s%s\n", o->kind == OPTION_FLAG ? "" : " \\fI", o->kind == OPTION_FLAG ? "" : o->value,
            o->kind == OPTION_FLAG ? "" : "\\fR");
    put_roff(to, o->help);
    if (o->fallback) {
        fputc('(', to);
        for (const char *at = o->fallback; *at; at++) fprintf(to, *at == '-' ? "\\-" : "%c", *at);
        fputs(")\n", to);
    }
}

static void put_subcommand(FILE *to, const subcommand *c)
{
    fprintf(to, ".SH \"STRIDE %s\"\n.B stride %s\n", c->name, c->name);
    put_roff(to, c->usage);
    fputs(".PP\n", to);
    put_roff(to, c->what);
    if (c->details) {
        fputs(".PP\n", to);
        put_roff(to, c->details);
    }
    const option_row *o = NULL;
    while ((o = next_option(c, o))) put_option(to, o);
    if (c->examples) put_verbatim(to, c->examples);
}

void write_manual(FILE *to)
{
    fprintf(to,
            ".TH STRIDE 1 \"\" \"stride %s\"\n.SH NAME\nstride \\- train, evaluate and use small neural "
            "networks\n",
            program_version());
    fputs(
        ".SH SYNOPSIS\n.B stride\n.I subcommand\n.RI [ options ]\n.br\n.B stride help\n.RI [ subcommand ]\n",
        to);
    for (const subcommand *const *c = subcommands; *c; c++) put_subcommand(to, *c);
    fputs(".SH NETWORKS\n", to);
    put_roff(to, network_help);
    put_verbatim(to, network_example);
    fputs(".SH \"EXIT STATUS\"\n0: done. 1: failed, with a line on standard error that says why. 2: the "
          "command line is\nwrong.\n",
          to);
}
