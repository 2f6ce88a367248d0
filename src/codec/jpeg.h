/* What the two files of JPEG share: libjpeg's errors, which jump. */
#ifndef TARN_CODEC_JPEG_H
#define TARN_CODEC_JPEG_H

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <tarn/base.h>

/* The first member libjpeg knows; the rest is where it jumps to when it cannot go on. */
typedef struct tarn__jpeg_errors {
    struct jpeg_error_mgr manager;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    tarn_status status;
} tarn__jpeg_errors;

/* Returns what belongs into err of the codec. Warnings that pixels are missing are
 * errors, too; of the others (a few stray bytes, which some cameras leave) nobody sees
 * anything. */
struct jpeg_error_mgr *tarn__jpeg_errors_init(tarn__jpeg_errors *errors);
tarn_status tarn__jpeg_failed(const tarn__jpeg_errors *errors, tarn_error *err);

#endif
