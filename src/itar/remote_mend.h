/* Repairs the copy of a remote index in a cache while it is in use. */
#ifndef TARN_ITAR_REMOTE_MEND_H
#define TARN_ITAR_REMOTE_MEND_H

#include "io/cache_index.h"
#include "itar/index.h"

/* From now on, pages of this index that are found to be damaged are fetched from urls
 * again, and written into the files of the version. Nothing is attached if the index has
 * no sums: then it was checked as a whole. */
TARN_CHECKED tarn_status tarn__mend_attach(tarn_index *index,
                                           const char *const urls[TARN__VERSION_FILES],
                                           const tarn__version *version, tarn_error *err);

#endif
