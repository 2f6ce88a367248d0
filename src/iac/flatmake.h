/* Writing FlatBuffers, from the end to the beginning as their C++ library does, with the
 * same order, padding and sharing of vtables, so that a schema comes out in the same
 * bytes as Arrow C++ writes it. A failed allocation is kept and told by fm_finish. */
#ifndef TARN_IAC_FLATMAKE_H
#define TARN_IAC_FLATMAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct flatmake {
    unsigned char *data;
    size_t size, capacity; /* the bytes are the last size of capacity */
    size_t align;          /* the largest asked for */
    uint32_t vtables[64];  /* where those that may be shared are */
    size_t n_vtables;
    size_t table_start;
    uint32_t slots[8]; /* of the table that is being made; 0 for none */
    bool failed;
} flatmake;

/* What is made is known by its distance from the end. */
typedef uint32_t flat_ref;

void fm_init(flatmake *m);
void fm_reset(flatmake *m);

flat_ref fm_string(flatmake *m, const char *text, size_t len);
flat_ref fm_refs(flatmake *m, const flat_ref *refs, size_t count);
/* Items of width bytes that are to be aligned to align. */
flat_ref fm_items(flatmake *m, const void *items, size_t count, size_t width,
                  size_t align);

void fm_table(flatmake *m);
/* A field is left out when it has its default, as FlatBuffers do. */
void fm_field(flatmake *m, unsigned slot, int64_t value, unsigned width,
              int64_t otherwise);
void fm_field_ref(flatmake *m, unsigned slot, flat_ref ref); /* none if 0 */
flat_ref fm_table_end(flatmake *m);

/* Makes root the root. The message is then the last m->size bytes of m->data; false if
 * memory ran out. */
bool fm_finish(flatmake *m, flat_ref root);

static inline const unsigned char *fm_data(const flatmake *m)
{
    return m->data + (m->capacity - m->size);
}

#endif
