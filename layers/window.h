/* window.h: what layers of images [N, C, H, W] share: their check, padding and windows. */
#ifndef STRIDE_LAYERS_WINDOW_H
#define STRIDE_LAYERS_WINDOW_H

#include "layers/layer.h"

/* Refuses an input that is not [N, C, H, W]: -1 with an error. */
int layer_check_images(const st_layer *l, st_shape x);

/* The geometry of a layer's windows; pairs are height, width. */
typedef struct window {
    int kernel[2], stride[2], dilation[2];
    ptrdiff_t before[2], pad_after[2]; /* padding */
    ptrdiff_t after[2];                /* with what ceil_mode adds */
    ptrdiff_t size[2];                 /* of the image: H, W */
    ptrdiff_t out[2];                  /* windows: OH, OW */
} window;

/* The geometry that a layer's options give; window_plan adds sizes. */
#define WINDOW_OF(o)                                                                                         \
    ((window){ .kernel = { (o)->kernel[0], (o)->kernel[1] },                                                 \
               .stride = { (o)->stride[0], (o)->stride[1] },                                                 \
               .dilation = { (o)->dilation[0], (o)->dilation[1] },                                           \
               .before = { (ptrdiff_t)(o)->padding[0] + (o)->pad_height[0],                                  \
                           (ptrdiff_t)(o)->padding[1] + (o)->pad_width[0] },                                 \
               .pad_after = { (ptrdiff_t)(o)->padding[0] + (o)->pad_height[1],                               \
                              (ptrdiff_t)(o)->padding[1] + (o)->pad_width[1] } })

/* Completes the geometry for images x [N, C, H, W]; -1 with an error if no window fits. */
int window_plan(window *w, const st_layer *l, st_shape x, bool ceil_mode);

/* The same for pooling: a kernel of 0 is the whole axis, a stride of 0 the kernel, and the padding must be
 * less than the dilated kernel. */
int window_plan_pool(window *w, const st_layer *l, st_shape x, bool ceil_mode);

bool window_padded(const window *w);                               /* true: some side has padding */
st_shape window_padded_shape(const window *w, ptrdiff_t channels); /* [C, H + padding, W + padding] */

/* The source of windows of an image [C, H, W]: the image itself, or a copy in the middle of `padded`, whose
 * border is not changed. The adjoint: the target, zeroed, to which gradients of windows are added; and the
 * end, which copies them from `padded` into the image. */
st_tensor window_source(const window *w, st_tensor image, st_tensor padded);
st_tensor window_target(const window *w, st_tensor image, st_tensor padded);
void window_finish(const window *w, st_tensor image, st_tensor padded);

/* All windows of a source or target: [C, OH, OW, KH, KW], a view. */
st_tensor window_view(const window *w, st_tensor source);

/* true: each window is one element of the image, in order. */
bool window_is_identity(const window *w);

#endif
