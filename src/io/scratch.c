/* scratch.c: temporary folders. */
#include "io/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

tarn_status tarn__scratch_make(const char *name, char **out, tarn_error *err)
{
    const char *tmp = getenv("TMPDIR");
    if (asprintf(out, "%s/%s-XXXXXX", tmp && tmp[0] ? tmp : "/tmp", name) < 0) {
        *out = NULL;
        return tarn__fail_memory(err);
    }
    if (mkdtemp(*out)) return TARN_OK;
    tarn_status status =
        tarn__fail_errno(err, *out, errno, "cannot create a temporary folder");
    free(*out);
    *out = NULL;
    return status;
}
