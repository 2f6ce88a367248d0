/* The table of filters. */
#include "io/filter.h"

#include <string.h>
#include <strings.h>

static const tarn__filter *const filters[] = {
    &tarn__filter_gzip, &tarn__filter_bzip2, &tarn__filter_xz,
    &tarn__filter_zstd, &tarn__filter_lzma,
};
enum { FILTERS = sizeof filters / sizeof filters[0] };

tarn__match tarn__magic(const unsigned char *data, size_t size, const void *magic,
                        size_t len)
{
    size_t n = size < len ? size : len;
    if (n && memcmp(data, magic, n) != 0) return TARN__MATCH_NO;
    return n == len ? TARN__MATCH_YES : TARN__MATCH_CUT;
}

const tarn__filter *tarn__filter_by_suffix(const char *name, size_t len)
{
    for (size_t i = 0; i < FILTERS; i++) {
        for (const char *const *s = filters[i]->suffixes; s && *s; s++) {
            size_t n = strlen(*s);
            if (len > n && strncasecmp(name + len - n, *s, n) == 0) return filters[i];
        }
    }
    return NULL;
}

const tarn__filter *tarn__filter_by_id(tarn_filter id)
{
    for (size_t i = 0; i < FILTERS; i++)
        if (filters[i]->id == id && filters[i]->encode) return filters[i];
    return NULL;
}

const tarn__filter *tarn__filter_by_magic(const unsigned char *data, size_t size,
                                          const tarn__filter **out_cut)
{
    *out_cut = NULL;
    for (size_t i = 0; i < FILTERS; i++) {
        tarn__match match = filters[i]->match(data, size);
        if (match == TARN__MATCH_YES) return filters[i];
        if (match == TARN__MATCH_CUT && !*out_cut) *out_cut = filters[i];
    }
    return NULL;
}
