/* Numbers for the sets of fields in a fold: samples whose rows have the same fields in
 * the same order have the same shape. A fold has few shapes, however many samples it has.
 * So a question about fields is answered once per shape, and the row of a field is found
 * without reading rows. */
#ifndef TARN_ITAR_SHAPES_H
#define TARN_ITAR_SHAPES_H

#include <tarn/base.h>

#define TARN__SHAPE_ODD   0xffffu /* sample past the limit: check its rows */
#define TARN__PLACE_NONE  0xffffu
#define TARN__PLACE_TWICE 0xfffeu

/* Shapes times fields; further shapes are odd. */
#define TARN__MAX_SHAPE_CELLS (1u << 20)

/* A tree: shape 0 has no rows, and next leads from a shape to the shape with one more
 * row. Both tables have a line per shape, with a cell per field. The length of a line is
 * rounded up to a power of two, because a multiplication per row would be measurable. */
typedef struct tarn__shapes {
    uint32_t n_fields;
    unsigned shift;
    size_t count, capacity;
    uint16_t *next;  /* 0: not seen yet */
    uint16_t *place; /* position of a field in the rows, or TARN__PLACE_NONE or _TWICE */
    uint16_t *rows;  /* number of rows of a shape */
} tarn__shapes;

TARN_CHECKED tarn_status tarn__shapes_init(tarn__shapes *shapes, uint32_t n_fields,
                                           tarn_error *err);
void tarn__shapes_reset(tarn__shapes *shapes);

/* The shape with one more row; field is below n_fields. */
uint16_t tarn__shapes_add(tarn__shapes *shapes, uint16_t shape, uint16_t field);

static inline uint16_t tarn__shapes_step(tarn__shapes *s, uint16_t shape, uint16_t field)
{
    if (shape == TARN__SHAPE_ODD) return TARN__SHAPE_ODD;
    uint16_t next = s->next[((size_t)shape << s->shift) + field];
    return next ? next : tarn__shapes_add(s, shape, field);
}

static inline uint16_t tarn__shapes_place(const tarn__shapes *s, uint16_t shape,
                                          uint32_t field)
{
    return s->place[((size_t)shape << s->shift) + field];
}

#endif
