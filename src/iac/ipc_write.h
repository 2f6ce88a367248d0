/* Writes Arrow IPC streams, with the same bytes as Arrow C++ where those are defined. */
#ifndef TARN_IAC_IPC_WRITE_H
#define TARN_IAC_IPC_WRITE_H

#include "iac/ipc.h"

typedef struct tarn__ipc_writer {
    const struct ArrowSchema *schema; /* owned by the caller */
    tarn__dicts dicts;
    tarn__buf *out;
} tarn__ipc_writer;

/* Appends the schema to out. The schema must stay valid until the stream ends. */
TARN_CHECKED tarn_status tarn__ipc_begin(tarn__ipc_writer *w,
                                         const struct ArrowSchema *schema, tarn__buf *out,
                                         tarn_error *err);
/* Appends a batch: any array of the schema's type, including slices. */
TARN_CHECKED tarn_status tarn__ipc_batch(tarn__ipc_writer *w,
                                         const struct ArrowArray *array, tarn_error *err);
TARN_CHECKED tarn_status tarn__ipc_end(tarn__ipc_writer *w, tarn_error *err);
void tarn__ipc_reset(tarn__ipc_writer *w);

#endif
