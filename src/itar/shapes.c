/* The tree of shapes. It stops growing at a limit, or when out of memory. Samples whose
 * shape is not in the tree are odd, which costs time but is still correct. */
#include "itar/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static bool set_capacity(tarn__shapes *s, size_t capacity)
{
    size_t cells = capacity << s->shift;
    uint16_t *next = realloc(s->next, (cells + 1) * sizeof *next);
    if (next) s->next = next;
    uint16_t *place = realloc(s->place, (cells + 1) * sizeof *place);
    if (place) s->place = place;
    uint16_t *rows = realloc(s->rows, capacity * sizeof *rows);
    if (rows) s->rows = rows;
    if (!next || !place || !rows) return false;
    s->capacity = capacity;
    return true;
}

tarn_status tarn__shapes_init(tarn__shapes *s, uint32_t n_fields, tarn_error *err)
{
    *s = (tarn__shapes){.n_fields = n_fields};
    while ((UINT32_C(1) << s->shift) < n_fields)
        s->shift++;
    if (!set_capacity(s, 8)) {
        tarn__shapes_reset(s);
        return tarn__fail_memory(err);
    }
    s->count = 1;
    s->rows[0] = 0;
    memset(s->next, 0, n_fields * sizeof *s->next);
    memset(s->place, 0xff, n_fields * sizeof *s->place);
    return TARN_OK;
}

void tarn__shapes_reset(tarn__shapes *s)
{
    free(s->next);
    free(s->place);
    free(s->rows);
    *s = (tarn__shapes){0};
}

static bool make_room(tarn__shapes *s)
{
    if (s->count == TARN__SHAPE_ODD) return false;
    if (((s->count + 1) << s->shift) > TARN__MAX_SHAPE_CELLS) return false;
    return s->count < s->capacity || set_capacity(s, s->capacity * 2);
}

uint16_t tarn__shapes_add(tarn__shapes *s, uint16_t shape, uint16_t field)
{
    if (s->rows[shape] >= TARN__PLACE_TWICE - 1 || !make_room(s)) return TARN__SHAPE_ODD;
    uint16_t made = (uint16_t)s->count++;
    size_t width = s->n_fields, line = (size_t)made << s->shift;
    size_t from = (size_t)shape << s->shift;
    memset(s->next + line, 0, width * sizeof *s->next);
    memcpy(s->place + line, s->place + from, width * sizeof *s->place);
    uint16_t *place = &s->place[line + field];
    *place = *place == TARN__PLACE_NONE ? s->rows[shape] : TARN__PLACE_TWICE;
    s->rows[made] = (uint16_t)(s->rows[shape] + 1);
    s->next[from + field] = made;
    return made;
}
