// own.hh: what files of both precisions include. The linker keeps one of inline functions of the same name and arguments,
// so arguments of Stride's types have to differ between the precisions; a function without any is static.
#include <memory>

struct own_net_free {
    void operator()(st_net *n) const { st_net_free(n); }
};
using own_net = std::unique_ptr<st_net, own_net_free>;

inline own_net own_net_built(own_net n)
{
    st_net_build(n.get(), 2, 1);
    st_fill(st_net_parameters(n.get()), st_real(0.1));
    return n;
}

static inline own_net own_net_new()
{
    return own_net_built(own_net(st_net_new(ST_SHAPE(3), st_dense(.out_features = 4))));
}
