/* Work with IAC files in one call: cells by kind, whole files from memory, columns by
 * number, patients by id. */
#ifndef TARN_TEST_IAC_HELP_H
#define TARN_TEST_IAC_HELP_H

#include <string.h>

#include <tarn/iac.h>
#include <tarn/textpair.h>

static inline tarn_status rows_text(tarn_iac_rows *rows, size_t column, const char *text,
                                    size_t size, tarn_error *why)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_TEXT, .text = text, .size = size};
    return tarn_iac_rows_add(rows, column, &cell, why);
}

static inline tarn_status rows_number(tarn_iac_rows *rows, size_t column, int64_t integer,
                                      tarn_error *why)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_INTEGER, .integer = integer};
    return tarn_iac_rows_add(rows, column, &cell, why);
}

static inline tarn_status rows_real(tarn_iac_rows *rows, size_t column, double real,
                                    tarn_error *why)
{
    tarn_iac_cell cell = {.kind = TARN_IAC_REAL, .real = real};
    return tarn_iac_rows_add(rows, column, &cell, why);
}

static inline tarn_status iac_build(const char *path, struct ArrowArrayStream *slides,
                                    struct ArrowArrayStream *index,
                                    const void *const *payloads, const size_t *sizes,
                                    size_t count, const tarn_iac_write_options *options,
                                    tarn_error *why)
{
    tarn_iac_writer *w;
    TARN_TRY(tarn_iac_writer_open(path, slides, index, options, &w, why));
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count && status == TARN_OK; i++)
        status = tarn_iac_writer_add(w, payloads[i], sizes[i], why);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, why);
    tarn_iac_writer_abandon(w);
    return status;
}

/* With a data segment from memory or, if data is NULL, from a file. */
static inline tarn_status iac_build_segment(
    const char *path, struct ArrowArrayStream *slides, struct ArrowArrayStream *index,
    const void *data, size_t size, const char *file,
    const tarn_iac_write_options *options, tarn_error *why)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn_iac_writer *w;
    uint64_t length;
    if (options) o = *options;
    o.segment = true;
    TARN_TRY(tarn_iac_writer_open(path, slides, index, &o, &w, why));
    tarn_status status = data ? tarn_iac_writer_add(w, data, size, why)
                              : tarn_iac_writer_add_file(w, file, &length, why);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, why);
    tarn_iac_writer_abandon(w);
    return status;
}

static inline tarn_status iac_upgrade(const char *from, const char *to, bool overwrite,
                                      tarn_error *why)
{
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    o.upgrade = true;
    o.overwrite = overwrite;
    return tarn_iac_rewrite(from, to, &o, why);
}

static inline size_t iac_columns(const tarn_iac *pack, tarn_iac_table table)
{
    tarn_iac_info info;
    tarn_iac_info_get(pack, &info, sizeof info);
    return info.columns[table];
}

static inline tarn_iac_column iac_column(const tarn_iac *pack, tarn_iac_table table,
                                         size_t number)
{
    tarn_iac_column c;
    if (tarn_iac_column_get(pack, table, number, &c, sizeof c, NULL) != TARN_OK)
        c = (tarn_iac_column){0};
    return c;
}

static inline tarn_status textpair_find(tarn_iac *pack, const char *id,
                                        tarn_textpair_patient *out, tarn_error *why)
{
    uint64_t row;
    TARN_TRY(tarn_iac_find(pack, "patient_id", id, strlen(id), 0, &row, why));
    return tarn_textpair_read(pack, row, out, why);
}

#endif
