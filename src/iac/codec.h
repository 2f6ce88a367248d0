/* Payload codecs by the names packs use. */
#ifndef TARN_IAC_CODEC_H
#define TARN_IAC_CODEC_H

#include <tarn/iac.h>

/* The header's word, or NULL for those that are not written by us. */
const char *tarn__iac_codec_name(tarn_iac_codec codec);

/* Writes the header's codec_params for a level as JSON; returns the length, 0 for none.
 */
size_t tarn__iac_codec_params(tarn_iac_codec codec, int level, char *out, size_t size);

#endif
