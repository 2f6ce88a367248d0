/* A pack out of a pack: tables go through as Arrow streams, payloads decoded and encoded
 * where the codec changes. */
#include <string.h>

#include "base/options.h"
#include "iac/codec.h"
#include "iac/pack.h"
#include "iac/take.h"

/* The old header without what the writer sets anew. */
static tarn_status inherit(const tarn_iac *p, const tarn_iac_write_options *o,
                           tarn__buf *out, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    TARN_TRY(tarn__iac_header_carry(&w, &p->header, o->encoded, err));
    if (!o->encoded && o->codec == TARN_IAC_NONE) {
        tarn__json_key_text(&w, "codec");
        tarn__json_put_text(&w, "none");
    }
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    return tarn__buf_add(out, "", 1, err);
}

/* Which records, in which order. */
typedef struct chosen {
    const uint64_t *rows; /* NULL: all, as they are */
    uint64_t count;
} chosen;

static tarn_status move_payloads(tarn_iac *p, tarn_iac_writer *w, bool encoded,
                                 const chosen *c, tarn_error *err)
{
    for (uint64_t i = 0; i < c->count; i++) {
        tarn_view view;
        uint64_t row = c->rows ? c->rows[i] : i;
        TARN_TRY(encoded ? tarn_iac_view(p, row, &view, err)
                         : tarn_iac_view_decoded(p, row, &view, err));
        tarn_status status = tarn_iac_writer_add(w, view.data, view.size, err);
        tarn_view_release(&view);
        TARN_TRY(status);
    }
    return TARN_OK;
}

static tarn_status export_both(tarn_iac *p, struct ArrowArrayStream *slides,
                               struct ArrowArrayStream *index, tarn_error *err)
{
    TARN_TRY(tarn_iac_export(p, TARN_IAC_SLIDES, slides, err));
    tarn_status status = tarn_iac_export(p, TARN_IAC_INDEX, index, err);
    if (status != TARN_OK) slides->release(slides);
    return status;
}

static tarn_status rewrite_segment(tarn_iac *p, const char *to,
                                   const tarn_iac_write_options *o, tarn_error *err)
{
    struct ArrowArrayStream slides, index;
    tarn_view data;
    TARN_TRY(tarn_iac_view_span(p, 0, p->header.data_length, &data, err));
    tarn_status status = export_both(p, &slides, &index, err);
    if (status == TARN_OK)
        status =
            tarn_iac_build_segment(to, &slides, &index, data.data, data.size, o, err);
    tarn_view_release(&data);
    return status;
}

static tarn_status export_chosen(tarn_iac *p, const chosen *c,
                                 struct ArrowArrayStream *slides,
                                 struct ArrowArrayStream *index, tarn_error *err)
{
    struct ArrowArrayStream all;
    if (!c->rows) return export_both(p, slides, index, err);
    TARN_TRY(export_both(p, slides, &all, err));
    tarn_status status = tarn__iac_take(&all, c->rows, (size_t)c->count, index, err);
    all.release(&all);
    if (status != TARN_OK) slides->release(slides);
    return status;
}

static tarn_status rewrite(tarn_iac *p, const char *to, const tarn_iac_write_options *o,
                           const chosen *c, tarn_error *err)
{
    struct ArrowArrayStream slides, index;
    tarn_iac_writer *w;
    if (p->offset.column < 0 && !c->rows) return rewrite_segment(p, to, o, err);
    TARN_TRY(export_chosen(p, c, &slides, &index, err));
    TARN_TRY(tarn_iac_writer_open(to, &slides, &index, o, &w, err));
    tarn_status status = move_payloads(p, w, o->encoded, c, err);
    if (status == TARN_OK) return tarn_iac_writer_finish(w, err);
    tarn_iac_writer_abandon(w);
    return status;
}

static tarn_status rewrite_chosen(const char *from, const char *to,
                                  tarn_iac_write_options *o, chosen *c, tarn_error *err)
{
    tarn_iac_options open = TARN_IAC_OPTIONS_INIT;
    tarn_iac *p;
    tarn__buf header;
    open.check = true;
    TARN_TRY(tarn_iac_open(from, &open, &p, err));
    if (!c->rows) c->count = p->header.num_records;
    /* Segments of the caller's own are not divided into payloads to encode. */
    if (p->offset.column < 0) o->encoded = true;
    if (o->encoded) o->codec = TARN_IAC_NONE;
    tarn__buf_init(&header, 1u << 20);
    tarn_status status = o->header ? TARN_OK : inherit(p, o, &header, err);
    if (!o->header) {
        o->header = header.data;
        o->in_order = true;
    }
    if (status == TARN_OK) status = rewrite(p, to, o, c, err);
    tarn__buf_reset(&header);
    tarn_iac_close(p);
    return status;
}

tarn_status tarn_iac_rewrite(const char *from, const char *to,
                             const tarn_iac_write_options *options, tarn_error *err)
{
    TARN__NEED(err, "from", from);
    TARN__NEED(err, "to", to);
    TARN__OPTIONS(tarn_iac_write_options, o, TARN_IAC_WRITE_OPTIONS_INIT, options, err);
    return rewrite_chosen(from, to, &o, &(chosen){0}, err);
}

tarn_status tarn_iac_rewrite_rows(const char *from, const char *to, const uint64_t *rows,
                                  size_t count, const tarn_iac_write_options *options,
                                  tarn_error *err)
{
    TARN__NEED(err, "from", from);
    TARN__NEED(err, "to", to);
    TARN__NEED(err, "rows", rows || !count);
    static const uint64_t none = 0;
    TARN__OPTIONS(tarn_iac_write_options, o, TARN_IAC_WRITE_OPTIONS_INIT, options, err);
    return rewrite_chosen(from, to, &o, &(chosen){count ? rows : &none, count}, err);
}
