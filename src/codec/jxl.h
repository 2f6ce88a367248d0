/* libjxl, loaded when the first JPEG XL image needs it: programs without such images do
 * not need the library. Only functions that are the same in libjxl 0.7 to 0.11 are used.
 */
#ifndef TARN_CODEC_JXL_H
#define TARN_CODEC_JXL_H

#include <jxl/decode.h>
#include <jxl/encode.h>

#include <tarn/base.h>

#define TARN__JXL_FUNCTIONS(X)                                                           \
    X(DecoderVersion)                                                                    \
    X(DecoderCreate)                                                                     \
    X(DecoderReset)                                                                      \
    X(DecoderDestroy)                                                                    \
    X(DecoderSubscribeEvents)                                                            \
    X(DecoderSetUnpremultiplyAlpha)                                                      \
    X(DecoderSetInput)                                                                   \
    X(DecoderReleaseInput)                                                               \
    X(DecoderProcessInput)                                                               \
    X(DecoderGetBasicInfo)                                                               \
    X(DecoderSetImageOutBuffer)                                                          \
    X(EncoderCreate)                                                                     \
    X(EncoderDestroy)                                                                    \
    X(EncoderGetError)                                                                   \
    X(EncoderUseContainer)                                                               \
    X(EncoderInitBasicInfo)                                                              \
    X(EncoderSetBasicInfo)                                                               \
    X(EncoderSetColorEncoding)                                                           \
    X(EncoderFrameSettingsCreate)                                                        \
    X(EncoderFrameSettingsSetOption)                                                     \
    X(EncoderSetFrameLossless)                                                           \
    X(EncoderSetFrameDistance)                                                           \
    X(EncoderAddImageFrame)                                                              \
    X(EncoderCloseInput)                                                                 \
    X(EncoderProcessOutput)                                                              \
    X(ColorEncodingSetToSRGB)                                                            \
    X(ColorEncodingSetToLinearSRGB)

/* JxlNAME is jxl->NAME. */
typedef struct tarn__jxl_library {
#define TARN__JXL_MEMBER(name) __typeof__(Jxl##name) *name;
    TARN__JXL_FUNCTIONS(TARN__JXL_MEMBER)
#undef TARN__JXL_MEMBER
} tarn__jxl_library;

/* Returns the same pointer to all callers; it stays valid. May be called from any
 * thread. */
TARN_CHECKED tarn_status tarn__jxl_get(const tarn__jxl_library **out, tarn_error *err);

#endif
