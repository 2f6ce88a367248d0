/* Payload codecs by the names that headers use. */
#ifndef TARN_IAC_PAYLOAD_H
#define TARN_IAC_PAYLOAD_H

#include <tarn/iac.h>

typedef enum tarn__iac_codec {
    IAC_NONE,
    IAC_BROTLI,
    IAC_ZSTD,
    IAC_GZIP,
    IAC_IMAGE, /* jpeg, png, jxl, jpeg2000, jpegls: given out as they are */
    IAC_OTHER  /* a name this library does not know */
} tarn__iac_codec;

/* NULL and "" are IAC_NONE. */
tarn__iac_codec tarn__iac_codec_named(const char *name);

/* The name in memory that stays; "none" for IAC_OTHER. */
const char *tarn__iac_codec_name(tarn__iac_codec codec);

/* Writes the header's codec_params for a level as JSON; returns the length, 0 for none.
 */
size_t tarn__iac_codec_params(tarn__iac_codec codec, int level, char *out, size_t size);

#endif
