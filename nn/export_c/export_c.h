/* export_c.h: a trained net as one C file, for programs and machines that have nothing else. */
#ifndef STRIDE_NN_EXPORT_C_EXPORT_C_H
#define STRIDE_NN_EXPORT_C_EXPORT_C_H

#include "nn/data.h"
#include "nn/net.h"

ST_API_BEGIN

/* The sizes of a file's arrays, in bytes. */
typedef struct st_export_c_sizes {
    ptrdiff_t constants, as_float; /* with its options, and if weights were float */
    ptrdiff_t workspace;
} st_export_c_sizes;

/* How a net is written as C. */
typedef struct st_export_c_options {
    const char *name; /* what the file's names begin with: a C identifier of up to 63 bytes; NULL: "model" */

    /* Samples as the net takes them, of which at most 1,024 are used; NULL: weights are float. With it
     * convolutions and dense layers compute with 8-bit integers, and their weights take a quarter: weights
     * are scaled by output channel and the layer's input as a whole, so that the greatest magnitude becomes
     * 127; an input's is the greatest in these samples. Products are added in int32_t and scaled back to
     * float (Jacob et al. 2018, without zero points). */
    const st_dataset *int8;

    st_export_c_sizes *sizes; /* filled in; or NULL */
} st_export_c_options;

/* Writes a built net in inference as one C99 file that needs no library but math.h, allocates nothing and has
 * no global state but constants. It compiles as C++ too. With the name "model" it declares
 *
 *     MODEL_INPUTS, MODEL_OUTPUTS, MODEL_WORKSPACE     floats of one image, of its output, of the workspace
 *     void model_predict(const float input[], float output[]);              the workspace is on the stack
 *     void model_predict_in(const float input[], float output[], float workspace[]);
 *     MODEL_CLASSES, const char *const model_classes[]                      where the net has class names
 *
 * The input is one image before normalisation, the output is in the unit of the targets: what
 * st_net_set_normalization noted is built in. Both functions are reentrant. Numbers are float in either
 * precision of the library.
 *
 * Not supported, with an error that names the layer and its type: poolings of layers/pooling/ other than
 * blur_pool; layers and poolings of your own; parameters that are not finite as float32; tensors of 2^31
 * elements or more. The file is replaced atomically. 0, or -1 with an error, also if one is set already. */
int st_net_export_c(st_net *n, const char *path, st_export_c_options options);

/* Between begin and end a built net computes as its C file with the option int8 does, but for float rounding
 * and the unit of targets, so that its accuracy can be measured. Weights are rounded at the beginning, inputs
 * of convolutions and dense layers whenever they run. st_int8_end restores the weights; before it the net
 * must not be built again, trained, saved or freed. NULL with an error. */
typedef struct st_int8 st_int8;
st_int8 *st_int8_begin(st_net *n, const st_dataset *samples);
void st_int8_end(st_int8 *i); /* NULL is allowed */

ST_API_END

#endif
