/* Texts that grow, and names of files. */
#ifndef TARN_BASE_TEXT_H
#define TARN_BASE_TEXT_H

#include <tarn/base.h>

/* A copy of data in text; nothing if text is NULL. */
TARN_CHECKED tarn_status tarn__text_set(tarn_text *text, const char *data, size_t size,
                                        tarn_error *err);

/* What follows the last slash. */
const char *tarn__base_name(const char *path);

/* Whether a name has this ending, in any case, and something before it. */
bool tarn__ends_with(const char *name, const char *ending);

#endif
