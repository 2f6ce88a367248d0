/* Taking in an option struct of a caller who may have been compiled with an older,
 * shorter one: the struct's first member is its size, and what lies past it keeps the
 * default. */
#ifndef TARN_BASE_OPTIONS_H
#define TARN_BASE_OPTIONS_H

#include <string.h>

#include "base/error.h"

static inline tarn_status tarn__options_take(void *out, size_t size, const void *given,
                                             tarn_error *err)
{
    size_t given_size;
    if (!given) return TARN_OK;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > 65536)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "options that were not made with their initialiser");
    memcpy(out, given, given_size < size ? given_size : size);
    return TARN_OK;
}

/* Declares local options: the defaults, then what was given. */
#define TARN__OPTIONS(type, name, init, given, err)                                      \
    type name = init;                                                                    \
    TARN_TRY(tarn__options_take(&name, sizeof name, (given), (err)))

#endif
