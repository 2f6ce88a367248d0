/* Shared by the two JPEG files: the errors of libjpeg, which use longjmp. */
#ifndef TARN_CODEC_JPEG_H
#define TARN_CODEC_JPEG_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <tarn/base.h>

/* libjpeg uses the first member; the others say where to jump to when it fails. */
typedef struct tarn__jpeg_errors {
    struct jpeg_error_mgr manager;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    tarn_status status;
} tarn__jpeg_errors;

/* Returns the value for the codec's err member. Warnings about missing pixels are errors
 * too; other warnings (a few stray bytes, as some cameras write them) are ignored. */
struct jpeg_error_mgr *tarn__jpeg_errors_init(tarn__jpeg_errors *errors);
tarn_status tarn__jpeg_failed(const tarn__jpeg_errors *errors, tarn_error *err);

#endif
