/* The fixed header of an IAC file: magic, version, JSON, and the layout that the JSON
 * describes. */
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

/* Parses the first 65536 bytes of a file of file_size bytes, and checks that the three
 * segments are consecutive and inside the file. */
TARN_CHECKED tarn_status tarn__iac_header_parse(tarn__iac_header *out,
                                                const unsigned char *data, size_t size,
                                                uint64_t file_size, tarn_error *err);
void tarn__iac_header_reset(tarn__iac_header *header);

/* The parts of a header besides the layout. */
typedef struct tarn__iac_caller {
    const char *text; /* a JSON object, or NULL */
    size_t length;
    bool in_order;     /* keep the key order of nested objects; false: sort them, like the
                          fields */
    bool utf8;         /* do not escape */
    const char *codec; /* added with its level unless the text names a codec */
    int level;
} tarn__iac_caller;

/* Writes all 65536 bytes: the caller's fields and the fields of the layout, which take
 * precedence. */
TARN_CHECKED tarn_status tarn__iac_header_make(unsigned char *out,
                                               const tarn__iac_header *header,
                                               const tarn__iac_caller *caller,
                                               tarn_error *err);

/* Writes the fields of a header into an open object, for the header of another IAC file.
 * Leaves out the position of the index table, which has other names in the other version,
 * and the codec unless codec is true. */
TARN_CHECKED tarn_status tarn__iac_header_carry(tarn__json_writer *writer,
                                                const tarn__iac_header *header,
                                                bool codec, tarn_error *err);

#endif
