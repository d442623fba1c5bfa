/* message.h: messages in the encoding of protocol buffers: fields one after the other, each a key, number << 3 |
 * wire type, and a value. https://protobuf.dev/programming-guides/encoding/
 *
 * If memory runs out the error is set, and the message is incomplete: it is checked once, at the end. */
#ifndef STRIDE_NN_ONNX_MESSAGE_H
#define STRIDE_NN_ONNX_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct message {
    unsigned char *at; /* to be freed */
    size_t size, room;
} message;

void message_int(message *m, int field, int64_t value);
void message_float(message *m, int field, float value);
void message_text(message *m, int field, const char *text);

/* A field whose value is a message, which is freed and becomes empty. */
void message_part(message *m, int field, message *part);

/* The elements of a packed field, without its key: a part of the message that has the field. */
void message_element_int(message *m, int64_t value);
void message_element_float(message *m, float value);

/* The key and the length of a field of `size` bytes, which the caller writes. */
void message_open(message *m, int field, size_t size);

#endif
