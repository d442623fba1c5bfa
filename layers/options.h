/* options.h: structs of options, each described by a table of fields.
 *
 * Defaults, validation, messages, the summary and the file format all come from the table. An option that is
 * 0 takes its default; ST_ZERO and ST_ZERO_INT are the value 0:
 *
 *     st_leaky_relu(.slope = ST_ZERO)                         a slope of 0, not the default 0.01
 *     st_conv2d(…, .padding = { 1, ST_ZERO_INT })             no padding of the width, not { 1, 1 } */
#ifndef STRIDE_LAYERS_OPTIONS_H
#define STRIDE_LAYERS_OPTIONS_H

#include "tensor/api.h"

#include <stdbool.h>
#include <stddef.h>

ST_API_BEGIN

/* The number 0 for an option of type double whose default is another number: a negative zero, which computes
 * as 0. */
#define ST_ZERO (-0.0)

/* The same for an int or a number of a pair. Resolved options hold a plain 0 instead. */
#define ST_ZERO_INT (-2147483647 - 1)

/* The type of an option's member. */
typedef enum st_field_kind {
    ST_FIELD_INT,    /* int */
    ST_FIELD_PAIR,   /* int[2]: height, width */
    ST_FIELD_REAL,   /* double */
    ST_FIELD_BOOL,   /* bool */
    ST_FIELD_CHOICE, /* an enum that counts from 0; `choices` names its values */
    ST_FIELD_NAMED   /* a pointer to a struct whose first member is its name, a const char * */
} st_field_kind;

/* One option: its name, type, default and range. */
typedef struct st_field {
    const char *name;
    st_field_kind kind;
    size_t offset;              /* offsetof(options, name) */
    double fallback;            /* the default of an INT, PAIR or REAL that is 0 */
    double least, below;        /* accepted: least <= value < below; below 0: no upper bound */
    const char *const *choices; /* CHOICE: names, ended by NULL */
    bool square;                /* PAIR: a second number of 0 repeats the first, { 3 } is 3x3 */
} st_field;

/* The options of any kind, kept by value. */
typedef union st_option_bytes {
    double number;
    void *pointer;
    unsigned char bytes[192];
} st_option_bytes;

/* Fills in the defaults of an options struct and checks every field, once: { 1, 0 } that is resolved becomes
 * { 1, 1 } if it is resolved again. `fields` ends with a field without a name; NULL is an empty table. -1
 * with an error "who: name is value, expected range". */
int st_options_resolve(const char *who, const st_field *fields, void *options);

/* The field of that name; NULL: there is none. */
const st_field *st_options_field(const st_field *fields, const char *name);

/* The INT, REAL, BOOL or CHOICE option of that name as a number; 0: there is none. */
double st_options_number(const st_field *fields, const void *options, const char *name);

ST_API_END

/* A field's name, kind and place: { ST_FIELD(INT, my_options, groups), .fallback = 1, .least = 1 }. */
#define ST_FIELD(KIND, OPTIONS, NAME) #NAME, ST_FIELD_##KIND, offsetof(OPTIONS, NAME)

#endif
