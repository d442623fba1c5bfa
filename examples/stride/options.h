/* options.h: a subcommand's options in one table, for getopt_long, --help, completion and the manual. */
#ifndef STRIDE_EXAMPLES_STRIDE_OPTIONS_H
#define STRIDE_EXAMPLES_STRIDE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char *, a path too */
    OPTION_LIST,    /* option_list: may be given several times */
    OPTION_INTEGER, /* long, least … most */
    OPTION_THREADS, /* the same: the number of threads; 0: one per processor */
    OPTION_NUMBER,  /* double, least … most */
    OPTION_MAYBE,   /* the same, or without a number: GIVEN */
    OPTION_CHOICE,  /* int: an index of `value`, or of `word` */
    OPTION_KIND     /* option_given: such a word, and options of it after a space */
} option_kind;

enum { MOST_LISTED = 8, GIVEN = -1 /* an OPTION_MAYBE without a number */ };

typedef struct option_word {
    char text[40];
} option_word;

typedef struct option_list {
    int count;
    const char *text[MOST_LISTED];
} option_list;

/* "sgd lr=0.1 nesterov": the index of the word, and the text after it, or "". */
typedef struct option_given {
    int index;
    const char *options;
} option_given;

typedef struct option_row {
    const char *name; /* "batch" for --batch */
    char letter;      /* 'b' for -b; 0: none */
    option_kind kind;
    size_t offset;        /* of its value in the subcommand's settings */
    const char *value;    /* shown in --help: "N", "FILE"; the values of a choice: "sgd|adam" */
    const char *fallback; /* the default, as on a command line; NULL: zeros */
    const char *help;
    double least, most;             /* INTEGER, NUMBER */
    option_word (*word)(int index); /* CHOICE, KIND: the words instead of `value`, "" after the last */
} option_row;

/* The offset of an option's value in `settings`, as every subcommand calls its own. */
#define AT(member) offsetof(settings, member)

enum { ANY_NUMBER = 1 << 30 };

typedef struct subcommand {
    const char *program;       /* NULL: stride */
    const char *name, *what;   /* "train", "Train a network." */
    const char *usage;         /* after the name: "NET [options]" */
    const char *details;       /* paragraphs of --help; NULL: none */
    const char *examples;      /* lines of it */
    const char *words;         /* possible operands, for completion: "bash|zsh"; NULL: files */
    const char *operands[2];   /* options that operands are stored in, in turn; model: a safetensors file */
    int least, most;           /* number of other operands */
    bool in_double;            /* run by stride-double */
    const option_row *options; /* ended by a row without a name; NULL: --help only */
    size_t size;               /* of the settings, a struct */
    /* 0, perhaps with an error of the library, or the exit status after a message. May change its
     * settings. */
    int (*run)(void *settings, int count, char **operands);
} subcommand;

/* Parses the arguments after the subcommand's name (argv[0]) and runs it. Returns the exit status: 0, 1 on
 * failure, 2 for a wrong command line. */
int subcommand_run(const subcommand *c, int argc, char **argv);

/* True if --help or -h follows the name. */
bool subcommand_asks_help(int argc, char **argv);
void subcommand_help(const subcommand *c, FILE *to);

/* Prints the candidates for the last of these words, one per line; none: file names. */
void subcommand_complete(const subcommand *c, int count, char **words, FILE *to);

/* Prints "stride train: …; try: stride train --help" and returns 2, for errors that the table does not
 * find. */
int subcommand_refuse(const subcommand *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for an operand that is none of the subcommand's words, with the nearest one. */
int subcommand_refuse_word(const subcommand *c, const char *word);

/* The beginning of an error message: "stride train". */
const char *subcommand_title(const subcommand *c);

/* The exit status of a subcommand: 0, or 1 with a line on stderr after an error of the library or of
 * stdout. */
int subcommand_end(const subcommand *c);

/* The words of a choice as "a|b|c". */
typedef struct option_words {
    char text[256];
} option_words;
option_words choices_of(const option_row *o);

/* A name as the program writes it: cross_entropy is cross-entropy. */
option_word option_word_of(const char *text, size_t length);

/* The index of `word` in "a|b|c", or of the only one that begins with it, or -1; the word at an index; the
 * words that begin with a prefix, each on a line. */
int choice_of(const char *choices, const char *word);
option_word choice_at(const char *choices, int index);
void put_choices(FILE *to, const char *choices, const char *prefix);

/* The same with options after the word. The index is -1 for another word. */
option_given given_of(const char *choices, const char *text);

/* Breaks text into lines of less than 80 columns, indented to `column`; the first line is already
 * indented. */
void put_wrapped(FILE *to, const char *text, int column);

#endif
