/* Which texts have to go through tarn_hide_secrets (tarn/base.h). */
#ifndef TARN_BASE_SECRETS_H
#define TARN_BASE_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

/* tarn_hide_secrets writes at most this much for a text of this length. */
static inline size_t tarn__shown_size(size_t len)
{
    return 2 * len + 16;
}

/* Quick: false for almost all paths and messages. */
bool tarn__may_hold_secrets(const char *text);

#endif
