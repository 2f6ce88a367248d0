/* Patterns of shard names. */
#include "tar/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_WIDTH = 20 };

/* The width in %d or %0Nd at text, and its length in *out_len; -1 if it is neither. */
static int directive_width(const char *text, size_t *out_len)
{
    size_t at = 1, width = 0;
    if (text[at] == '0')
        for (at++; text[at] >= '0' && text[at] <= '9' && width <= MAX_WIDTH; at++)
            width = 10 * width + (size_t)(text[at] - '0');
    if (text[at] != 'd' || width > MAX_WIDTH) return -1;
    *out_len = at + 1;
    return (int)width;
}

static tarn_status refuse_pattern(const char *text, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_USAGE,
                      "%s must contain the shard's number exactly once, as %%d or %%06d",
                      TARN__SHOW(text, strlen(text)));
}

tarn_status tarn__pattern_take(tarn__pattern *p, const char *text, tarn_error *err)
{
    size_t size = strlen(text) + 1, len = 0, used = 0;
    bool found = false;
    *p = (tarn__pattern){calloc(1, size), calloc(1, size), 0};
    if (!p->before || !p->after) return tarn__fail_memory(err);
    char *out = p->before;
    for (const char *at = text; *at; at += len) {
        len = 1;
        if (*at == '%' && at[1] == '%') {
            len = 2;
        } else if (*at == '%') {
            int width = directive_width(at, &len);
            if (width < 0 || found) return refuse_pattern(text, err);
            found = true;
            p->width = (unsigned)width;
            out = p->after;
            used = 0;
            continue;
        }
        out[used++] = *at;
    }
    return found ? TARN_OK : refuse_pattern(text, err);
}

void tarn__pattern_reset(tarn__pattern *p)
{
    free(p->before);
    free(p->after);
    *p = (tarn__pattern){0};
}

tarn_status tarn__pattern_fill(const tarn__pattern *p, uint64_t number, tarn__buf *out,
                               tarn_error *err)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%0*" PRIu64, (int)p->width, number);
    out->size = 0;
    TARN_TRY(tarn__buf_add(out, p->before, strlen(p->before), err));
    TARN_TRY(tarn__buf_add(out, digits, (size_t)len, err));
    return tarn__buf_add(out, p->after, strlen(p->after) + 1, err);
}
