/* json.h: JSON read where it stands.
 *
 *     json_walk w = json_begin(text, '{');
 *     while (json_next(&w)) use(w.name, w.value);
 *     if (w.why[0]) error_set("%s, byte %td", w.why, w.at - text.at);
 *
 * Of an object or a list no tree is made, whose memory is many times the text's: its members come as the pieces of text
 * that they are, to be gone through in turn, and only what is small becomes a value of jansson's. What is between the
 * pieces is checked on the way, a piece by whoever reads it. */
#ifndef STRIDE_NN_FILES_JSON_H
#define STRIDE_NN_FILES_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* One value as it is written, without blanks around it; a text with its quotes. */
typedef struct json_piece {
    const char *at;
    size_t size;
} json_piece;

typedef struct json_walk {
    json_piece name, value; /* the member at hand; elements of a list have no name */
    const char *at, *end;   /* what is left; where something is wrong, that place */
    char why[128];          /* what is wrong; "": nothing */
    char closing;           /* the bracket it ends with */
    bool within;            /* behind the first member */
} json_walk;

/* Through an object, '{', or a list, '['; blanks may stand around it, and nothing else. */
json_walk json_begin(json_piece text, char opening);
bool json_next(json_walk *w); /* false at the end, and where something is wrong */

/* Its members or elements; -1 where it is not what opening says, or not written as JSON. */
ptrdiff_t json_count(json_piece text, char opening);

/* What a text says, in UTF-8 and ended by a 0, which takes at most the bytes it is written in: `to` may be where it
 * stands, or before. False where it is none; w then says why. */
bool json_text(json_walk *w, json_piece text, char *to);
bool json_says(json_piece text, const char *expected);

/* A value of at most so many bytes, the caller's; NULL where it is not one, and w says why. */
enum { JSON_LEAF = 1 << 13 };
json_t *json_leaf(json_walk *w, json_piece value);

/* A piece, or the beginning of one, fit for a message. */
typedef struct json_shown {
    char text[80];
} json_shown;
json_shown json_show(json_piece value);
json_shown json_show_text(json_piece text); /* without its quotes */

#endif
