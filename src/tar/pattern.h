/* Names with a number in them: "x_%06d.tar". */
#ifndef TARN_TAR_PATTERN_H
#define TARN_TAR_PATTERN_H

#include "base/buf.h"

typedef struct tarn__pattern {
    char *before, *after; /* "%%" is one percent sign here */
    unsigned width;
} tarn__pattern;

/* Requires exactly one %d or %0Nd. The pattern is never passed to a shell or to
 * printf. */
TARN_CHECKED tarn_status tarn__pattern_take(tarn__pattern *pattern, const char *text,
                                            tarn_error *err);
void tarn__pattern_reset(tarn__pattern *pattern);

/* The name with a number, NUL-terminated in out. */
TARN_CHECKED tarn_status tarn__pattern_fill(const tarn__pattern *pattern, uint64_t number,
                                            tarn__buf *out, tarn_error *err);

#endif
