/* window.h: what convolution and pooling share: padding, windows, im2col and its adjoint col2im. */
#ifndef STRIDE_LAYERS_WINDOW_H
#define STRIDE_LAYERS_WINDOW_H

#include "layers/layer.h"

/* Where the windows of one layer lie; pairs are height, width. */
typedef struct window {
    ptrdiff_t size[2]; /* of the image: H, W */
    int kernel[2], stride[2], dilation[2];
    ptrdiff_t before[2], after[2]; /* padding; `after` is more than asked where ceil_mode hangs over */
    ptrdiff_t out[2];              /* windows: OH, OW */
} window;

/* The geometry over images of x [N, C, H, W]; -1 with an error where no window fits. */
int window_plan(window *w, const st_layer *l, st_shape x, const int kernel[2], const int stride[2],
                const int padding[2], const int dilation[2], bool ceil_mode);

/* The same for pooling options: a kernel of 0 is the whole image, a stride of 0 the kernel, and the
 * padding must leave every window something to see. */
int window_plan_pool(window *w, const st_layer *l, st_shape x, const int kernel[2], const int stride[2],
                     const int padding[2], const int dilation[2], bool ceil_mode);

bool window_padded(const window *w);                               /* is there padding on any side? */
st_shape window_padded_shape(const window *w, ptrdiff_t channels); /* [C, H + padding, W + padding] */

/* An image [C, H, W] ready for windows: itself, or copied into the middle of `padded`, whose border is
 * left as it is. The adjoint: where gradients of windows are to be added, zeroed; and the end of it,
 * which brings them from `padded` into the image. */
st_tensor window_source(const window *w, st_tensor image, st_tensor padded);
st_tensor window_target(const window *w, st_tensor image, st_tensor padded);
void window_finish(const window *w, st_tensor image, st_tensor padded);

/* All windows of a source or target: [C, OH, OW, KH, KW], a view. */
st_tensor window_view(const window *w, st_tensor source);

/* Whether there is one window for each element, and it is that element. */
bool window_is_identity(const window *w);

/* columns [C, KH, KW, OH, OW] = windows of the image; and image = their sum back in place. */
void window_im2col(const window *w, st_tensor columns, st_tensor image, st_tensor padded);
void window_col2im(const window *w, st_tensor image, st_tensor columns, st_tensor padded);

#endif
