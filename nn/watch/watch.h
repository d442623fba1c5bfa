/* watch.h: looking over the shoulders of a net's layers while they run.
 *
 * While a net is watched each hook of a layer that holds no others (layers/layer.h) is a call of `around`, which must
 * itself let the hook run, and sees what it was given before, and what it made of it afterwards:
 *
 *     static void around(const st_watch_call *c, void *context)
 *     {
 *         double began = now();
 *         st_watch_run(c);
 *         ...
 *     }
 *
 * Results are those of an unwatched net: chunks of images, threads and places are the same. */
#ifndef STRIDE_NN_WATCH_WATCH_H
#define STRIDE_NN_WATCH_WATCH_H

#include "nn/net.h"

ST_API_BEGIN

/* Of st_layer_type. */
typedef enum st_watch_hook { ST_WATCH_FORWARD, ST_WATCH_BACKWARD, ST_WATCH_GRADIENT } st_watch_hook;

/* One call of a hook. */
typedef struct st_watch_call {
    const st_call *c;   /* the images at hand */
    const st_layer *of; /* the layer */
    int number;         /* of the layer, in st_layer_visit's order */
    const char *path;   /* "3.body.1" */
    st_watch_hook hook;
    st_tensor x, y, dy, dx; /* what the hook is given; null: what it is not */
} st_watch_call;

/* Called by several threads at once, with different images. */
typedef void st_watch_function(const st_watch_call *c, void *context);

typedef struct st_watch st_watch; /* the net's types, put aside */

/* Until st_watch_end a built net must not be built again, saved or freed. NULL with an error where there is no memory. */
st_watch *st_watch_begin(st_net *n, st_watch_function *around, void *context);
void st_watch_end(st_watch *w); /* NULL is allowed */

/* The hook itself. */
void st_watch_run(const st_watch_call *c);

ST_API_END

#endif
