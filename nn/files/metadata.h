/* metadata.h: short texts by name that are saved with a net, such as the normalisation of its input. */
#ifndef STRIDE_NN_FILES_METADATA_H
#define STRIDE_NN_FILES_METADATA_H

#include "nn/net.h"

ST_API_BEGIN

/* Copies both; replaces the text of that name; a NULL text removes it. */
int st_net_set_metadata(st_net *n, const char *name, const char *text);

const char *st_net_metadata(const st_net *n, const char *name); /* NULL: no such name */

ST_API_END

#endif
