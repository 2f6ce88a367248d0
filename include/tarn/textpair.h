/* tarn/textpair.h: record packs of clinical text pairs: one record is one patient with
 * all documents, each a source text and a compressed text, so that a patient is one
 * random read. The bytes are those of the clinical_text_pair adapter of iatro-base-iac
 * 0.0.2 and of iatro-iac-adapters 0.1.
 *
 *     tarn_textpair_patient who;
 *     if (tarn_iac_open("pairs.iac", NULL, &pack, &err) != TARN_OK ||
 *         tarn_iac_find(pack, "patient_id", "P0001", 5, 0, &row, &err) != TARN_OK ||
 *         tarn_textpair_read(pack, row, &who, &err) != TARN_OK) ...
 *     use(who.docs[0].source_text, who.docs[0].source_size);
 *     tarn_textpair_reset(&who);
 *
 * Any number of threads may read from one pack.
 */
#ifndef TARN_TEXTPAIR_H
#define TARN_TEXTPAIR_H

#include <tarn/base.h>
#include <tarn/iac.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All text is UTF-8. NULL is the field's default: "", and for doc_category what the style
 * says. */
typedef struct tarn_textpair_doc {
    const char *doc_id;
    const char *source_text;     /* may have NULs in it */
    size_t source_size;          /* when building, 0: up to the first NUL */
    const char *compressed_text; /* the same */
    size_t compressed_size;
    const char *doc_type, *encounter, *doc_category, *source, *doc_timestamp;
    int64_t episode_index; /* -1 if there is none */
    /* Only in packs of 0.0.2. */
    const char *old_doc_id, *old_doc_type, *old_encounter, *old_source;
} tarn_textpair_doc;

typedef struct tarn_textpair_patient {
    const char *patient_id;
    const char *institution;
    const tarn_textpair_doc *docs;
    size_t count;
    void *owned; /* private: of patients that were read */
} tarn_textpair_patient;

/* Which package's bytes are written. Both read both. */
typedef enum tarn_textpair_style {
    TARN_TEXTPAIR_01 = 0, /* iatro-iac-adapters 0.1: no old_ fields, doc_category "" */
    TARN_TEXTPAIR_00 = 1  /* iatro-base-iac 0.0.2 */
} tarn_textpair_style;

typedef struct tarn_textpair_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_textpair_style style;
    int quality;        /* of Brotli: 1 to 11, or 0 for 11 */
    const char *header; /* a JSON object with more fields for the header, or NULL */
    bool overwrite;
    bool in_order; /* of the header, as in tarn_iac_write_options */
} tarn_textpair_options;

#define TARN_TEXTPAIR_OPTIONS_INIT                                                       \
    {                                                                                    \
        .size = sizeof(tarn_textpair_options)                                            \
    }
TARN_API void tarn_textpair_options_init(tarn_textpair_options *options, size_t size);

TARN_API TARN_CHECKED tarn_status
tarn_textpair_build(const char *path, const tarn_textpair_patient *patients, size_t count,
                    const tarn_textpair_options *options, tarn_error *err);

/* The patient in a row of the index, whose column patient_id has the ids. */
TARN_API TARN_CHECKED tarn_status tarn_textpair_read(tarn_iac *pack, uint64_t row,
                                                     tarn_textpair_patient *out,
                                                     tarn_error *err);
TARN_API void tarn_textpair_reset(tarn_textpair_patient *patient);

#ifdef __cplusplus
}
#endif
#endif
