/* Writes FlatBuffers from the end to the beginning, as the C++ library does, with the
 * same order, padding and sharing of vtables, so that a schema has the same bytes as one
 * written by Arrow C++. A failed allocation is remembered and reported by fm_finish. */
#ifndef TARN_IAC_FLATMAKE_H
#define TARN_IAC_FLATMAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct flatmake {
    unsigned char *data;
    size_t size, capacity; /* the data is the last size bytes of capacity */
    size_t align;          /* the largest alignment requested */
    uint32_t vtables[64];  /* positions of vtables that can be shared */
    size_t n_vtables;
    size_t table_start;
    uint32_t slots[8]; /* of the table being built; 0 for none */
    bool failed;
} flatmake;

/* An item is identified by its distance from the end. */
typedef uint32_t flat_ref;

void fm_init(flatmake *m);
void fm_reset(flatmake *m);

flat_ref fm_string(flatmake *m, const char *text, size_t len);
flat_ref fm_refs(flatmake *m, const flat_ref *refs, size_t count);
/* Items of width bytes, aligned to align. */
flat_ref fm_items(flatmake *m, const void *items, size_t count, size_t width,
                  size_t align);

void fm_table(flatmake *m);
/* Omits the field if it has its default value, as FlatBuffers do. */
void fm_field(flatmake *m, unsigned slot, int64_t value, unsigned width,
              int64_t otherwise);
void fm_field_ref(flatmake *m, unsigned slot,
                  flat_ref ref); /* omits the field if ref is 0 */
flat_ref fm_table_end(flatmake *m);

/* Makes root the root of the message, which is then the last m->size bytes of m->data.
 * False if memory ran out. */
bool fm_finish(flatmake *m, flat_ref root);

static inline const unsigned char *fm_data(const flatmake *m)
{
    return m->data + (m->capacity - m->size);
}

#endif
