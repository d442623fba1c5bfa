/* kinds.c: see kinds.h. */
#include "examples/stride/kinds.h"

#include "examples/stride/fields.h"
#include "layers/describe/describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static option_word word(const char *name)
{
    return name ? option_word_of(name, strlen(name)) : (option_word){ "" };
}

option_word loss_word(int i)
{
    return word(st_loss_kinds[i] ? st_loss_kinds[i]->name : NULL);
}

option_word optim_word(int i)
{
    return word(st_optim_kinds[i] ? st_optim_kinds[i]->name : NULL);
}

option_word schedule_word(int i)
{
    if (i == 0) return word("constant");
    return word(st_schedule_kinds[i - 1] ? st_schedule_kinds[i - 1]->name : NULL);
}

/* ---- options ------------------------------------------------------------------------------------- */

/* The program's own defaults. */
static const struct standard {
    const char *kind, *name;
    double value;
} standards[] = {
    { "sgd", "lr", 0.01 },       { "sgd", "momentum", 0.9 }, { "rmsprop", "lr", 0.001 },
    { "step", "step_size", 10 }, { "step", "gamma", 0.1 },
};

/* NULL: the library's default is the program's, too. */
static const struct standard *standard_of(const char *kind, const char *name)
{
    for (const struct standard *s = standards; s < standards + sizeof standards / sizeof *standards; s++)
        if (strcmp(s->kind, kind) == 0 && strcmp(s->name, name) == 0) return s;
    return NULL;
}

/* The options of a kind, and the names of those that were given. */
typedef struct reading {
    const char *kind;
    const st_field *fields;
    st_option_bytes bytes;
    unsigned given; /* a bit for each field */
} reading;

/* Notes that the option is given. */
static int claim(reading *r, const st_field *f)
{
    const unsigned bit = 1u << (f - r->fields);
    if (r->given & bit) return st_error_set("%s: %s is given twice", word(r->kind).text, f->name);
    r->given |= bit;
    return 0;
}

/* One option: NAME=VALUE, or the name of a flag. */
static int read_option(reading *r, char *text)
{
    char *value = strchr(text, '=');
    if (value) *value++ = '\0';
    const st_field *f = st_options_field(r->fields, text);
    if (!f)
        return st_error_set("\"%.80s\" is not an option of %s%s", text, word(r->kind).text,
                            fields_near(r->fields, text, strlen(text)).text);
    if (!value && f->kind != ST_FIELD_BOOL)
        return st_error_set("%s: %s needs a value, %s=…", word(r->kind).text, f->name, f->name);
    if (claim(r, f)) return -1;
    const char *given = value ? value : "true";
    return field_read(word(r->kind).text, f, given, strlen(given), &r->bytes);
}

/* Options are separated by spaces or commas. */
static int read_options(reading *r, const char *text)
{
    char part[128];
    while (*(text += strspn(text, " ,"))) {
        const size_t length = strcspn(text, " ,");
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        if (length >= sizeof part) return st_error_set("\"%.40s…\" is too long for an option", text);
        if (read_option(r, part)) return -1;
        text += length;
    }
    return 0;
}

static int read_numbers(reading *r, const kind_number numbers[])
{
    for (const kind_number *n = numbers; n && n->flag; n++) {
        const st_field *f = st_options_field(r->fields, n->name);
        if (n->value == 0 && !signbit(n->value)) continue;
        if (!f) return st_error_set("--%s is not an option of %s", n->flag, word(r->kind).text);
        if (claim(r, f)) return -1;
        field_set(f, n->value, &r->bytes);
    }
    return 0;
}

static st_option_bytes options_of(const char *kind, const st_field *fields, const char *text,
                                  const kind_number numbers[])
{
    reading r = { kind, fields };
    for (const st_field *f = fields; f && f->name; f++) {
        const struct standard *s = standard_of(kind, f->name);
        if (s) field_set(f, s->value, &r.bytes);
    }
    if (read_options(&r, text ? text : "") == 0) read_numbers(&r, numbers);
    return r.bytes;
}

st_loss loss_chosen(option_given given, const kind_number numbers[])
{
    const st_loss_kind *kind = st_loss_kinds[given.index];
    const st_option_bytes bytes = options_of(kind->name, kind->fields, given.options, numbers);
    return st_error() ? (st_loss){ 0 } : st_loss_new(kind, &bytes);
}

st_optim *optim_chosen(option_given given, const kind_number numbers[])
{
    const st_optim_kind *kind = st_optim_kinds[given.index];
    const st_option_bytes bytes = options_of(kind->name, kind->fields, given.options, numbers);
    return st_error() ? NULL : st_optim_new(kind, &bytes);
}

st_schedule schedule_chosen(option_given given, const kind_number numbers[])
{
    const st_schedule_kind *kind = given.index > 0 ? st_schedule_kinds[given.index - 1] : NULL;
    const st_option_bytes bytes =
        options_of(kind ? kind->name : "constant", kind ? kind->fields : NULL, given.options, numbers);
    return kind && !st_error() ? st_schedule_new(kind, &bytes) : (st_schedule){ 0 };
}

/* ---- text ---------------------------------------------------------------------------------------- */

loss_text loss_write(const st_loss *l)
{
    char options[sizeof(loss_text) - sizeof(option_word)];
    loss_text t;
    st_options_text(l->kind->fields, &l->options, options, sizeof options);
    snprintf(t.text, sizeof t.text, "%s%s%s", word(l->kind->name).text, *options ? " " : "", options);
    return t;
}

st_loss loss_read(const char *text)
{
    const option_words all = choices_of(&(option_row){ .word = loss_word });
    const option_given given = given_of(all.text, text);
    if (given.index >= 0) return loss_chosen(given, NULL);
    st_error_set("loss: expected one of %s, not \"%.80s\"", all.text, text);
    return (st_loss){ 0 };
}

loss_text losses_of_numbers(void)
{
    loss_text t = { "" };
    const st_loss_kind *left[32];
    int count = 0;
    for (int i = 0; st_loss_kinds[i]; i++)
        if (!st_loss_kinds[i]->classes && count < 32) left[count++] = st_loss_kinds[i];
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(t.text);
        snprintf(t.text + used, sizeof t.text - used, "%s%s",
                 i == 0          ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 word(left[i]->name).text);
    }
    return t;
}

static void put_kind(FILE *to, const char *name, const st_field *fields)
{
    fprintf(to, "  %s", word(name).text);
    for (const st_field *f = fields; f && f->name; f++) {
        const struct standard *s = standard_of(name, f->name);
        field_put(to, f, s ? s->value : f->fallback);
    }
    fputc('\n', to);
}

void kinds_put(FILE *to)
{
    fputs("losses:\n", to);
    for (int i = 0; st_loss_kinds[i]; i++) put_kind(to, st_loss_kinds[i]->name, st_loss_kinds[i]->fields);
    fputs("\noptimizers:\n", to);
    for (int i = 0; st_optim_kinds[i]; i++) put_kind(to, st_optim_kinds[i]->name, st_optim_kinds[i]->fields);
    fputs("\nschedules:\n", to);
    put_kind(to, "constant", NULL);
    for (int i = 0; st_schedule_kinds[i]; i++)
        put_kind(to, st_schedule_kinds[i]->name, st_schedule_kinds[i]->fields);
}
