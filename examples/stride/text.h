/* text.h: text from files, paths and command lines, made safe to show. */
#ifndef STRIDE_EXAMPLES_STRIDE_TEXT_H
#define STRIDE_EXAMPLES_STRIDE_TEXT_H

#include <stdio.h>

/* Bytes of the printable UTF-8 character that begins here (RFC 3629); 0 for anything else: a control
 * character, C0 or C1, or a byte that is not UTF-8. */
int text_character(const char *text);

/* Prints text on a terminal: bytes that are not of a printable character as \x1b. */
void text_put(FILE *to, const char *text);

/* The text that text_put prints, in new memory; NULL, with an error, if there is none. */
char *text_clean(const char *text);

#endif
