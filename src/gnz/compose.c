/* Writes headers: the JSON that Python's json.dumps(…, sort_keys=True) would produce, and
 * the layout. The array offsets and the length of the header depend on each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sort.h"
#include "gnz/header.h"

tarn_status tarn__gnz_metadata_take(const char *json, size_t len, tarn__buf *out,
                                    tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_writer w;
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    tarn_error why;
    if (tarn__json_parse(&doc, json, len, &options, &why) != TARN_OK)
        return tarn__fail_at(err, why.code, NULL, why.offset, "metadata: %s",
                             why.message);
    const tarn__json *root = tarn__json_root(&doc);
    tarn_status status = TARN_OK;
    if (root->kind != TARN__JSON_OBJECT)
        status = tarn__fail(err, TARN_ERR_USAGE, "metadata: not a JSON object");
    else if (tarn__json_find(root, TARN_GNZ_RESERVED))
        status =
            tarn__fail(err, TARN_ERR_USAGE, "metadata: the key %s is reserved; remove it",
                       TARN_GNZ_RESERVED);
    if (status == TARN_OK) {
        tarn__json_begin(&w, out);
        tarn__json_put_value(&w, root, true);
        status = tarn__json_end(&w, err);
    }
    tarn__json_reset(&doc);
    return status;
}

/* --- Text -------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const tarn__gnz_entry *x = *(tarn__gnz_entry *const *)a,
                          *y = *(tarn__gnz_entry *const *)b;
    return tarn__compare_bytes(x->name, x->name_size, y->name, y->name_size);
}

static void put_array(tarn__json_writer *w, const tarn__gnz_entry *e, bool widest)
{
    char dtype[TARN_DTYPE_TEXT_MAX];
    tarn__json_key(w, e->name, e->name_size);
    tarn__json_open(w, '{');
    tarn__json_key_text(w, "dtype");
    tarn__json_put_text(w, tarn_dtype_text(e->dtype, dtype));
    tarn__json_key_text(w, "offset");
    tarn__json_put_uint(w, e->offset);
    tarn__json_key_text(w, "order");
    tarn__json_put_text(w, e->fortran ? "F" : "C");
    tarn__json_key_text(w, "shape");
    tarn__json_open(w, '[');
    for (unsigned i = 0; i < e->ndim; i++)
        tarn__json_put_uint(w, i ? e->shape[i] : widest ? e->reserved : e->rows);
    tarn__json_close(w, ']');
    tarn__json_close(w, '}');
}

static bool has_note(const tarn__gnz_entry *e)
{
    return e->has_checksum || e->reserved > e->rows;
}

/* A checksum always takes eight digits, so the layout can be made before the value is
 * known. */
static void put_sum(tarn__json_writer *w, const char *key, uint32_t sum)
{
    char text[16];
    snprintf(text, sizeof text, "%08x", sum);
    tarn__json_key_text(w, key);
    tarn__json_put_text(w, text);
}

static void put_note(tarn__json_writer *w, const tarn__gnz_entry *e)
{
    tarn__json_key(w, e->name, e->name_size);
    tarn__json_open(w, '{');
    if (e->has_checksum) put_sum(w, "crc32c", e->checksum);
    if (e->reserved > e->rows) {
        tarn__json_key_text(w, "rows");
        tarn__json_put_uint(w, e->reserved);
    }
    tarn__json_close(w, '}');
}

/* Puts the reserved key first; the keys are sorted when they are written. */
static tarn_status join_metadata(const tarn__gnz_plan *plan, tarn__gnz_entry **sorted,
                                 tarn__buf *out, tarn_error *err)
{
    tarn__json_writer w;
    static const char empty[] = "{}";
    TARN_TRY(tarn__buf_add(out, "{\"" TARN_GNZ_RESERVED "\": ",
                           sizeof "{\"" TARN_GNZ_RESERVED "\": " - 1, err));
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "arrays");
    tarn__json_open(&w, '{');
    for (size_t i = 0; i < plan->count; i++)
        if (has_note(sorted[i])) put_note(&w, sorted[i]);
    tarn__json_close(&w, '}');
    if (plan->has_sum) put_sum(&w, "header", plan->sum);
    tarn__json_close(&w, '}');
    TARN_TRY(tarn__json_end(&w, err));
    if (plan->metadata_len == sizeof empty - 1) return tarn__buf_add(out, "}", 1, err);
    TARN_TRY(tarn__buf_add(out, ", ", 2, err));
    return tarn__buf_add(out, plan->metadata + 1, plan->metadata_len - 1, err);
}

static tarn_status put_metadata(tarn__json_writer *w, const tarn__gnz_plan *plan,
                                tarn__gnz_entry **sorted, tarn_error *err)
{
    tarn__buf joined;
    tarn__json_doc doc;
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    bool notes = plan->has_sum;
    for (size_t i = 0; i < plan->count && !notes; i++)
        notes = has_note(sorted[i]);
    if (!notes) {
        tarn__json_put_raw(w, plan->metadata, plan->metadata_len);
        return TARN_OK;
    }
    tarn__buf_init(&joined, 2 * (size_t)TARN_MAX_GNZ_HEADER);
    tarn_status status = join_metadata(plan, sorted, &joined, err);
    if (status == TARN_OK) {
        status = tarn__json_parse(&doc, joined.data, joined.size, &options, err);
        if (status == TARN_OK) tarn__json_put_value(w, tarn__json_root(&doc), true);
        tarn__json_reset(&doc);
    }
    tarn__buf_reset(&joined);
    return status;
}

static tarn_status put_text(const tarn__gnz_plan *plan, tarn__gnz_entry **sorted,
                            bool widest, tarn__buf *out, tarn_error *err)
{
    tarn__json_writer w;
    tarn__json_begin(&w, out);
    tarn__json_open(&w, '{');
    tarn__json_key_text(&w, "arrays");
    tarn__json_open(&w, '{');
    for (size_t i = 0; i < plan->count; i++)
        put_array(&w, sorted[i], widest);
    tarn__json_close(&w, '}');
    tarn__json_key_text(&w, "metadata");
    TARN_TRY(put_metadata(&w, plan, sorted, err));
    tarn__json_key_text(&w, "version");
    tarn__json_put_uint(&w, 1);
    tarn__json_close(&w, '}');
    return tarn__json_end(&w, err);
}

tarn_status tarn__gnz_compose(const tarn__gnz_plan *plan, bool widest, tarn__buf *out,
                              tarn_error *err)
{
    size_t begin = out->size;
    tarn__gnz_entry **sorted = malloc((plan->count + 1) * sizeof(tarn__gnz_entry *));
    if (!sorted) return tarn__fail_memory(err);
    if (plan->count) memcpy(sorted, plan->entries, plan->count * sizeof *sorted);
    qsort(sorted, plan->count, sizeof *sorted, by_name);
    tarn_status status = tarn__buf_add(out, "GNZ1\0\0\0", TARN__GNZ_PREFIX, err);
    if (status == TARN_OK) status = put_text(plan, sorted, widest, out, err);
    free(sorted);
    TARN_TRY(status);
    size_t len = out->size - begin - TARN__GNZ_PREFIX;
    if (len > TARN_MAX_GNZ_HEADER)
        return tarn__fail(
            err, TARN_ERR_LIMIT,
            "the header has %zu bytes; the limit is %u (TARN_MAX_GNZ_HEADER)", len,
            TARN_MAX_GNZ_HEADER);
    tarn__put32(out->data + begin + 4, (uint32_t)len);
    return TARN_OK;
}

tarn_status tarn__gnz_header_sum(const tarn__gnz_plan *plan, uint32_t *out,
                                 tarn_error *err)
{
    tarn__buf text;
    tarn__gnz_plan zero = *plan;
    zero.has_sum = true;
    zero.sum = 0;
    tarn__buf_init(&text, 2 * (size_t)TARN_MAX_GNZ_HEADER);
    tarn_status status = tarn__gnz_compose(&zero, false, &text, err);
    if (status == TARN_OK)
        *out =
            tarn__crc32c(0, text.data + TARN__GNZ_PREFIX, text.size - TARN__GNZ_PREFIX);
    tarn__buf_reset(&text);
    return status;
}

/* --- Layout ------------------------------------------------------------------------ */

static tarn_status place(const tarn__gnz_plan *plan, uint64_t pages, uint64_t *out_size,
                         tarn_error *err)
{
    uint64_t at = pages * TARN_GNZ_PAGE;
    for (size_t i = 0; i < plan->count; i++) {
        tarn__gnz_entry *e = plan->entries[i];
        e->offset = at;
        if (!tarn__add(at, tarn__gnz_extent(e), &at) ||
            !tarn__align_up(at, TARN_GNZ_PAGE, &at) || at > INT64_MAX)
            return tarn__fail(err, TARN_ERR_LIMIT,
                              "the arrays do not fit into 2^63 bytes");
    }
    *out_size = at;
    return TARN_OK;
}

/* More pages make the offsets, and so the header, longer and never shorter. Growing until
 * the header fits therefore finds the smallest layout that fits. */
tarn_status tarn__gnz_layout(const tarn__gnz_plan *plan, uint64_t min_pages,
                             uint64_t *out_size, tarn_error *err)
{
    uint64_t pages = min_pages ? min_pages : 1, needed;
    tarn__buf text;
    for (;;) {
        TARN_TRY(place(plan, pages, out_size, err));
        tarn__buf_init(&text, 2 * (size_t)TARN_MAX_GNZ_HEADER);
        tarn_status status = tarn__gnz_compose(plan, true, &text, err);
        needed = (text.size + TARN_GNZ_PAGE - 1) / TARN_GNZ_PAGE;
        tarn__buf_reset(&text);
        TARN_TRY(status);
        if (needed <= pages) return TARN_OK;
        pages = needed;
    }
}
