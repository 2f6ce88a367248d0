/* Which fields the samples of a fold have, as numbers: two samples whose rows have the
 * same fields in the same order are of one shape. A fold has a handful of shapes however
 * many samples it has, so a question about fields is answered once for each shape, and
 * the row of a field is found without looking at the rows. */
#ifndef TARN_ITAR_SHAPES_H
#define TARN_ITAR_SHAPES_H

#include <tarn/base.h>

#define TARN__SHAPE_ODD   0xffffu /* of a sample past the limit: look at its rows */
#define TARN__PLACE_NONE  0xffffu
#define TARN__PLACE_TWICE 0xfffeu

/* Shapes times fields; what is past it is odd. */
#define TARN__MAX_SHAPE_CELLS (1u << 20)

/* A tree: shape 0 is no row at all, and next leads from a shape to the one with one more
 * row. Both tables have a line for each shape, with a cell for each field and some more:
 * lines are a power of two apart, because a multiplication for each row can be felt. */
typedef struct tarn__shapes {
    uint32_t n_fields;
    unsigned shift;
    size_t count, capacity;
    uint16_t *next;  /* 0: not met so far */
    uint16_t *place; /* of a field among the rows, or TARN__PLACE_NONE or _TWICE */
    uint16_t *rows;  /* how many a shape has */
} tarn__shapes;

TARN_CHECKED tarn_status tarn__shapes_init(tarn__shapes *shapes, uint32_t n_fields,
                                           tarn_error *err);
void tarn__shapes_reset(tarn__shapes *shapes);

/* The shape of one with a row more; field is below n_fields. */
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
