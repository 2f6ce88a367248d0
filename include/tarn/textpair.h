/* tarn/textpair.h: record packs of clinical text pairs. One record is one patient with
 * all of the patient's documents. Each document is a source text and a compressed text. A
 * patient is therefore one random read. The bytes are identical to those of the
 * clinical_text_pair adapter of iatro-base-iac 0.0.2 and of iatro-iac-adapters 0.1.
 *
 *     tarn_textpair_patient who;
 *     if (tarn_iac_open("pairs.iac", NULL, &pack, &err) != TARN_OK ||
 *         tarn_iac_find(pack, "patient_id", "P0001", 5, 0, &row, &err) != TARN_OK ||
 *         tarn_textpair_read(pack, row, &who, &err) != TARN_OK) ...
 *     use(who.docs[0].source_text, who.docs[0].source_size);
 *     tarn_textpair_reset(&who);
 *
 * Any number of threads may read from one record pack.
 */
#ifndef TARN_TEXTPAIR_H
#define TARN_TEXTPAIR_H

#include <tarn/base.h>
#include <tarn/iac.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A document. All text is UTF-8. NULL means the default of the field: "", or for
 * doc_category the default of the style. */
typedef struct tarn_textpair_doc {
    const char *doc_id;
    const char *source_text;     /* may contain NULs */
    size_t source_size;          /* when building, 0 means up to the first NUL */
    const char *compressed_text; /* as source_text */
    size_t compressed_size;
    const char *doc_type, *encounter, *doc_category, *source, *doc_timestamp;
    int64_t episode_index; /* -1 if there is none */
    /* Only in record packs of iatro-base-iac 0.0.2. */
    const char *old_doc_id, *old_doc_type, *old_encounter, *old_source;
} tarn_textpair_doc;

typedef struct tarn_textpair_patient {
    const char *patient_id;
    const char *institution;
    const tarn_textpair_doc *docs;
    size_t count;
    void *owned; /* private: used by patients that were read */
} tarn_textpair_patient;

/* The package whose format is written. Both packages read both formats. */
typedef enum tarn_textpair_style {
    TARN_TEXTPAIR_01 = 0, /* iatro-iac-adapters 0.1: no old_ fields, doc_category "" */
    TARN_TEXTPAIR_00 = 1  /* iatro-base-iac 0.0.2 */
} tarn_textpair_style;

typedef struct tarn_textpair_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_textpair_style style;
    int quality;        /* Brotli quality: 1 to 11, or 0 for 11 */
    const char *header; /* a JSON object with further header fields, or NULL */
    bool overwrite;
    bool in_order; /* of the header; see tarn_iac_write_options */
} tarn_textpair_options;

#define TARN_TEXTPAIR_OPTIONS_INIT                                                       \
    {                                                                                    \
        .size = sizeof(tarn_textpair_options)                                            \
    }
TARN_API void tarn_textpair_options_init(tarn_textpair_options *options, size_t size);

/* Writes a record pack of count patients, which must be at least 1. options may be NULL.
 * TARN_ERR_EXISTS if the file exists and overwrite is false. */
TARN_API TARN_CHECKED tarn_status
tarn_textpair_build(const char *path, const tarn_textpair_patient *patients, size_t count,
                    const tarn_textpair_options *options, tarn_error *err);

/* Reads the patient in a row of the index, in which the column patient_id has the ids.
 * Free *out with tarn_textpair_reset. */
TARN_API TARN_CHECKED tarn_status tarn_textpair_read(tarn_iac *pack, uint64_t row,
                                                     tarn_textpair_patient *out,
                                                     tarn_error *err);
TARN_API void tarn_textpair_reset(tarn_textpair_patient *patient);

#ifdef __cplusplus
}
#endif
#endif
