/* model.c: see model.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/model.h"

#include "examples/stride/kinds.h"
#include "examples/stride/text.h"
#include "nn/files/metadata.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make_names(model *m)
{
    const ptrdiff_t count = m->net->output.rank == 1 ? m->net->output.n[0] : 0;
    m->name = calloc((size_t)count + 1, sizeof *m->name);
    m->shown = calloc((size_t)count + 1, sizeof *m->shown);
    for (ptrdiff_t k = 0; k < count && m->name && m->shown; k++) {
        char number[32];
        snprintf(number, sizeof number, "%td", k);
        const char *name = m->classes ? m->classes->name[k] : number;
        if (!(m->name[k] = strdup(name)) || !(m->shown[k] = text_clean(name))) break;
        if (k + 1 == count) return 0;
    }
    return count ? st_error_set("no memory for the names of %td classes", count) : 0;
}

static void free_names(char **names)
{
    for (char **name = names; name && *name; name++) free(*name);
    free(names);
}

st_net *model_load(const char *path, st_net_load_options o)
{
    char why[ST_ERROR_SIZE];
    if (strcmp(path, MODEL_FILE) == 0 && access(path, F_OK)) {
        st_error_set("no saved net: %s, the default of --model, does not exist; stride train saves it", path);
        return NULL;
    }
    st_net *n = st_net_load_file(path, o);
    if (n || !st_error()) return n;
    snprintf(why, sizeof why, "%s", st_error());
    st_error_clear();
    const int described = st_net_described(path);
    st_error_clear();
    if (described == 0)
        st_error_set(
            "%.200s: tensors without an architecture, as PyTorch saves them; stride train NET --from "
            "%.200s reads them into a network",
            path, path);
    else st_error_set("%s", why);
    return NULL;
}

int model_open(model *m, const char *path, ptrdiff_t batch)
{
    *m = (model){ .net = model_load(path, (st_net_load_options){ .batch = batch }) };
    if (!m->net) return -1;
    const char *trained_by = st_net_metadata(m->net, "loss");
    m->loss = loss_read(trained_by ? trained_by : loss_word(0).text);
    m->one_hot = st_net_metadata(m->net, "one_hot") != NULL;
    m->scale = st_net_normalization(m->net);
    m->target_scale = st_net_target_normalization(m->net);
    if (!st_error()) m->classes = st_net_classes(m->net);
    if (!st_error() && make_names(m) == 0) return 0;
    st_error_within("%.200s: ", path);
    model_close(m);
    return -1;
}

void model_close(model *m)
{
    st_net_free(m->net);
    st_normalization_free(m->scale);
    st_normalization_free(m->target_scale);
    st_class_names_free(m->classes);
    free_names(m->name);
    free_names(m->shown);
    *m = (model){ 0 };
}
