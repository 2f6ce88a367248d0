/* Rows of a table in another order. */
#ifndef TARN_IAC_TAKE_H
#define TARN_IAC_TAKE_H

#include "iac/table.h"

/* Rows of a table, in the given order and with repetitions if wanted, as a stream of one
 * batch of the same schema. TARN_ERR_UNSUPPORTED for run-end encoded columns. */
TARN_CHECKED tarn_status tarn__iac_take(tarn__table *table, const uint64_t *rows,
                                        size_t count, struct ArrowArrayStream *out,
                                        tarn_error *err);

#endif
