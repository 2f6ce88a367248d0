/* Rows of a table in another order. */
#ifndef TARN_IAC_TAKE_H
#define TARN_IAC_TAKE_H

#include <tarn/arrow.h>
#include <tarn/base.h>

/* Rows of a table that comes as a stream, one behind the other, any of them more than
 * once: one batch of the same schema. The stream stays the caller's. TARN_ERR_UNSUPPORTED
 * for unions and run-end encoded columns. */
TARN_CHECKED tarn_status tarn__iac_take(struct ArrowArrayStream *from,
                                        const uint64_t *rows, size_t count,
                                        struct ArrowArrayStream *out, tarn_error *err);

#endif
