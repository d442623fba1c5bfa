/* page.h: a page in one file, which needs nothing else: page.html with its style, its script, and JSON that
 * the script shows.
 *
 *     { "title": "…", "compared": false,
 *       "facts": [["date", "…"], …], "network": "…", "parameters": 5994, "flops": 645120,
 *       "runs": [{ "name": "a.csv", "of": 10, "count": 10, "every": 1, "best": 7, "validated": true,
 *                  "epochs": [[epoch, loss, accuracy, validation loss and accuracy, rate, seconds], …] }],
 *       "scores": { "samples", "loss", "accuracy",
 *                   "classes": [{ "name", "samples", "precision", "recall" }],
 *                   "confusion": [[class, predicted, samples], …],
 *                   "confused": the same, of the most frequent mistakes },
 *       "mistakes": [{ "sample", "file", "truth", "predicted", "confidence", "image" }],
 *       "filters": { "count", "size": [5, 5], "channels", "images" },
 *       "times": { "batch", "forward", "backward" },
 *       "layers": [{ "depth", "name", "type", "options", "output", "parameters", "flops", "forward",
 *                    "backward" }] }
 *
 * Sections that are missing are not shown; a number that is null is not known. */
#ifndef STRIDE_EXAMPLES_STRIDE_PAGE_H
#define STRIDE_EXAMPLES_STRIDE_PAGE_H

#include "tensor/tensor.h"

#include <jansson.h>

/* Replaces the file atomically; takes the JSON, NULL after an error. 0, or -1 with an error. */
int page_write(const char *path, json_t *data);

/* Writes JSON that may stand inside of <script>, and a line end: a writer of st_file_replace. */
int page_put_json(FILE *to, const void *data);

/* A text; control characters and bytes that are not UTF-8 become U+FFFD. A number; null unless finite. */
json_t *page_text(const char *text);
json_t *page_number(double value);

/* { "width", "height", "channels": 1 or 3, "pixels": bytes in base64 } of an image [C, H, W], from `low`
 * (dark) to `high` (bright). Three channels are colours, of any other number the mean is shown. Larger images
 * are averaged down to 96 pixels a side. null for another shape. */
json_t *page_image(st_tensor image, double low, double high);

/* Appends to a list and takes the value; NULL, or no memory, is an error. */
void page_add(json_t *list, json_t *value);

#endif
