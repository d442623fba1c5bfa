/* subject.c: the network that a subcommand is about: an operand, --net or --model (commands.h). */
#include "examples/stride/commands.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"

int net_check(const subcommand *c, const net_options *o)
{
    if (o->net && o->model) return subcommand_refuse(c, "a network is given more than once");
    if (o->net || o->model) return 0;
    return subcommand_refuse(c, "no network: a saved net, a file, or a text such as 'dense 10'");
}

st_net *net_given(const net_options *o, ptrdiff_t batch, uint64_t seed)
{
    const st_net_load_options options = { .batch = batch, .plan_only = batch == 0 };
    if (o->model) return model_load(o->model, options);
    st_shape s = { 0 };
    if (o->input && network_size(o->input, &s)) {
        st_error_within("--input: ");
        return NULL;
    }
    st_net *n = network_read(o->net, s);
    if (!n || batch == 0 || st_net_build(n, batch, seed) == 0) return n;
    st_net_free(n);
    return NULL;
}
