/* Temporary folders for files that are only needed while a call runs. */
#ifndef TARN_IO_SCRATCH_H
#define TARN_IO_SCRATCH_H

#include <tarn/base.h>

/* Creates a folder in TMPDIR, or in /tmp, with a new name that begins with name. The
 * caller removes it, and frees *out, which is NULL after a failure. */
TARN_CHECKED tarn_status tarn__scratch_make(const char *name, char **out,
                                            tarn_error *err);

#endif
