/* summary.c: prints a net's layers, shapes and memory needs. */
#include "nn/files/streams.h"

#include "layers/describe/describe.h"
#include "layers/layer_impl.h"
#include "nn/check/summary.h"

#include <string.h>

enum {
    OTHER_COLUMNS = 54, /* the width of all but the first */
    MEMORY_LABEL = 34,
    MEMORY_COLUMNS = MEMORY_LABEL + 15
};

typedef struct table {
    FILE *to;
    int width;   /* of the first column */
    int columns; /* of the terminal; 0: not known, or none */
    bool folded;
} table;

/* A line of the table, which is folded where the terminal is narrower. */
static void put_line(const table *t, const char *layer, const char *output, const char *parameters,
                     const char *flops)
{
    fprintf(t->to, t->folded ? "%-*s\n  %s" : "%-*s  %-20s", t->folded ? 0 : t->width, layer, output);
    if (parameters[0]) fprintf(t->to, t->folded ? "  %s  %s" : " %14s %16s", parameters, flops);
    fputc('\n', t->to);
}

static int indented(const st_layer *l, const char *path, char *text, size_t size)
{
    int depth = 0;
    for (const char *c = path; *c; c++) depth += *c == '.';
    const char *name = strrchr(path, '.');
    int used = snprintf(text, size, "%*s%s ", 2 * depth, "", name ? name + 1 : path);
    return used + (int)st_layer_describe(l, text + used, size - (size_t)used);
}

static void measure_width(st_layer *l, const char *path, void *context)
{
    table *t = context;
    char text[512];
    int width = indented(l, path, text, sizeof text);
    if (width > t->width) t->width = width;
}

/* 1234567 as "1,234,567". */
static const char *grouped(double value, char text[32])
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", value), used = 0;
    for (int i = 0; i < length && used < 30; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

static void print_row(st_layer *l, const char *path, void *context)
{
    const table *t = context;
    if (!path[0]) return; /* the root has no line */
    char text[512], parameters[32], flops[32];
    indented(l, path, text, sizeof text);
    double own = 0;
    for (int i = 0; i < l->params; i++) own += (double)st_shape_numel(l->param[i].shape, "st_net_summary");
    put_line(t, text, st_shape_text(l->y).text, grouped(own, parameters),
             grouped(l->children ? 0 : l->flops / (double)l->x.n[0], flops));
}

/* The number stands below its name where the terminal is narrower. */
static void print_bytes(const table *t, const char *what, double elements)
{
    double bytes = elements * (double)sizeof(st_real);
    const char *unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int u = 0;
    for (; bytes >= 1024 && u < 4; u++) bytes /= 1024;
    const bool folded = t->columns > 0 && t->columns < MEMORY_COLUMNS;
    fprintf(t->to, folded ? "  %-*s\n    %.*f %s\n" : "  %-*s %8.*f %s\n", folded ? 0 : MEMORY_LABEL, what,
            u ? 1 : 0, bytes, unit[u]);
}

static void print_memory(const table *t, const st_layer_needs *needs, double input, double output)
{
    const double trained = 2.0 * (double)needs->parameters, kept = (double)needs->memory + output;
    char all[64];
    print_bytes(t, "parameters and their gradients", trained);
    if (needs->state > 0) print_bytes(t, "states", (double)needs->state);
    print_bytes(t, "activations", kept);
    print_bytes(t, "scratch of each thread", (double)needs->scratch);
    if (needs->whole > 0) print_bytes(t, "scratch of whole batches", (double)needs->whole);
    print_bytes(t, "gradients of chunks", (double)needs->partial);
    if (needs->tables > 0) print_bytes(t, "tables of algorithms", (double)needs->tables);
    print_bytes(t, "a batch of input", input);
    snprintf(all, sizeof all, "peak, with %d thread%s", needs->threads, needs->threads > 1 ? "s" : "");
    print_bytes(t, all, layer_needed(needs) + input + output);
}

static int summarise(st_net *n, st_shape x, FILE *to)
{
    st_shape y;
    st_layer_needs needs;
    if (st_layer_plan(n->root, x, &y) || st_layer_measure(n->root, &needs)) return -1;
    char parameters[32], flops[32];
    table t = { to, (int)strlen("layer") };
    st_layer_visit(n->root, measure_width, &t);
    t.columns = system_is_terminal(to) ? system_columns(to) : 0;
    t.folded = t.columns > 0 && t.columns < t.width + OTHER_COLUMNS;
    put_line(&t, "layer", "output", "parameters", "FLOPs a sample");
    put_line(&t, "input", st_shape_text(x).text, "", "");
    st_layer_visit(n->root, print_row, &t);
    put_line(&t, "total", "", grouped((double)needs.parameters, parameters),
             grouped(n->root->flops / (double)x.n[0], flops));
    fprintf(to, "\nmemory for batches of %td, %s\n", x.n[0], ST_REAL_NAME);
    print_memory(&t, &needs, (double)st_shape_numel(x, "st_net_summary"),
                 (double)st_shape_numel(y, "st_net_summary"));
    return fflush(to) || ferror(to) ? st_error_set("st_net_summary: the stream cannot be written") : 0;
}

/* Plans the shapes of the batch; afterwards a built net is built again as it was. */
int st_net_summary(st_net *n, ptrdiff_t batch, FILE *to)
{
    if (!n) return st_error_set("st_net_summary: the net is NULL");
    if (!to) return st_error_set("st_net_summary: the file is NULL");
    if (batch < 1) return st_error_set("st_net_summary: a batch of %td images, expected at least 1", batch);
    int status = summarise(n, st_shape_with_batch(n->input, batch), to);
    if (n->batch > 0 && st_net_build(n, n->batch, n->seed)) return -1;
    return status;
}
