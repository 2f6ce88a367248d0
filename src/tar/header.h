/* One 512-byte header block. Pure functions of the block: no file, no position. */
#ifndef TARN_TAR_HEADER_H
#define TARN_TAR_HEADER_H

#include <tarn/base.h>

#include "base/bytes.h"

#define TARN__BLOCK 512u

/* Added to messages about what begins like a page of a web server. */
#define TARN__WEB_PAGE                                                                   \
    "; it begins with '<', like a web page (the URL of a fold is FOLDER:FOLD, "          \
    "FOLD.taridx or FOLDER/FOLD-{0000..0099}.tar)"

/* The fields of a block: size of the name, and offsets of the type and of the prefix of
 * the name. */
#define TARN__NAME_SIZE 100u
#define TARN__TYPE_AT   156u
#define TARN__PREFIX_AT 345u

typedef enum tarn__kind {
    TARN__REGULAR,
    TARN__DIRECTORY,
    TARN__LINK,
    TARN__DEVICE,
    TARN__PAX,        /* 'x': describes the next member */
    TARN__PAX_GLOBAL, /* 'g': describes all following members */
    TARN__GNU_NAME,   /* 'L': the next member's long name */
    TARN__GNU_LINK    /* 'K': the next member's long link target */
} tarn__kind;

typedef struct tarn__header {
    tarn__kind kind;
    char type;
    uint64_t size;
    const char *name; /* points into the block, as does prefix */
    size_t name_len;
    const char *prefix;
    size_t prefix_len;
} tarn__header;

/* Checks and decodes a block. Blocks that tar programs read differently are rejected. */
TARN_CHECKED tarn_status tarn__header_parse(const unsigned char *block, tarn__header *out,
                                            tarn_error *err);

/* Whether the stored checksum is correct. Nothing else is checked. */
bool tarn__header_sum_matches(const unsigned char *block);

/* Time and mode, 0 if unreadable. */
int64_t tarn__header_time(const unsigned char *block);
uint32_t tarn__header_mode(const unsigned char *block);

/* A number field: octal, or base-256 with the first byte 0x80. False if malformed. */
bool tarn__header_number(const unsigned char *field, size_t len, uint64_t *out);

bool tarn__block_is_zero(const unsigned char *block);

#endif
