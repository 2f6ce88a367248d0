/* Payload codecs by the names used in headers. */
#ifndef TARN_IAC_PAYLOAD_H
#define TARN_IAC_PAYLOAD_H

#include <tarn/iac.h>

typedef enum tarn__iac_codec {
    IAC_NONE,
    IAC_BROTLI,
    IAC_ZSTD,
    IAC_GZIP,
    IAC_IMAGE, /* jpeg, png, jxl, jpeg2000, jpegls: returned as stored */
    IAC_OTHER  /* a name unknown to this library */
} tarn__iac_codec;

/* NULL and "" mean IAC_NONE. */
tarn__iac_codec tarn__iac_codec_named(const char *name);

/* A static name; "none" for IAC_OTHER. */
const char *tarn__iac_codec_name(const char *name);

/* Writes the codec_params of the header for a level as JSON; returns the length, 0 for
 * none. */
size_t tarn__iac_codec_params(tarn__iac_codec codec, int level, char *out, size_t size);

#endif
