/* message.c: integers take 7 bits a byte, floats four bytes, little-endian; texts and messages their length
 * before them. */
#include "nn/onnx/message.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, BYTES = 2, FOUR_BYTES = 5 }; /* wire types */

static void put(message *m, size_t size, const void *bytes)
{
    if (m->size + size > m->room) {
        const size_t room = 2 * m->room + size + 64;
        unsigned char *grown = realloc(m->at, room);
        if (!grown) st_error_set("no memory for %zu bytes", room);
        if (!grown) return;
        m->at = grown, m->room = room;
    }
    if (size > 0) memcpy(m->at + m->size, bytes, size);
    m->size += size;
}

static void put_varint(message *m, uint64_t value)
{
    unsigned char bytes[10];
    size_t size = 0;
    for (; value > 127; value >>= 7) bytes[size++] = (unsigned char)(value | 128);
    bytes[size++] = (unsigned char)value;
    put(m, size, bytes);
}

static void put_key(message *m, int field, int type)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

void message_element_int(message *m, int64_t value)
{
    put_varint(m, (uint64_t)value);
}

void message_element_float(message *m, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++, bits >>= 8) put(m, 1, &(unsigned char){ bits & 255 });
}

void message_int(message *m, int field, int64_t value)
{
    put_key(m, field, VARINT);
    message_element_int(m, value);
}

void message_float(message *m, int field, float value)
{
    put_key(m, field, FOUR_BYTES);
    message_element_float(m, value);
}

void message_open(message *m, int field, size_t size)
{
    put_key(m, field, BYTES);
    put_varint(m, size);
}

void message_text(message *m, int field, const char *text)
{
    message_open(m, field, strlen(text));
    put(m, strlen(text), text);
}

void message_part(message *m, int field, message *part)
{
    message_open(m, field, part->size);
    put(m, part->size, part->at);
    free(part->at);
    *part = (message){ NULL, 0, 0 };
}
