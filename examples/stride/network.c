/* network.c: parses and writes networks. Values are read by each type's own table of options (fields.h).
 *
 * Each layer is planned as soon as it is parsed, so that errors name its line and column. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/fields.h"
#include "examples/stride/nearest.h"
#include "examples/stride/network.h"
#include "examples/stride/paths.h"
#include "examples/stride/text.h"
#include "layers/describe/describe.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEEPEST = 32,       /* nesting of parentheses */
    MOST_LAYERS = 4096, /* with repetitions */
    LONGEST_FILE = 1 << 20,
    LONGEST_SHOWN = 40 /* of a word in a message */
};

/* ---- words ------------------------------------------------------------------------------------- */

typedef enum token_kind { WORD, EQUALS, COMMA, NEWLINE, OPEN, CLOSE, BAR, END } token_kind;

typedef struct token {
    token_kind kind;
    const char *at;
    int length, line, column; /* columns are characters, counted from 1 */
} token;

typedef struct parser {
    token now;
    const char *next; /* the text after it, */
    int line, column; /* and its position */
    int depth, layers;
    bool dry; /* no layer is planned: the input's shape is not known */
} parser;

static bool in_word(char c)
{
    return (unsigned char)c > ' ' && !strchr(",()|#=", c);
}

static void advance(parser *p)
{
    while (*p->next == ' ' || *p->next == '\t' || *p->next == '\r') p->next++, p->column++;
    if (*p->next == '#') p->next += strcspn(p->next, "\n");
    static const token_kind kinds[] = { EQUALS, COMMA, NEWLINE, OPEN, CLOSE, BAR };
    const char *mark = *p->next ? strchr("=,\n()|", *p->next) : NULL;
    token t = { .kind = WORD, .at = p->next, .line = p->line, .column = p->column };
    if (!*p->next) t.kind = END;
    else if (mark) t.kind = kinds[mark - strchr("=,\n()|", '=')];
    if (t.kind == WORD) t.length = 1; /* a control character is a word, too */
    while (t.kind == WORD && in_word(t.at[0]) && in_word(t.at[t.length])) t.length++;
    if (mark) t.length = 1;
    p->next += t.length;
    for (int i = 0; i < t.length; i++) p->column += (t.at[i] & 0xc0) != 0x80;
    if (t.kind == NEWLINE) p->line++, p->column = 1;
    p->now = t;
}

static bool is(const token *t, const char *word)
{
    return t->kind == WORD && (size_t)t->length == strlen(word) &&
           memcmp(t->at, word, (size_t)t->length) == 0;
}

/* ---- messages ---------------------------------------------------------------------------------- */

typedef struct token_text {
    char text[LONGEST_SHOWN * 2];
} token_text;

static token_text show(const token *t)
{
    token_text s;
    if (t->kind == END) snprintf(s.text, sizeof s.text, "the end");
    else if (t->kind == NEWLINE) snprintf(s.text, sizeof s.text, "the end of the line");
    else if ((unsigned char)t->at[0] < ' ') snprintf(s.text, sizeof s.text, "byte %d", t->at[0]);
    else if (t->length > LONGEST_SHOWN) snprintf(s.text, sizeof s.text, "'%.*s…'", LONGEST_SHOWN, t->at);
    else snprintf(s.text, sizeof s.text, "'%.*s'", t->length, t->at);
    return s;
}

/* "line 1, column 5: 'covn' …"; returns -1. */
static int fail(const token *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(const token *t, const char *format, ...)
{
    char text[ST_ERROR_SIZE - 128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return st_error_set("line %d, column %d: %s %s", t->line, t->column, show(t).text, text);
}

/* The library's message, with its position. */
static int fail_within(const token *t)
{
    return st_error_within("line %d, column %d: ", t->line, t->column);
}

/* ---- names ------------------------------------------------------------------------------------- */

static const char *const aliases[][2] = {
    { "conv", "conv2d" },  { "conv_transpose", "conv_transpose2d" }, { "pad", "pad2d" },
    { "linear", "dense" }, { "global_avgpool", "avgpool" },          { "global_maxpool", "maxpool" },
};
enum { ALIASES = sizeof aliases / sizeof *aliases };

/* NULL if the word is not the name of a layer. */
static const st_layer_type *find_type(const token *t)
{
    const char *full = NULL;
    for (int i = 0; i < ALIASES; i++)
        if (is(t, aliases[i][0])) full = aliases[i][1];
    for (int i = 0; st_layer_types[i]; i++)
        if (full ? strcmp(full, st_layer_types[i]->name) == 0 : is(t, st_layer_types[i]->name))
            return st_layer_types[i];
    return NULL;
}

static const st_layer_type *type_named(const token *t)
{
    const st_layer_type *found = find_type(t);
    if (found) return found;
    nearest n = { t->at, (size_t)t->length };
    for (int i = 0; i < ALIASES; i++) nearest_try(&n, aliases[i][0]);
    for (int i = 0; st_layer_types[i]; i++) nearest_try(&n, st_layer_types[i]->name);
    fail(t, "is not a layer%s",
         n.name[0] ? nearest_question(&n, "").text : "; stride help network lists them");
    return NULL;
}

static const st_field *next_field(const st_layer_type *type, const st_field *f)
{
    f = f ? f + 1 : type->fields;
    return f && f->name ? f : NULL;
}

/* True if 0 is out of range, or has no effect, as a dropout of 0. */
static bool is_required(const st_field *f)
{
    return f->fallback == 0 && (f->least > 0 || (f->kind == ST_FIELD_REAL && f->below > 0));
}

/* Fields whose values need no name: the first one, and required ones right after it. */
static bool positional(const st_layer_type *type, const st_field *f)
{
    bool leads = f == type->fields || (is_required(f) && positional(type, f - 1));
    return leads && f->kind != ST_FIELD_BOOL && f->kind != ST_FIELD_CHOICE && f->kind != ST_FIELD_NAMED;
}

static const st_field *field_named(const st_layer_type *type, const token *t)
{
    const st_field *f = NULL;
    while ((f = next_field(type, f)))
        if (is(t, f->name)) return f;
    if (find_type(t)) {
        fail(t, "is not an option of %s; separate layers by commas", type->name);
        return NULL;
    }
    fail(t, "is not an option of %s%s", type->name, fields_near(type->fields, t->at, (size_t)t->length).text);
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The options of one layer that are given: their values, and where these stand in the text. */
enum { MOST_OPTIONS = 32 };
typedef struct options {
    const st_layer_type *type;
    void *values; /* the type's struct of options */
    int count;
    struct option {
        const st_field *field;
        token at;
    } given[MOST_OPTIONS];
} options;

/* The library's message, where the option stands that it names: "conv2d: stride is …"; else at the layer. */
static int fail_in_options(const options *o, const token *name)
{
    char start[64];
    for (const struct option *g = o->given; g < o->given + o->count; g++) {
        const int length = snprintf(start, sizeof start, "%s: %s is ", o->type->name, g->field->name);
        if (strncmp(st_error(), start, (size_t)length) == 0) return fail_within(&g->at);
    }
    return fail_within(name);
}

/* NULL if that option is not given. */
static const token *given_at(const options *o, const char *name)
{
    for (int i = 0; i < o->count; i++)
        if (strcmp(o->given[i].field->name, name) == 0) return &o->given[i].at;
    return NULL;
}

/* A number of a pair; 0: it was not given. */
static int number_of(const options *o, const char *name, int axis)
{
    const st_field *f = st_options_field(o->type->fields, name);
    if (!f || f->kind != ST_FIELD_PAIR) return 0;
    const int *pair = (const int *)(const void *)((const char *)o->values + f->offset);
    return pair[axis] == ST_ZERO_INT ? 0 : pair[axis];
}

/* Padding that keeps the size: dilation (kernel - 1) / 2 on each side; of an odd number the bottom and the
 * right get one more, as in PyTorch. */
static int pad_same(const options *o, const token *t)
{
    static const char *const sides[] = { "pad_height", "pad_width" };
    const st_field *fields = o->type->fields, *stride = st_options_field(fields, "stride");
    int before[2];
    for (int axis = 0; axis < 2; axis++) {
        const int k = number_of(o, "kernel", axis), d = number_of(o, "dilation", axis),
                  s = number_of(o, "stride", axis),
                  usual = stride->fallback > 0 ? (int)stride->fallback : k, /* k: as in pooling */
            steps = s ? s : usual;
        const long more = (d ? d : 1) * (k - 1L);
        const st_field *side = st_options_field(fields, sides[axis]);
        if (steps != 1) return fail(t, "keeps the size only at a stride of 1, not %d", steps);
        if (more < 0 || more > INT_MAX) return fail(t, "needs a kernel of at least 1, not %d", k);
        if (given_at(o, sides[axis])) return fail(t, "cannot be combined with %s", sides[axis]);
        if (more % 2 && !side) return fail(t, "needs an odd kernel, not %d", k);
        before[axis] = (int)(more / 2);
        if (more % 2) field_set_pair(side, 0, 1, o->values);
    }
    field_set_pair(st_options_field(fields, "padding"), before[0], before[1], o->values);
    return 0;
}

/* ---- layers ------------------------------------------------------------------------------------ */

/* Layers in sequence, and the output shape of the last one. */
typedef struct chain {
    st_layer **layer;
    int count, room;
    st_shape y;
} chain;

static void drop(chain *c)
{
    while (c->count > 0) st_layer_free(c->layer[--c->count]);
    free(c->layer);
    *c = (chain){ 0 };
}

/* Takes ownership of the layer; NULL: an error is already set. */
static int append(parser *p, chain *c, const token *t, st_layer *l)
{
    if (!l) return fail_within(t);
    if (c->count == c->room) {
        int room = c->room ? 2 * c->room : 16;
        st_layer **more = realloc(c->layer, (size_t)room * sizeof *more);
        if (!more) {
            st_layer_free(l);
            return st_error_set("no memory for %d layers", room);
        }
        c->layer = more;
        c->room = room;
    }
    c->layer[c->count++] = l;
    if (++p->layers > MOST_LAYERS) return fail(t, "is one layer too many: at most %d", MOST_LAYERS);
    st_shape y = c->y;
    if (!p->dry && st_layer_plan(l, c->y, &y)) return fail_within(t);
    c->y = y;
    return 0;
}

/* A word that begins like a number is a value, any other word a name. */
static bool is_value(const token *t)
{
    return t->kind == WORD && strchr("+-.0123456789", t->at[0]);
}

static const st_field *unnamed_field(const st_layer_type *type, const token *t, int taken)
{
    const st_field *f = type->fields ? type->fields + taken : NULL;
    if (f && f->name && positional(type, f)) return f;
    if (!type->fields) fail(t, "is one value too many: %s takes none", type->name);
    else
        fail(t, "needs an option's name: %s takes %d value%s without one", type->name, taken,
             taken == 1 ? "" : "s");
    return NULL;
}

static bool takes_same(const options *o, const st_field *f)
{
    return strcmp(f->name, "padding") == 0 && st_options_field(o->type->fields, "dilation");
}

/* Reads the value of an option; padding=same waits for the other options. */
static int give(options *o, const st_field *f, const token *t)
{
    nearest n = { t->at, (size_t)t->length };
    if (o->count == MOST_OPTIONS) return fail(t, "is one option too many");
    o->given[o->count++] = (struct option){ f, *t };
    if (takes_same(o, f) && is(t, "same")) return 0;
    if (field_read(o->type->name, f, t->at, (size_t)t->length, o->values) == 0) return 0;
    if (takes_same(o, f)) nearest_try(&n, "same");
    text_append_error(nearest_question(&n, "").text);
    return fail_within(t);
}

/* Reads one option: a value, NAME=VALUE, or a flag. */
static int read_option(parser *p, options *o, int *taken)
{
    const token t = p->now;
    const bool unnamed = is_value(&t);
    advance(p);
    if (unnamed && p->now.kind == EQUALS) return fail(&t, "is not an option of %s", o->type->name);
    const st_field *f = unnamed ? unnamed_field(o->type, &t, (*taken)++) : field_named(o->type, &t);
    if (!f) return -1;
    if (given_at(o, f->name)) return fail(&t, "is given twice");
    token value = t;
    if (p->now.kind == EQUALS) {
        advance(p);
        value = p->now;
        if (value.kind != WORD) return fail(&value, "found, expected a value of %s", f->name);
        advance(p);
    } else if (!unnamed) {
        if (f->kind != ST_FIELD_BOOL) return fail(&t, "needs a value: %s=…", f->name);
        value.at = "true", value.length = 4;
    }
    return give(o, f, &value);
}

static int read_options(parser *p, options *o, const token *name)
{
    int taken = 0;
    while (p->now.kind == WORD)
        if (read_option(p, o, &taken)) return -1;
    const token *padding = given_at(o, "padding");
    if (padding && is(padding, "same") && pad_same(o, padding)) return -1;
    const st_field *f = NULL;
    while ((f = next_field(o->type, f)))
        if (is_required(f) && !given_at(o, f->name)) return fail(name, "needs %s", f->name);
    return 0;
}

static int expect(parser *p, token_kind kind, const char *what)
{
    if (p->now.kind != kind) return fail(&p->now, "found, expected %s", what);
    advance(p);
    return 0;
}

static int read_chain(parser *p, chain *c);

static bool is_sequence(const st_layer_type *type)
{
    return strcmp(type->name, "sequence") == 0;
}

/* Of one branch these are the branch itself: concat(relu, tanh) is refused, as a | is missing there. */
static bool wants_branches(const st_layer_type *type)
{
    return strcmp(type->name, "concat") == 0 || strcmp(type->name, "multiply") == 0;
}

/* Parses the layers in parentheses: all of a sequence, or one per branch. The body of a max_unpool begins
 * where its pooling ends. */
static int read_branches(parser *p, chain *to, st_shape x, const st_layer_type *type, const token *name)
{
    const bool sequence = is_sequence(type), unpools = strcmp(type->name, "max_unpool") == 0;
    do {
        chain c = { .y = x };
        token t = p->now;
        advance(p); /* ( or | */
        if (read_chain(p, &c)) {
            drop(&c);
            return -1;
        }
        if (sequence) {
            *to = c;
            break;
        }
        if (wants_branches(type) && to->count == 0 && c.count > 1 && p->now.kind == CLOSE) {
            fail(name, "has one branch of %d layers: | separates branches", c.count);
            drop(&c);
            return -1;
        }
        to->y = x;
        st_layer *l = c.count == 1 ? c.layer[0] : st_sequence_of(c.count, c.layer);
        c.count = 0;
        drop(&c);
        if (append(p, to, &t, l)) return -1;
        if (unpools) x = to->y;
    } while (p->now.kind == BAR);
    return expect(p, CLOSE, sequence ? ")" : "| or )");
}

static st_layer *read_holder(parser *p, const st_layer_type *type, const token *name, st_shape x)
{
    chain below = { 0 };
    if (p->now.kind != OPEN) {
        fail(name, "holds layers: %s(…)", type->name);
        return NULL;
    }
    if (read_branches(p, &below, x, type, name)) {
        drop(&below);
        return NULL;
    }
    st_layer *l = st_layer_new(type, NULL, below.count, below.layer);
    below.count = 0; /* owned by the layer */
    drop(&below);
    if (!l) fail_within(name);
    return l;
}

static st_layer *read_plain(parser *p, const st_layer_type *type, const token *name)
{
    const st_field *f = NULL;
    while ((f = next_field(type, f)))
        if (f->kind == ST_FIELD_NAMED) {
            fail(name, "needs a function of your own and cannot be written as text");
            return NULL;
        }
    if (p->now.kind == OPEN) {
        fail(&p->now, "found after %s, which holds no layers; write values as in conv 32 3x3", type->name);
        return NULL;
    }
    if (p->now.kind == WORD && name->length > 7 && strncmp(name->at, "global_", 7) == 0) {
        fail(&p->now, "found after %.*s, which takes no options", name->length, name->at);
        return NULL;
    }
    options o = { .type = type, .values = calloc(1, type->options_size + 1) };
    st_layer *l = NULL;
    if (!o.values) st_error_set("no memory for a layer's options");
    else if (read_options(p, &o, name) == 0 && !(l = st_layer_new(type, o.values, 0, NULL)))
        fail_in_options(&o, name);
    free(o.values);
    return l;
}

static int read_layer(parser *p, chain *c)
{
    token name = p->now;
    if (name.kind != WORD) return fail(&name, "found, expected a layer");
    const st_layer_type *type = type_named(&name);
    if (!type) return -1;
    advance(p);
    bool rows = strcmp(type->name, "dense") == 0; /* [N, in] or [N, T, in], not images */
    if (rows && c->y.rank > 3 && append(p, c, &name, st_flatten())) return -1;
    st_layer *l = type->children ? read_holder(p, type, &name, c->y) : read_plain(p, type, &name);
    return l ? append(p, c, &name, l) : -1;
}

/* 3x(...): parses the text three times. */
static int read_times(parser *p, chain *c, int times)
{
    token t = p->now;
    advance(p);
    if (p->now.kind != OPEN) return fail(&t, "needs parentheses: %dx(…)", times);
    if (times < 1) return fail(&t, "repeats no layer: expected at least 1x");
    advance(p);
    parser begin = *p;
    for (int i = 0; i < times; i++) {
        begin.layers = p->layers;
        *p = begin;
        if (read_chain(p, c)) return -1;
    }
    return expect(p, CLOSE, ")");
}

static bool is_times(const token *t, int *times)
{
    const char *end = t->at + t->length;
    return t->kind == WORD && t->at[0] >= '0' && t->at[0] <= '9' && end[-1] == 'x' &&
           text_int(t->at, end, times) == end - 1;
}

static void skip_lines(parser *p)
{
    while (p->now.kind == NEWLINE) advance(p);
}

static bool ends_chain(const parser *p)
{
    return p->now.kind == CLOSE || p->now.kind == BAR || p->now.kind == END;
}

static int read_chain(parser *p, chain *c)
{
    if (++p->depth > DEEPEST) return fail(&p->now, "is nested deeper than %d", DEEPEST);
    skip_lines(p);
    do {
        int times;
        if (is_times(&p->now, &times) ? read_times(p, c, times) : read_layer(p, c)) return -1;
        if (!ends_chain(p) && p->now.kind != COMMA && p->now.kind != NEWLINE)
            return fail(&p->now, "found, expected a comma or the end of the line");
        if (p->now.kind == COMMA) advance(p);
        skip_lines(p);
    } while (!ends_chain(p));
    p->depth--;
    return 0;
}

/* ---- nets -------------------------------------------------------------------------------------- */

static bool read_size(const token *t, st_shape *to)
{
    const char *at = t->at, *end = at + t->length;
    *to = (st_shape){ 0 };
    for (int n; to->rank < ST_MAX_RANK - 1; at++) {
        if (!(at = text_int(at, end, &n)) || n < 1) return false;
        to->n[to->rank++] = n;
        if (at == end) return true;
        if (*at != 'x') return false;
    }
    return false;
}

/* A byte order mark, which some editors write, is skipped. */
static parser begin(const char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (strncmp(text, mark, sizeof mark - 1) == 0) text += sizeof mark - 1;
    parser p = { .next = text, .line = 1, .column = 1 };
    advance(&p);
    return p;
}

int network_size(const char *text, st_shape *to)
{
    parser p = begin(text);
    token t = p.now;
    advance(&p);
    if (t.kind == WORD && p.now.kind == END && read_size(&t, to)) return 0;
    return st_error_set("'%.60s' is not a size such as 28x28 or 1x28x28", text);
}

static int read_input(parser *p, st_shape *input)
{
    st_shape said;
    skip_lines(p);
    if (!is(&p->now, "input")) {
        if (input->rank > 0 || p->dry) return 0;
        return st_error_set(
            "the network's input is not known: begin it with, for example, \"input 1x28x28\", or "
            "give --input");
    }
    advance(p);
    token t = p->now;
    if (t.kind != WORD || !read_size(&t, &said)) return fail(&t, "found, expected a size such as 1x28x28");
    advance(p);
    if (p->now.kind != COMMA && p->now.kind != NEWLINE)
        return fail(&p->now, "found, expected a comma or the end of the line");
    advance(p);
    if (input->rank > 0 && !st_shape_equal(*input, said))
        return fail(&t, "is not the shape of the samples, %s", st_shape_text(*input).text);
    *input = said;
    return 0;
}

static int read_all(parser *p, st_shape *input, chain *c)
{
    if (read_input(p, input)) return -1;
    c->y = p->dry ? (st_shape){ 0 } : st_shape_with_batch(*input, 1);
    return read_chain(p, c) || (p->now.kind != END && fail(&p->now, "has no matching (")) ? -1 : 0;
}

/* NULL with an error, or if it is dry. A word that is no layer, such as the name of a file that is not there,
 * is told before an input that is not known. */
static st_net *parse(const char *text, st_shape input, bool dry)
{
    if (!dry && input.rank == 0) parse(text, input, true);
    if (st_error()) return NULL;
    parser p = begin(text);
    chain c = { 0 };
    st_net *n = NULL;
    p.dry = dry;
    if (read_all(&p, &input, &c) == 0 && !dry) {
        n = st_net_new_of(input, c.count, c.layer);
        c.count = 0; /* owned by the net */
    }
    drop(&c);
    return n;
}

st_net *network_parse(const char *text, st_shape input)
{
    return parse(text, input, false);
}

/* A path of a missing file is not parsed as a network: it has a slash, or is a single word with a point. */
static bool is_file(const char *given)
{
    const bool word = strcspn(given, " \t\r\n,()|=#") == strlen(given);
    return access(given, F_OK) == 0 || strchr(given, '/') || (word && strchr(given, '.'));
}

char *network_text(const char *given)
{
    size_t length = strlen(given);
    char *text = is_file(given) ? path_contents(given, LONGEST_FILE, &length) : strdup(given);
    if (!text) st_error_set("no memory for a network");
    else if (memchr(text, 0, length)) st_error_set("%.200s: not text", given);
    if (!st_error()) return text;
    free(text);
    return NULL;
}

/* An error of the environment (STRIDE_ENGINE) is found by any layer, and is at no place of the text. */
static int check_environment(void)
{
    st_layer *l = st_relu();
    const int status = st_layer_plan(l, ST_SHAPE(1, 1), NULL);
    st_layer_free(l);
    return status;
}

static st_net *read_given(const char *given, st_shape input, bool dry)
{
    char *text = check_environment() ? NULL : network_text(given);
    st_net *n = text ? parse(text, input, dry) : NULL;
    if (text && st_error() && is_file(given)) st_error_within("%.200s: ", given);
    free(text);
    return n;
}

st_net *network_read(const char *given, st_shape input)
{
    return read_given(given, input, false);
}

int network_check(const char *given)
{
    read_given(given, (st_shape){ 0 }, true);
    return st_error() ? -1 : 0;
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* A value of an option, of which st_options_text has written "name=value", or nothing of its default, 0. */
static void put_value(FILE *to, const st_field *f, const void *at, const char *text)
{
    const int *i = at;
    if (f->kind == ST_FIELD_PAIR && i[0] == i[1]) fprintf(to, "%d", i[0]);
    else fputs(*text ? strchr(text, '=') + 1 : "0", to);
}

static int write_options(FILE *to, const st_layer *l)
{
    const st_field *f = NULL;
    bool named = false;
    while ((f = next_field(l->type, f))) {
        const st_field one[] = { *f, { 0 } };
        char text[128]; /* empty for the default */
        if (f->kind == ST_FIELD_NAMED) return st_layer_refuse(l, "its %s cannot be written as text", f->name);
        st_options_text(one, l->options, text, sizeof text);
        const bool left_out = !text[0] && !is_required(f), flag = f->kind == ST_FIELD_BOOL;
        named = named || left_out || !positional(l->type, f);
        if (left_out) continue;
        fprintf(to, " %s%s", named ? f->name : "", named && !flag ? "=" : "");
        if (!flag) put_value(to, f, (const char *)l->options + f->offset, text);
    }
    return 0;
}

static int write_layer(FILE *to, const st_layer *l);

static int write_chain(FILE *to, int count, st_layer *const layers[], const char *separator)
{
    for (int i = 0; i < count; i++) {
        if (i) fputs(separator, to);
        if (write_layer(to, layers[i])) return -1;
    }
    return 0;
}

static int write_branches(FILE *to, const st_layer *l)
{
    for (int i = 0; i < l->children; i++) {
        const st_layer *branch = l->child[i];
        if (i) fputs(" | ", to);
        const bool bare = l->children > 1 || !wants_branches(l->type);
        int status = bare && is_sequence(branch->type) && branch->children > 1
                         ? write_chain(to, branch->children, branch->child, ", ")
                         : write_layer(to, branch);
        if (status) return -1;
    }
    return 0;
}

static int write_layer(FILE *to, const st_layer *l)
{
    bool shipped = false;
    for (int i = 0; st_layer_types[i]; i++) shipped = shipped || st_layer_types[i] == l->type;
    if (!shipped) return st_layer_refuse(l, "is a type of your own and cannot be written as text");
    fputs(l->type->name, to);
    if (!l->type->children) return write_options(to, l);
    fputc('(', to);
    if (is_sequence(l->type) ? write_chain(to, l->children, l->child, ", ") : write_branches(to, l))
        return -1;
    fputc(')', to);
    return 0;
}

int network_write(const st_net *n, FILE *to)
{
    fputs("input ", to);
    for (int i = 0; i < n->input.rank; i++) fprintf(to, "%s%td", i ? "x" : "", n->input.n[i]);
    fputc('\n', to);
    if (write_chain(to, n->root->children, n->root->child, "\n")) return -1;
    fputc('\n', to);
    return 0;
}

/* ---- the list of layers ----------------------------------------------------------------------------- */

static void put_field(FILE *to, const st_layer_type *type, const st_field *f)
{
    if (positional(type, f) && is_required(f)) fprintf(to, " %s", f->name);
    else field_put(to, f, f->fallback);
}

void network_layers(FILE *to)
{
    for (int i = 0; st_layer_types[i]; i++) {
        const st_layer_type *type = st_layer_types[i];
        fputs(type->name, to);
        const st_field *f = NULL;
        while ((f = next_field(type, f))) put_field(to, type, f);
        if (type->children) fputs(is_sequence(type) ? "(layers)" : "(layers | layers)", to);
        fputc('\n', to);
    }
}
