/* completion.c: stride completion: what shells complete, and the manual page, from the tables of options. */
#include "examples/stride/commands.h"

#include <string.h>

/* ---- what the shells ask for ------------------------------------------------------------------- */

static const option_row *next_option(const subcommand *c, const option_row *o)
{
    for (o = o ? o + 1 : c->options; o && o->name; o++)
        if (o->help) return o;
    return NULL;
}

/* "a|b|c" as "a b c". */
static void put_words(FILE *to, const char *choices)
{
    for (; *choices; choices++) fputc(*choices == '|' ? ' ' : *choices, to);
}

/* ---- bash -------------------------------------------------------------------------------------- */

/* --a|-x) …;; for each option whose value has candidates. */
static void put_values(FILE *to, const subcommand *c)
{
    const option_row *o = NULL;
    while ((o = next_option(c, o))) {
        if (o->kind == OPTION_FLAG) continue;
        fprintf(to, "        %s:--%s", c->name, o->name);
        if (o->letter) fprintf(to, "|%s:-%c", c->name, o->letter);
        fputs(") ", to);
        if (o->kind == OPTION_FILE) fputs("files=1", to);
        else if (o->kind == OPTION_CHOICE) {
            fputs("words='", to);
            put_words(to, o->value);
            fputc('\'', to);
        } else fputc(':', to);
        fputs("; value=1 ;;\n", to);
    }
}

static void put_names(FILE *to, const subcommand *c)
{
    const option_row *o = NULL;
    fprintf(to, "        %s) words='", c->name);
    while ((o = next_option(c, o))) fprintf(to, "--%s ", o->name);
    fputs("--help'", to);
    if (c->words) {
        fputs(" others='", to);
        put_words(to, c->words);
        fputc('\'', to);
    } else if (c->most > 0) fputs(" files=1", to);
    fputs(" ;;\n", to);
}

static void write_bash(FILE *to)
{
    fputs(
        "# Completion of stride in bash, as `stride completion bash` writes it:\n"
        "#     source <(stride completion bash)\n"
        "_stride() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} name=${COMP_WORDS[1]}\n"
        "    local words= others= files= value=\n"
        "    COMPREPLY=()\n"
        "    if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then "
        "before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
        "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '",
        to);
    for (const subcommand *const *c = subcommands; *c; c++) fprintf(to, "%s ", (*c)->name);
    fputs("--help --version' -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case $name:$before in\n",
          to);
    for (const subcommand *const *c = subcommands; *c; c++) put_values(to, *c);
    fputs("    esac\n"
          "    [ -n \"$value\" ] || case $name in\n",
          to);
    for (const subcommand *const *c = subcommands; *c; c++) put_names(to, *c);
    fputs("    esac\n"
          "    case $word in -*) files= ;; *) [ -n \"$value\" ] || words=$others ;; esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    if [ -n \"$files\" ]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _stride stride\n",
          to);
}

/* ---- zsh --------------------------------------------------------------------------------------- */

/* Inside 'single quotes' and [brackets], where a colon ends. */
static void put_plain(FILE *to, const char *text)
{
    for (; *text; text++)
        if (!strchr("'[]:", *text)) fputc(*text, to);
}

static void put_zsh_option(FILE *to, const option_row *o)
{
    if (o->letter) fprintf(to, "            '(-%c --%s)'{-%c,--%s}", o->letter, o->name, o->letter, o->name);
    else fprintf(to, "            --%s", o->name);
    fputs("'[", to);
    put_plain(to, o->help);
    fputc(']', to);
    if (o->kind != OPTION_FLAG) fputs(":value:", to);
    if (o->kind == OPTION_FILE) fputs("_files", to);
    if (o->kind == OPTION_CHOICE) {
        fputc('(', to);
        put_words(to, o->value);
        fputc(')', to);
    }
    fputs("' \\\n", to);
}

static void write_zsh(FILE *to)
{
    fputs(
        "#compdef stride\n"
        "# Completion of stride in zsh, as `stride completion zsh` writes it: a file _stride in $fpath, or\n"
        "#     source <(stride completion zsh)\n"
        "_stride() {\n"
        "    local -a names\n"
        "    if (( CURRENT == 2 )); then\n"
        "        names=(\n",
        to);
    for (const subcommand *const *c = subcommands; *c; c++) {
        fprintf(to, "            '%s:", (*c)->name);
        put_plain(to, (*c)->what);
        fputs("'\n", to);
    }
    fputs("        )\n"
          "        _describe subcommand names\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          to);
    for (const subcommand *const *c = subcommands; *c; c++) {
        fprintf(to, "    %s) _arguments \\\n", (*c)->name);
        const option_row *o = NULL;
        while ((o = next_option(*c, o))) put_zsh_option(to, o);
        fputs("            --help'[help]'", to);
        if ((*c)->words) {
            fputs(" '*:word:(", to);
            put_words(to, (*c)->words);
            fputs(")'", to);
        } else if ((*c)->most > 0) fputs(" '*:file:_files'", to);
        fputs(" ;;\n", to);
    }
    fputs("    esac\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _stride ]; then _stride \"$@\"; else compdef _stride stride; fi\n",
          to);
}

/* ---- fish -------------------------------------------------------------------------------------- */

/* In single quotes. */
static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

static void write_fish(FILE *to)
{
    fputs("# Completion of stride in fish: stride completion fish | source\n", to);
    for (const subcommand *const *c = subcommands; *c; c++) {
        fprintf(to, "complete -c stride -n __fish_use_subcommand -f -a %s -d ", (*c)->name);
        put_quoted(to, (*c)->what);
        fputc('\n', to);
        const option_row *o = NULL;
        while ((o = next_option(*c, o))) {
            fprintf(to, "complete -c stride -n '__fish_seen_subcommand_from %s' -l %s", (*c)->name, o->name);
            if (o->letter) fprintf(to, " -s %c", o->letter);
            if (o->kind == OPTION_FILE) fputs(" -r", to);
            else if (o->kind != OPTION_FLAG) fputs(" -x", to);
            if (o->kind == OPTION_CHOICE) {
                fputs(" -a '", to);
                put_words(to, o->value);
                fputc('\'', to);
            }
            fputs(" -d ", to);
            put_quoted(to, o->help);
            fputc('\n', to);
        }
    }
}

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

/* ---- the subcommand ---------------------------------------------------------------------------- */

static int run(const void *settings, int count, char **operands)
{
    static const struct {
        const char *shell;
        void (*write)(FILE *to);
    } shells[] = { { "bash", write_bash }, { "zsh", write_zsh }, { "fish", write_fish } };
    (void)settings, (void)count;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, operands[0]) == 0) {
            shells[i].write(stdout);
            return subcommand_end(&command_completion);
        }
    return subcommand_refuse(&command_completion, "\"%s\" is none of bash, zsh, fish", operands[0]);
}

const subcommand command_completion = {
    .name = "completion",
    .what = "Prints what a shell needs to complete subcommands, options and their values.",
    .usage = "bash|zsh|fish",
    .examples = "  source <(stride completion bash)\n"
                "  stride completion fish >~/.config/fish/completions/stride.fish\n",
    .words = "bash|zsh|fish",
    .least = 1,
    .most = 1,
    .run = run,
};
