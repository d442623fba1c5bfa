/* watch.h: looking over the shoulders of a net's layers while they run.
 *
 * While a net is watched each hook of a layer that holds no others (layers/layer.h) is a call of `around`, which must
 * itself let the hook run, and sees what it was given before, and what it made of it afterwards:
 *
 *     static void around(const watch_call *c, void *context)
 *     {
 *         double began = now();
 *         watch_run(c);
 *         ...
 *     }
 *
 * Results are those of an unwatched net: chunks of images, threads and places are the same. */
#ifndef STRIDE_NN_WATCH_WATCH_H
#define STRIDE_NN_WATCH_WATCH_H

#include "nn/net.h"

#pragma GCC visibility push(default)

/* Of layer_type. */
typedef enum watch_hook { WATCH_FORWARD, WATCH_BACKWARD, WATCH_GRADIENT } watch_hook;

/* One call of a hook. */
typedef struct watch_call {
    const st_call *c; /* the images at hand */
    const layer *of;  /* the layer */
    int number;       /* of the layer, in layer_visit's order */
    const char *path; /* "3.body.1" */
    watch_hook hook;
    tensor x, y, dy, dx; /* what the hook is given; null: what it is not */
} watch_call;

/* Called by several threads at once, with different images. */
typedef void watch_around(const watch_call *c, void *context);

typedef struct watch watch; /* the net's types, put aside */

/* Until watch_end a built net must not be built again, saved or freed. NULL with an error where there is no memory. */
watch *watch_begin(net *n, watch_around *around, void *context);
void watch_end(watch *w); /* NULL is allowed */

/* The hook itself. */
void watch_run(const watch_call *c);

#pragma GCC visibility pop

#endif
