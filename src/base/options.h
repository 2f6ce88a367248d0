/* Support for callers that were compiled with an older or newer header. Option structs
 * begin with their size, and members past it keep their defaults. For structs that the
 * library fills, the size is the next argument, and nothing is written past it. */
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
                          "invalid options: size is %zu; set the struct up with its "
                          "initialiser (the _INIT macro or the _init function)",
                          given_size);
    memcpy(out, given, given_size < size ? given_size : size);
    return TARN_OK;
}

/* Fills the first size bytes of a caller's struct, if out is not NULL. Members that this
 * library does not know become 0. If filled is NULL, everything becomes 0. */
static inline void tarn__fill_out(void *out, size_t size, const void *filled,
                                  size_t filled_size)
{
    if (!out) return;
    if (filled) memcpy(out, filled, size < filled_size ? size : filled_size);
    if (size > filled_size) memset((char *)out + filled_size, 0, size - filled_size);
}

#define TARN__FILL_ZERO(out, size) tarn__fill_out((out), (size), NULL, 0)
#define TARN__FILL_OUT(out, size, filled)                                                \
    tarn__fill_out((out), (size), &(filled), sizeof(filled))

/* Defines the exported init function of an option struct. size is the caller's size of
 * the struct, which may be smaller or larger than the one known here. */
#define TARN__DEFINE_INIT(type, init)                                                    \
    void type##_init(type *options, size_t size)                                         \
    {                                                                                    \
        type defaults = init;                                                            \
        defaults.size = size;                                                            \
        TARN__FILL_OUT(options, size, defaults);                                         \
    }

/* Declares local options: the defaults, overwritten by what was given. */
#define TARN__OPTIONS(type, name, init, given, err)                                      \
    type name = init;                                                                    \
    TARN_TRY(tarn__options_take(&name, sizeof name, (given), (err)))

#endif
