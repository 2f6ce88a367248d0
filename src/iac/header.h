/* The fixed header of a pack: magic, version, JSON, and the layout the JSON describes. */
#ifndef TARN_IAC_HEADER_H
#define TARN_IAC_HEADER_H

#include <tarn/iac.h>

#include "base/json.h"
#include "iac/payload.h"

enum { IAC_PREFIX = 16, IAC_MAX_JSON = TARN_IAC_HEADER_BYTES - IAC_PREFIX };

typedef struct tarn__iac_header {
    unsigned version;
    uint64_t slide_table_offset, slide_table_length;
    uint64_t index_table_offset, index_table_length;
    uint64_t data_offset, data_length;
    uint64_t num_slides, num_records;
    uint64_t record_bytes; /* feature_record_bytes, or 0 */
    char *codec, *payload_type;
    char *text; /* the JSON, NUL-terminated */
    size_t text_length;
} tarn__iac_header;

/* Reads the first 65536 bytes of a file of file_size bytes, and checks that the three
 * segments lie behind each other and inside the file. */
TARN_CHECKED tarn_status tarn__iac_header_parse(tarn__iac_header *out,
                                                const unsigned char *data, size_t size,
                                                uint64_t file_size, tarn_error *err);
void tarn__iac_header_reset(tarn__iac_header *header);

/* What a header has besides the layout. */
typedef struct tarn__iac_caller {
    const char *text; /* a JSON object, or NULL */
    size_t length;
    bool in_order;     /* its objects stay as they are; false: sorted, as the fields */
    bool utf8;         /* not escaped */
    const char *codec; /* added with its level where the text does not name one */
    int level;
} tarn__iac_caller;

/* Writes all 65536 bytes: the caller's fields and those of the layout, which win. */
TARN_CHECKED tarn_status tarn__iac_header_make(unsigned char *out,
                                               const tarn__iac_header *header,
                                               const tarn__iac_caller *caller,
                                               tarn_error *err);

/* Puts a header's fields into an object that is open, for a header of another pack. Those
 * that say where the index table is are left out, as the other version has other names
 * for them; without codec so are those that name it. */
TARN_CHECKED tarn_status tarn__iac_header_carry(tarn__json_writer *writer,
                                                const tarn__iac_header *header,
                                                bool codec, tarn_error *err);

#endif
