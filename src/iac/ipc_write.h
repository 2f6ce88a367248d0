/* Writes Arrow IPC streams, in the bytes Arrow C++ gives them where that is defined. */
#ifndef TARN_IAC_IPC_WRITE_H
#define TARN_IAC_IPC_WRITE_H

#include "iac/ipc.h"

typedef struct tarn__ipc_writer {
    const struct ArrowSchema *schema; /* the caller's */
    tarn__dicts dicts;
    tarn__buf *out;
} tarn__ipc_writer;

/* Appends the schema to out. The schema is used until the end. */
TARN_CHECKED tarn_status tarn__ipc_begin(tarn__ipc_writer *w,
                                         const struct ArrowSchema *schema, tarn__buf *out,
                                         tarn_error *err);
/* A batch: any array of the schema's type, also a slice. */
TARN_CHECKED tarn_status tarn__ipc_batch(tarn__ipc_writer *w,
                                         const struct ArrowArray *array, tarn_error *err);
TARN_CHECKED tarn_status tarn__ipc_end(tarn__ipc_writer *w, tarn_error *err);
void tarn__ipc_reset(tarn__ipc_writer *w);

#endif
