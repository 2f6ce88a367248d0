/* Structs of callers that were compiled with an older or newer header. Options begin with
 * their size, and members past it keep their defaults. Structs that the library fills
 * come with their size as the next argument, and nothing is written past it. */
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

/* Fills a struct of the caller's, if there is one: its first size bytes, with zeros in
 * members that this library does not know. Of NULL, all is zero. */
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

/* Defines the exported init function of an option struct. The struct's own size is the
 * caller's, which may be smaller or larger than the one known here. */
#define TARN__DEFINE_INIT(type, init)                                                    \
    void type##_init(type *options, size_t size)                                         \
    {                                                                                    \
        type defaults = init;                                                            \
        defaults.size = size;                                                            \
        TARN__FILL_OUT(options, size, defaults);                                         \
    }

/* Declares local options: the defaults, then what was given. */
#define TARN__OPTIONS(type, name, init, given, err)                                      \
    type name = init;                                                                    \
    TARN_TRY(tarn__options_take(&name, sizeof name, (given), (err)))

#endif
