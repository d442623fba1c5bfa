/* model.c: see model.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/model.h"

#include "examples/stride/options.h"
#include "examples/stride/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool model_named(const char *path)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(path), more = sizeof ending - 1;
    return length > more && strcmp(path + length - more, ending) == 0;
}

loss loss_chosen(int index, double label_smoothing)
{
    switch (index) {
    case 1: return loss_mse();
    case 2: return loss_huber(0);
    case 3: return loss_bce_with_logits();
    default: return loss_cross_entropy(label_smoothing);
    }
}

static char **make_names(const model *m, ptrdiff_t count, bool shown)
{
    char **names = calloc((size_t)count + 1, sizeof *names), number[32];
    for (ptrdiff_t k = 0; k < count && names; k++) {
        snprintf(number, sizeof number, "%td", k);
        const char *name = m->classes ? m->classes->name[k] : number;
        names[k] = shown ? text_clean(name) : strdup(name);
        if (!names[k]) error_set("no memory for the names of %td classes", count);
    }
    if (!names) error_set("no memory for the names of %td classes", count);
    return names;
}

static void free_names(char **names)
{
    for (char **name = names; name && *name; name++) free(*name);
    free(names);
}

int model_open(model *m, const char *path, ptrdiff_t batch)
{
    *m = (model){ .net = net_load(path, batch, (net_known){ 0 }) };
    if (!m->net) return -1;
    const char *trained_by = net_note_text(m->net, "loss");
    int index = trained_by ? choice_of(LOSSES, trained_by) : 0;
    if (index < 0) error_set("loss: expected one of %s, not \"%.80s\"", LOSSES, trained_by);
    m->loss = loss_chosen(index, 0);
    m->scale = normalize_of(m->net);
    if (!error_text()) m->classes = classes_of(m->net);
    ptrdiff_t count = m->net->output.rank == 1 ? m->net->output.n[0] : 0;
    if (!error_text()) m->name = make_names(m, count, false);
    if (!error_text()) m->shown = make_names(m, count, true);
    if (!error_text()) return 0;
    error_within("%.200s: ", path);
    model_close(m);
    return -1;
}

void model_close(model *m)
{
    net_free(m->net);
    normalize_free(m->scale);
    classes_free(m->classes);
    free_names(m->name);
    free_names(m->shown);
    *m = (model){ 0 };
}

void model_softmax(tensor y, double *p)
{
    ptrdiff_t count = y.shape.n[0];
    double most = -INFINITY, sum = 0;
    for (ptrdiff_t k = 0; k < count; k++) most = fmax(most, (double)*tensor_at(y, INDEX(k)));
    for (ptrdiff_t k = 0; k < count; k++) sum += p[k] = exp((double)*tensor_at(y, INDEX(k)) - most);
    for (ptrdiff_t k = 0; k < count; k++) p[k] /= sum;
}
