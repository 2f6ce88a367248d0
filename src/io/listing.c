#include "io/listing.h"
#include <stdlib.h>
#include "base/error.h"
tarn_status tarn__listing_read(tarn__listing *out, const char *prefix, bool deep, tarn_error *err)
{
    *out = (tarn__listing){0}; (void)deep;
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, prefix, TARN_NO_OFFSET, "this store cannot be listed");
}
void tarn__listing_reset(tarn__listing *l) { free(l->objects); free(l->texts); *l = (tarn__listing){0}; }
