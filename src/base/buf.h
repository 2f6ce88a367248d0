/* A growable byte buffer with a maximum size. The maximum is set at init, so that no
 * input can make the buffer grow past what its owner planned for. */
#ifndef TARN_BASE_BUF_H
#define TARN_BASE_BUF_H

#include <tarn/base.h>

typedef struct tarn__buf {
    char *data;
    size_t size;
    size_t capacity;
    size_t max;
} tarn__buf;

void tarn__buf_init(tarn__buf *buf, size_t max);
void tarn__buf_reset(tarn__buf *buf);

/* Makes room for extra more bytes after size. TARN_ERR_LIMIT past the maximum. */
TARN_CHECKED tarn_status tarn__buf_reserve(tarn__buf *buf, size_t extra, tarn_error *err);
TARN_CHECKED tarn_status tarn__buf_add(tarn__buf *buf, const void *data, size_t len,
                                       tarn_error *err);

/* Appends formatted text. data stays terminated by a NUL that size does not count. */
TARN_CHECKED tarn_status tarn__buf_printf(tarn__buf *buf, tarn_error *err,
                                          const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Grows *items (item_size bytes each) so that one more fits after count. */
TARN_CHECKED tarn_status tarn__grow(void *items, size_t item_size, size_t count,
                                    size_t *capacity, tarn_error *err);

/* Memory for a large array, on huge pages where the system offers them: touching fresh
 * memory 4 KB at a time costs as much as filling it. Release it with free(). */
void *tarn__big_alloc(size_t size);

#endif
