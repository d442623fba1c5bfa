// own.hh: what files of both precisions include. The linker keeps one of inline functions of the same name and arguments,
// so arguments of Stride's types have to differ between the precisions; a function without any is static. An owner as
// std::unique_ptr, whose header takes a third of a second to compile.
template <typename T> class owner {
    T *own;

  public:
    explicit owner(T *given) : own(given) {}
    owner(owner &&other) : own(other.own) { other.own = nullptr; }
    owner &operator=(const owner &) = delete;
    ~owner() { st_net_free(own); }
    T *get() const { return own; }
};
using own_net = owner<st_net>;

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
