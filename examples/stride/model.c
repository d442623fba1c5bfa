/* model.c: see model.h. */
#include "examples/stride/model.h"

#include "examples/stride/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool model_named(const char *path)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(path), more = sizeof ending - 1;
    return length > more && strcmp(path + length - more, ending) == 0;
}

loss loss_chosen(int place, double label_smoothing)
{
    switch (place) {
    case 1: return loss_mse();
    case 2: return loss_huber(0);
    case 3: return loss_bce_with_logits();
    default: return loss_cross_entropy(label_smoothing);
    }
}

int model_open(model *m, const char *path, ptrdiff_t batch)
{
    *m = (model){ .net = net_load(path, batch, (net_known){ 0 }) };
    if (!m->net) return -1;
    const char *trained_by = net_note_text(m->net, "loss");
    m->loss = loss_chosen(trained_by ? choice_of(LOSSES, trained_by) : 0, 0);
    m->scale = normalize_of(m->net);
    if (!error_text()) m->classes = classes_of(m->net);
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
    *m = (model){ 0 };
}

class_text model_class(const model *m, ptrdiff_t k)
{
    class_text t;
    if (m->classes && k >= 0 && k < m->classes->count)
        snprintf(t.text, sizeof t.text, "%s", m->classes->name[k]);
    else snprintf(t.text, sizeof t.text, "%td", k);
    return t;
}

void model_softmax(tensor y, double *p)
{
    ptrdiff_t count = y.shape.n[0];
    double most = -INFINITY, sum = 0;
    for (ptrdiff_t k = 0; k < count; k++) most = fmax(most, (double)*tensor_at(y, INDEX(k)));
    for (ptrdiff_t k = 0; k < count; k++) sum += p[k] = exp((double)*tensor_at(y, INDEX(k)) - most);
    for (ptrdiff_t k = 0; k < count; k++) p[k] /= sum;
}
