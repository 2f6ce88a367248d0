/* Which keys and fields may be written: those that every reader returns unchanged. */
#ifndef TARN_TAR_RULES_H
#define TARN_TAR_RULES_H

#include <tarn/write.h>

TARN_CHECKED tarn_status tarn__check_key(tarn_name_rules rules, const char *key,
                                         size_t len, tarn_error *err);

/* Also checks that no two fields are equal in lower case. */
TARN_CHECKED tarn_status tarn__check_fields(tarn_name_rules rules, const char *key,
                                            const tarn_field *fields, size_t count,
                                            tarn_error *err);

#endif
