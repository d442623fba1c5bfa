/* download.h: a file from the network, by the curl or wget that most machines have. */
#ifndef STRIDE_EXAMPLES_DOWNLOAD_H
#define STRIDE_EXAMPLES_DOWNLOAD_H

#include <stdbool.h>

/* Why it failed, in one line. */
typedef struct reason {
    char text[256];
} reason;

/* Writes what is at the URL to the file descriptor `to`. Quiet; gives up where nothing comes for a few
 * seconds. False, with the reason, where it fails; what was written then is of no use. */
bool download(const char *url, int to, reason *why);

#endif
