/* Growable texts, and file names. */
#ifndef TARN_BASE_TEXT_H
#define TARN_BASE_TEXT_H

#include <tarn/base.h>

/* Copies data to text; does nothing if text is NULL. */
TARN_CHECKED tarn_status tarn__text_set(tarn_text *text, const char *data, size_t size,
                                        tarn_error *err);

/* The part after the last slash. */
const char *tarn__base_name(const char *path);

/* Whether a name ends with ending, ignoring case, and has something before it. */
bool tarn__ends_with(const char *name, const char *ending);

#endif
