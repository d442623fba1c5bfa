/* manual.c: the manual page in roff, from the text of every --help. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/commands.h"

#include <stdlib.h>
#include <string.h>

/* Escapes text for roff: dots and quotes at the beginning of lines, backslashes, minus signs. */
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
    fputs(".nf\n", to);
    put_roff(to, text);
    fputs(".fi\n", to);
}

static void put_subcommand(FILE *to, const subcommand *c)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory) subcommand_help(c, memory);
    if (memory) fclose(memory);
    fprintf(to, ".SH \"STRIDE %s\"\n", c->name);
    if (text) put_verbatim(to, text);
    free(text);
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
    fputs(".PP\n", to);
    put_verbatim(to, network_example);
    fputs(".SH \"EXIT STATUS\"\n0: success. 1: failure, with an error message on standard error. 2: wrong "
          "command line.\n",
          to);
}
