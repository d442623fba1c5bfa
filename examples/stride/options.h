/* options.h: what a subcommand takes, in one table: getopt_long, --help, completion and the manual all read
 * it. */
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
    OPTION_CHOICE   /* int: the index among those of `value` */
} option_kind;

typedef struct option_row {
    const char *name; /* "batch" for --batch */
    char letter;      /* 'b' for -b; 0: none */
    option_kind kind;
    size_t offset;        /* of its value in the subcommand's settings */
    const char *value;    /* what --help calls it: "N", "FILE"; the values of a choice: "sgd|adam" */
    const char *fallback; /* the default, written as on a command line; NULL: 0, or nothing */
    const char *help;     /* NULL: another name for an option, which is not shown */
    double least, most;   /* INTEGER, NUMBER */
} option_row;

enum { ANY_NUMBER = 1 << 30 };

typedef struct subcommand {
    const char *name, *what;   /* "train", "Train a network." */
    const char *usage;         /* what follows the name: "NET [options]" */
    const char *details;       /* paragraphs of --help; NULL: none */
    const char *examples;      /* lines of it */
    const char *words;         /* what operands may be, for completion: "bash|zsh"; NULL: files */
    int least, most;           /* operands */
    bool in_double;            /* run by the program that is built in double */
    const option_row *options; /* ended by a row without a name; NULL: --help only */
    size_t size;               /* of the settings, a struct of zeros and defaults when parsing begins */
    int (*run)(const void *settings, int count, char **operands); /* the exit status */
} subcommand;

/* Parses what follows the subcommand's name (argv[0]), and runs it: 0, 1 on failure, 2 for a wrong command
 * line. */
int subcommand_run(const subcommand *c, int argc, char **argv);

/* True if --help or -h follows the name. */
bool subcommand_asks_help(int argc, char **argv);
void subcommand_help(const subcommand *c, FILE *to);

/* Prints what `stride complete` offers for the last of these words, a candidate a line; nothing: file
 * names. */
void subcommand_complete(const subcommand *c, int count, char **words, FILE *to);

/* Prints the words of "a|b|c" that begin with a prefix, each on a line. */
void put_choices(FILE *to, const char *choices, const char *prefix);

/* Prints one line, "stride train: …; try: stride train --help", and returns 2: for errors that no table
 * finds. */
int subcommand_refuse(const subcommand *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The beginning of an error message: "stride train". */
const char *subcommand_title(const subcommand *c);

/* Ends a subcommand: 0; or 1, with one line on stderr, if an error is latched or stdout failed. */
int subcommand_end(const subcommand *c);

/* The options that a user sees, in turn, from NULL on; NULL after the last. */
const option_row *next_option(const subcommand *c, const option_row *o);

/* The index of `word` in "a|b|c"; -1: it is not there. */
int choice_of(const char *choices, const char *word);

/* Text in lines of less than 80 characters that begin at a column; the first one is there already. */
void put_wrapped(FILE *to, const char *text, int column);

#endif
