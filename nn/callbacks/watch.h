/* watch.h: hooks around the hooks of a net's layers, to time or inspect them.
 *
 * While a net is watched, each hook of a layer without children (layers/layer.h) becomes a call of `around`,
 * which must run the hook, and can read its inputs before and its results afterwards:
 *
 *     static void around(const st_watch_call *c, void *context)
 *     {
 *         double began = now();
 *         st_watch_run(c);
 *         ...
 *     }
 *
 * Results are bit-identical to those of an unwatched net. */
#ifndef STRIDE_NN_CALLBACKS_WATCH_H
#define STRIDE_NN_CALLBACKS_WATCH_H

#include "nn/net.h"

ST_API_BEGIN

/* The hooks of st_layer_type. */
typedef enum st_watch_hook { ST_WATCH_FORWARD, ST_WATCH_BACKWARD, ST_WATCH_GRADIENT } st_watch_hook;

/* One call of a hook. */
typedef struct st_watch_call {
    const st_call *c;   /* the chunk of images */
    const st_layer *of; /* the layer */
    int number;         /* the layer's number in st_layer_visit's order */
    const char *path;   /* "3.body.1" */
    st_watch_hook hook;
    st_tensor x, y, dy, dx; /* arguments of the hook; null: not an argument */
} st_watch_call;

/* Called by several threads concurrently, with different images. */
typedef void st_watch_function(const st_watch_call *c, void *context);

typedef struct st_watch st_watch; /* the hooks of a watched net */

/* Until st_watch_end the net, which is built, must not be built again, saved or freed. NULL with an error: no
 * memory, or the net is watched already; st_int8_begin and st_detect_anomaly watch nets, too. */
st_watch *st_watch_begin(st_net *n, st_watch_function *around, void *context);
void st_watch_end(st_watch *w); /* NULL is allowed */

/* Runs the hook. */
void st_watch_run(const st_watch_call *c);

ST_API_END

#endif
