/* options.h: what a subcommand takes, in one table: parsing, --help and shell completion have no other source. */
#ifndef STRIDE_EXAMPLES_STRIDE_OPTIONS_H
#define STRIDE_EXAMPLES_STRIDE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char * */
    OPTION_FILE,    /* the same, a path */
    OPTION_INTEGER, /* long, least … most */
    OPTION_NUMBER,  /* double, least … most */
    OPTION_CHOICE   /* int: the place among those of `value` */
} option_kind;

typedef struct option_row {
    const char *name; /* "batch" for --batch */
    char letter;      /* 'b' for -b; 0: none */
    option_kind kind;
    size_t offset;        /* of its value in the subcommand's settings */
    const char *value;    /* what --help calls it: "N", "FILE"; of a choice all there are: "sgd|adam" */
    const char *fallback; /* the default, as somebody would give it; NULL: 0, or nothing */
    const char *help;     /* NULL: another name for an option, which is not shown */
    double least, most;   /* INTEGER, NUMBER */
} option_row;

enum { ANY_NUMBER = 1 << 30 };

typedef struct subcommand {
    const char *name, *what;   /* "train", "Train a network." */
    const char *usage;         /* what follows the name: "--net NET [options]" */
    const char *details;       /* paragraphs of --help; NULL: none */
    const char *examples;      /* lines of it */
    const char *words;         /* what operands may be, for completion: "bash|zsh"; NULL: files */
    int least, most;           /* operands */
    bool in_double;            /* run by the program that is built in double */
    const option_row *options; /* ended by a row without a name; NULL: --help only */
    size_t size;               /* of the settings, a struct of zeros and defaults when parsing begins */
    int (*run)(const void *settings, int count, char **operands); /* the exit status */
} subcommand;

/* Parses what follows the subcommand's name, and runs it: 0, 1 where it failed, 2 where the command line is wrong. */
int subcommand_run(const subcommand *c, int argc, char **argv);

/* Whether what follows the name has --help or -h. */
bool subcommand_asks_help(int argc, char **argv);

void subcommand_help(const subcommand *c, FILE *to);

/* One line, "stride train: …; try: stride train --help", and 2: what a table cannot find. */
int subcommand_refuse(const subcommand *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What is put before an error: "stride train". */
const char *subcommand_title(const subcommand *c);

/* Ends one: 0; or, where an error is latched or stdout failed, that error in one line on stderr, and 1. */
int subcommand_end(const subcommand *c);

/* Whether `word` is the one at place `i` of "a|b|c", and the place it has there: -1 where it has none. */
int choice_of(const char *choices, const char *word);

/* Text in lines of less than 80 characters that begin at a column, the first of them where it is already. */
void put_wrapped(FILE *to, const char *text, int column);

#endif
