/* micro.h: a batch that is cut into micro-batches, of which some are at hand.
 *
 * In training a batch of n images may be cut into S micro-batches: s has the images from s n / S on, up to
 * (s + 1) n / S. Layers see one of them at a time, and each one's gradient is summed apart, from zero. A rank of a
 * team has some that follow each other at hand, and runs their images; so what comes of a batch does not depend on
 * who has which.
 *
 * A type whose images are not independent of those of other micro-batches sees all that are at hand, and gathers
 * some numbers of each: layer_type.gathers says how many. */
#ifndef STRIDE_LAYERS_MICRO_H
#define STRIDE_LAYERS_MICRO_H

#include "layers/layer.h"
#include "tensor/team.h"

typedef struct micro {
    int count;         /* of a batch; below 2: it is not cut */
    int first, here;   /* at hand: the first of them, how many */
    const team *team;  /* who has the others; NULL: nobody */
    ptrdiff_t largest; /* images of the largest that there may be: what layers choose their way by; 0: any */
    ptrdiff_t batch;   /* images of the batch at hand, and elsewhere */
} micro;

/* Where micro-batch s of a batch begins. */
ptrdiff_t micro_start(const micro *m, int s);

/* The first image of the k-th at hand, of all images at hand; how many it has. */
ptrdiff_t micro_images(const micro *m, int k, ptrdiff_t *count);

/* ---- a tree ------------------------------------------------------------------------------------------ */

/* From here on batches are cut, in training; the tree was built, and must be built again before it runs. -1 with an
 * error where there is no memory. */
int layer_cut(layer *root, const micro *m);

/* They are no longer; but plans were made for it, until layer_cut says otherwise. */
void layer_uncut(layer *root);
bool layer_is_cut(const layer *root);

/* Before a pass: the images of its batch. */
void layer_cut_batch(layer *root, ptrdiff_t batch);

/* Gradients of the micro-batches at hand [here, parameters]; null where there is one, whose gradients are the
 * tree's. */
tensor layer_cut_gradients(const layer *root);

/* ---- hooks, of a type that gathers ---------------------------------------------------------------------- */

/* What batches are cut into, as far as this pass is concerned: NULL: it is not. */
const micro *layer_micro(const layer *l);

/* Micro-batches at hand, 1 where nothing is cut; and micro_images of the k-th, or all images at hand. */
int layer_micro_here(const layer *l);
ptrdiff_t layer_micro_images(const layer *l, ptrdiff_t images, int k, ptrdiff_t *count);

/* l->grad[i] of the k-th at hand. */
tensor layer_micro_gradient(const layer *l, int i, int k);

/* Room for the numbers of every micro-batch [count, gathers], those at hand from `first` on; and what is at hand of
 * them becomes everyone's. */
double *layer_gathered(const layer *l);
void layer_gather(const layer *l);

/* ---- plans ------------------------------------------------------------------------------------------- */

/* Images that a layer may count on to get together, of a batch of n: on nothing else may it depend how it computes. */
ptrdiff_t layer_planned_images(const layer *l, ptrdiff_t n);

#endif
