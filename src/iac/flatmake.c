/* The FlatBuffers writer. */
#include "iac/flatmake.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void fm_init(flatmake *m)
{
    memset(m, 0, sizeof *m);
    m->align = 1;
}

void fm_reset(flatmake *m)
{
    free(m->data);
    fm_init(m);
}

/* Makes room for n bytes at the front; NULL once memory ran out. */
static unsigned char *front(flatmake *m, size_t n)
{
    if (m->failed || n > UINT32_MAX / 2 || m->size > UINT32_MAX / 2) {
        m->failed = true;
        return NULL;
    }
    if (m->capacity - m->size < n) {
        size_t capacity = m->capacity ? m->capacity * 2 : 1024;
        while (capacity - m->size < n)
            capacity *= 2;
        unsigned char *data = malloc(capacity);
        if (!data) {
            m->failed = true;
            return NULL;
        }
        if (m->size) memcpy(data + capacity - m->size, fm_data(m), m->size);
        free(m->data);
        m->data = data;
        m->capacity = capacity;
    }
    m->size += n;
    return m->data + (m->capacity - m->size);
}

static void zeros(flatmake *m, size_t n)
{
    unsigned char *to = n ? front(m, n) : NULL;
    if (to) memset(to, 0, n);
}

static void align_to(flatmake *m, size_t end, size_t align)
{
    if (align > m->align) m->align = align;
    zeros(m, (~end + 1) & (align - 1));
}

/* Pads so that the item that begins len bytes further is aligned. Empty items need no
 * padding. */
static void pre_align(flatmake *m, size_t len, size_t align)
{
    if (len) align_to(m, m->size + len, align);
}

static void push(flatmake *m, uint64_t value, size_t width)
{
    align_to(m, m->size, width);
    unsigned char *to = front(m, width);
    if (to) memcpy(to, &value, width);
}

static void push_ref(flatmake *m, flat_ref ref)
{
    align_to(m, m->size, 4);
    push(m, m->size - ref + 4, 4);
}

flat_ref fm_string(flatmake *m, const char *text, size_t len)
{
    pre_align(m, len + 1, 4);
    zeros(m, 1);
    unsigned char *to = front(m, len);
    if (to && len) memcpy(to, text, len);
    push(m, len, 4);
    return (flat_ref)m->size;
}

flat_ref fm_refs(flatmake *m, const flat_ref *refs, size_t count)
{
    pre_align(m, count * 4, 4);
    for (size_t i = count; i > 0; i--)
        push_ref(m, refs[i - 1]);
    push(m, count, 4);
    return (flat_ref)m->size;
}

flat_ref fm_items(flatmake *m, const void *items, size_t count, size_t width,
                  size_t align)
{
    pre_align(m, count * width, 4);
    pre_align(m, count * width, align);
    unsigned char *to = count ? front(m, count * width) : NULL;
    if (to) memcpy(to, items, count * width);
    push(m, count, 4);
    return (flat_ref)m->size;
}

void fm_table(flatmake *m)
{
    memset(m->slots, 0, sizeof m->slots);
    m->table_start = m->size;
}

void fm_field(flatmake *m, unsigned slot, int64_t value, unsigned width,
              int64_t otherwise)
{
    if (value == otherwise) return;
    push(m, (uint64_t)value, width);
    m->slots[slot] = (uint32_t)m->size;
}

void fm_field_ref(flatmake *m, unsigned slot, flat_ref ref)
{
    if (!ref) return;
    push_ref(m, ref);
    m->slots[slot] = (uint32_t)m->size;
}

static unsigned char *at_ref(flatmake *m, size_t ref)
{
    return m->data + (m->capacity - ref);
}

/* The position of an equal vtable, or of this one, which is at the front. */
static uint32_t share_vtable(flatmake *m, size_t table)
{
    unsigned char *mine = at_ref(m, m->size);
    unsigned len = tarn__get16(mine);
    for (size_t i = 0; i < m->n_vtables; i++)
        if (tarn__get16(at_ref(m, m->vtables[i])) == len &&
            memcmp(at_ref(m, m->vtables[i]), mine, len) == 0) {
            m->size = table;
            return m->vtables[i];
        }
    if (m->n_vtables < sizeof m->vtables / sizeof m->vtables[0])
        m->vtables[m->n_vtables++] = (uint32_t)m->size;
    return (uint32_t)m->size;
}

flat_ref fm_table_end(flatmake *m)
{
    unsigned used = 0;
    push(m, 0, 4);
    size_t table = m->size;
    for (unsigned i = 0; i < 8; i++)
        if (m->slots[i]) used = i + 1;
    unsigned len = 4 + 2 * used;
    unsigned char *v = front(m, len);
    if (!v) return 0;
    tarn__put16(v, (uint16_t)len);
    tarn__put16(v + 2, (uint16_t)(table - m->table_start));
    for (unsigned i = 0; i < used; i++)
        tarn__put16(v + 4 + 2 * i, m->slots[i] ? (uint16_t)(table - m->slots[i]) : 0);
    uint32_t vtable = share_vtable(m, table);
    tarn__put32(at_ref(m, table), (uint32_t)(int32_t)((int64_t)vtable - (int64_t)table));
    return (flat_ref)table;
}

bool fm_finish(flatmake *m, flat_ref root)
{
    pre_align(m, 4, m->align);
    push_ref(m, root);
    return !m->failed;
}
