/* Makes an IAC file from another: tables are copied as Arrow streams, payloads are
 * decoded and encoded if the codec changes. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/options.h"
#include "iac/file.h"
#include "iac/take.h"
#include "io/publish.h"

/* The old header without the fields that the writer sets again; with none, it names the
 * codec "none". */
static tarn_status inherit(const tarn__iac_header *old, bool codec, bool none,
                           tarn__buf *out, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    TARN_TRY(tarn__iac_header_carry(&w, old, codec, err));
    if (none) {
        tarn__json_key_text(&w, "codec");
        tarn__json_put_text(&w, "none");
    }
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "", 1, err);
}

/* Whether the new codec only says what the payloads are. */
static bool is_image(const tarn_iac_write_options *o)
{
    return tarn__iac_codec_named(o->codec) == IAC_IMAGE;
}

static tarn_status move_payloads(tarn_iac *p, tarn_iac_writer *w,
                                 const tarn_iac_write_options *o, tarn_error *err)
{
    uint64_t count = o->rows ? o->n_rows : p->header.num_records;
    bool decode =
        !o->encoded || (is_image(o) && p->codec > IAC_NONE && p->codec <= IAC_GZIP);
    for (uint64_t i = 0; i < count; i++) {
        tarn_view view;
        TARN_TRY(tarn_iac_view(p, o->rows ? o->rows[i] : i, decode, &view, err));
        tarn_status status = tarn_iac_writer_add(w, view.data, view.size, err);
        tarn_view_release(&view);
        TARN_TRY(status);
    }
    return TARN_OK;
}

static tarn_status move_segment(tarn_iac *p, tarn_iac_writer *w, tarn_error *err)
{
    tarn_view data;
    TARN_TRY(tarn_iac_view_span(p, 0, p->header.data_length, &data, err));
    tarn_status status = tarn_iac_writer_add(w, data.data, data.size, err);
    tarn_view_release(&data);
    return status;
}

static tarn_status rewrite(tarn_iac *p, const char *to, const tarn_iac_write_options *o,
                           tarn_error *err)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_writer *w;
    tarn__table *table = p->tables[TARN_IAC_INDEX];
    TARN_TRY(tarn_iac_export(p, TARN_IAC_SLIDES, &slides, err));
    tarn_status status = o->rows ? tarn__iac_take(table, o->rows, o->n_rows, &index, err)
                                 : tarn__table_export(table, &index, err);
    if (status != TARN_OK) {
        slides.release(&slides);
        return status;
    }
    TARN_TRY(tarn_iac_writer_open(to, &slides, &index, o, &w, err));
    status = o->segment ? move_segment(p, w, err) : move_payloads(p, w, o, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

static tarn_status rewrite_file(const char *from, const char *to,
                                tarn_iac_write_options *o, tarn_error *err)
{
    tarn_iac_options open = TARN_IAC_OPTIONS_INIT;
    tarn_iac *p;
    tarn__buf header;
    open.check = true;
    TARN_TRY(tarn_iac_open(from, &open, &p, err));
    /* Segments with a caller's own layout are not divided into payloads to encode. */
    if (p->offset.column < 0) o->encoded = true;
    o->segment = p->offset.column < 0 && !o->rows;
    if (is_image(o)) o->encoded = true;
    if (o->encoded && !is_image(o)) o->codec = NULL;
    bool none = !o->encoded && tarn__iac_codec_named(o->codec) == IAC_NONE;
    tarn__buf_init(&header, 1u << 20);
    tarn_status status =
        o->header ? TARN_OK
                  : inherit(&p->header, o->encoded && !is_image(o), none, &header, err);
    if (!o->header) {
        o->header = header.data;
        o->in_order = true;
    }
    if (status == TARN_OK) status = rewrite(p, to, o, err);
    tarn__buf_reset(&header);
    tarn_iac_close(p);
    return status;
}

/* --- Version 1 to 2 --------------------------------------------------------------- */

/* Only the fixed header differs, and it has the same size in both versions. So the kernel
 * copies everything after it, and shares the blocks if the file system can. The old file
 * stays intact until the new file gets its name. */

static tarn_status upgraded_header(const tarn__iac_header *old, unsigned char *out,
                                   tarn_error *err)
{
    tarn__iac_header h = *old;
    tarn__buf text;
    h.version = 2;
    tarn__buf_init(&text, 1u << 20);
    tarn_status status = inherit(old, true, false, &text, err);
    tarn__iac_caller c = {.text = text.data, .length = text.size - 1, .in_order = true};
    if (status == TARN_OK) status = tarn__iac_header_make(out, &h, &c, err);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status upgrade_into(tarn__publish *file, const tarn_iac *p, tarn_error *err)
{
    const tarn__iac_header *h = &p->header;
    unsigned char *bytes = malloc(TARN_IAC_HEADER_BYTES);
    if (!bytes) return tarn__fail_memory(err);
    tarn_status status = upgraded_header(h, bytes, err);
    if (status == TARN_OK)
        status = tarn__publish_write(file, bytes, TARN_IAC_HEADER_BYTES, err);
    free(bytes);
    if (status != TARN_OK) return status;
    uint64_t end = h->data_offset + h->data_length;
    return tarn__publish_copy(file, p->file->fd, p->file->path, TARN_IAC_HEADER_BYTES,
                              end - TARN_IAC_HEADER_BYTES, err);
}

static tarn_status upgrade(const char *from, const char *to, bool overwrite,
                           tarn_error *err)
{
    tarn_iac *p;
    struct stat st;
    tarn__publish file;
    if (!overwrite && lstat(to, &st) == 0)
        return tarn__fail_at(err, TARN_ERR_EXISTS, to, TARN_NO_OFFSET,
                             "the file exists; use overwrite to replace it");
    TARN_TRY(tarn_iac_open(from, NULL, &p, err));
    tarn_status status = tarn__publish_begin(&file, to, err);
    if (status == TARN_OK) {
        file.keep_existing = !overwrite;
        status = upgrade_into(&file, p, err);
        if (status == TARN_OK)
            status = tarn__publish_finish(&file, err);
        else
            tarn__publish_abandon(&file);
    }
    tarn_iac_close(p);
    return status;
}

tarn_status tarn_iac_rewrite(const char *from, const char *to,
                             const tarn_iac_write_options *options, tarn_error *err)
{
    TARN__NEED(err, "from", from);
    TARN__NEED(err, "to", to);
    TARN__OPTIONS(tarn_iac_write_options, o, TARN_IAC_WRITE_OPTIONS_INIT, options, err);
    if (o.upgrade) return upgrade(from, to, o.overwrite, err);
    TARN__NEED(err, "rows", o.rows || !o.n_rows);
    return rewrite_file(from, to, &o, err);
}
