/* share.c: a clone of the layers, built with the parameters and states of the original. */
#include "nn/share/share.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"

#include <stdlib.h>

int st_layer_build_shared(st_layer *clone, st_shape x, const st_layer *of)
{
    if (!layer_given(clone, "st_layer_build_shared") || !layer_given(of, "st_layer_build_shared")) return -1;
    const st_layer_run *theirs = of->impl->run;
    if (!theirs || theirs->root != of || clone->impl->run)
        return st_error_set("st_layer_build_shared: expected a clone that is not built, of a tree that is");
    st_layer_run *run = array_new("st_layer_build_shared", 1, sizeof *run);
    if (!run) return -1;
    run->shared = true, run->parameters = theirs->parameters, run->states = theirs->states;
    return layer_build_first(clone, x, 0, run);
}

st_net *st_net_share(const st_net *n, ptrdiff_t batch)
{
    if (!n || st_is_null(st_net_parameters(n)) || batch < 1) {
        st_error_set("st_net_share: a batch of %td of a net that is %s; expected at least 1, of a built one",
                     batch,
                     !n             ? "NULL"
                     : n->batch < 1 ? "not built"
                                    : "built");
        return NULL;
    }
    st_layer *root = st_layer_clone(n->root);
    st_net *twin = root ? array_new("st_net_share", 1, sizeof *twin) : NULL;
    st_tensor outputs = twin ? st_tensor_new(st_shape_with_batch(n->output, batch)) : (st_tensor){ 0 };
    if (!st_is_null(outputs) &&
        st_layer_build_shared(root, st_shape_with_batch(n->input, batch), n->root) == 0) {
        *twin = (st_net){ root, n->input, n->output, batch, n->seed, .outputs = outputs };
        return twin;
    }
    st_tensor_free(outputs);
    st_layer_free(root);
    free(twin);
    return NULL;
}
