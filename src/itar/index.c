/* Loads an index, and reads it. */
#include "itar/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/options.h"
#include "io/file.h"
#include "io/guard.h"
#include "itar/regular.h"
#include "itar/taridx.h"
#include "tar/header.h"

void tarn_index_free(tarn_index *index)
{
    if (!index) return;
    for (size_t i = 0; index->owns_rows && i < index->n_chunks; i++)
        free(index->chunks[i].rows);
    free(index->chunks);
    tarn__names_reset(&index->fields);
    tarn__names_reset(&index->collisions);
    tarn__contents_close(&index->contents);
    tarn__sums_free(index->sums);
    free(index->path);
    free(index);
}

static tarn_status bad(const tarn_index *index, uint64_t offset, tarn_error *err,
                       const char *what)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, index->path, offset,
                         "%s; run tarn index again", what);
}

/* Takes a block of names. */
static tarn_status split_block(const tarn_index *index, uint64_t at, uint64_t size,
                               uint32_t count, tarn__names *out, tarn_error *err)
{
    const char *text = (const char *)index->contents.data + at, *wrong;
    size_t where;
    for (size_t k = 0; k < size; k++) {
        unsigned char c = (unsigned char)text[k];
        if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7f)
            return bad(index, at + k, err, "a control character in a name");
    }
    TARN_TRY(tarn__names_split(out, text, size, count, &wrong, &where, err));
    return wrong ? bad(index, at + where, err, wrong) : TARN_OK;
}

static tarn_status check_row(const tarn_index *index, uint64_t number, tarn_row *row,
                             tarn_error *err)
{
    const char *what = NULL;
    const unsigned char *bytes;
    uint64_t end;
    TARN_TRY(tarn__index_use(index, number, &bytes, err));
    tarn__row_get(bytes, row);
    if (row->field >= index->fields.count)
        what = "a field number past the last field";
    else if (row->collision > index->collisions.count)
        what = "a collision number past the last";
    else if (row->offset % TARN__BLOCK)
        what = "an offset that is not a multiple of 512";
    else if (!tarn__add(row->offset, TARN__BLOCK, &end) ||
             !tarn__add(end, row->size, &end) || end > INT64_MAX ||
             row->size >= TARN_MAX_MEMBER_SIZE)
        what = "an invalid offset or size";
    if (!what) return TARN_OK;
    return tarn__fail_at(
        err, TARN_ERR_FORMAT, index->path, index->rows_at + number * TARN__ROW_SIZE,
        "row %llu has %s; run tarn index again", (unsigned long long)number, what);
}

/* Rows are in the order of the members, so a row never starts before the end of the
 * previous one. This detects an offset that points into another member, such as an
 * archive inside the archive. */
tarn_status tarn__index_check(const tarn_index *index, tarn_error *err)
{
    uint64_t runs = 0, end = 0;
    uint16_t shard = 0;
    for (uint64_t i = 0; i < index->n_rows; i++) {
        tarn_row row;
        TARN_TRY(check_row(index, i, &row, err));
        if (row.shard != shard) end = 0;
        if (row.offset < end || row.shard < shard)
            return tarn__fail_at(err, TARN_ERR_FORMAT, index->path,
                                 index->rows_at + i * TARN__ROW_SIZE,
                                 "row %llu starts before the end of the previous row; "
                                 "run tarn index again",
                                 (unsigned long long)i);
        end = row.offset + TARN__BLOCK + row.size;
        shard = row.shard;
        runs += i == 0 || !tarn__row_same_key(tarn__index_at(index, i - 1),
                                              tarn__index_at(index, i));
    }
    if (index->contiguous ? runs != index->n_stems : runs < index->n_stems)
        return tarn__fail_at(err, TARN_ERR_FORMAT, index->path, 16,
                             "the index counts %llu samples, but its rows contain %llu; "
                             "run tarn index again",
                             (unsigned long long)index->n_stems,
                             (unsigned long long)runs);
    return TARN_OK;
}

/* Checks the header fields against each other and against the file size. */
static tarn_status check_header(tarn_index *index, const unsigned char *h,
                                tarn_error *err)
{
    uint64_t size = index->contents.size, rows_size;
    uint64_t collision_at = tarn__get64(h + TARIDX_OFF_CRASH);
    if (tarn__get16(h + TARIDX_MAJOR) != 1)
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, index->path, TARIDX_MAJOR,
                             "taridx version %u.%u is not supported (expected 1.x)",
                             tarn__get16(h + TARIDX_MAJOR),
                             tarn__get16(h + TARIDX_MINOR));
    if (tarn__get16(h + TARIDX_REC_SIZE) != TARN__ROW_SIZE ||
        tarn__get16(h + TARIDX_HDR_SIZE) != TARIDX_HEADER_SIZE)
        return bad(index, TARIDX_REC_SIZE, err, "rows or header with an unexpected size");
    if (tarn__get64(h + TARIDX_FLAGS) & ~(uint64_t)TARIDX_CONTIGUOUS)
        return bad(index, TARIDX_FLAGS, err, "unknown flags");
    index->n_stems = tarn__get64(h + TARIDX_N_STEMS);
    index->n_rows = tarn__get64(h + TARIDX_N_ROWS);
    index->rows_at = tarn__get64(h + TARIDX_OFF_ARR);
    index->contiguous = h[TARIDX_FLAGS] & TARIDX_CONTIGUOUS;
    if (collision_at < TARIDX_HEADER_SIZE || index->rows_at < collision_at ||
        index->rows_at > size)
        return bad(index, TARIDX_OFF_CRASH, err, "blocks outside the file");
    if (!tarn__mul(index->n_rows, TARN__ROW_SIZE, &rows_size) ||
        rows_size != size - index->rows_at || index->n_stems > index->n_rows ||
        (index->n_rows && !index->n_stems))
        return tarn__fail_at(
            err, TARN_ERR_FORMAT, index->path, TARIDX_N_STEMS,
            "impossible count: %llu samples in %llu rows, but the file has room for %llu "
            "rows; run tarn index again",
            (unsigned long long)index->n_stems, (unsigned long long)index->n_rows,
            (unsigned long long)((size - index->rows_at) / TARN__ROW_SIZE));
    if (index->n_rows > TARN_MAX_ROWS)
        return tarn__fail_at(err, TARN_ERR_LIMIT, index->path, TARIDX_N_ROWS,
                             "more than %llu rows", (unsigned long long)TARN_MAX_ROWS);
    uint64_t n_fields = tarn__get32(h + TARIDX_N_EXT);
    uint64_t n_collisions = tarn__get32(h + TARIDX_N_CRASH);
    if (n_fields > TARN_MAX_FIELDS || n_fields > collision_at - TARIDX_HEADER_SIZE + 1 ||
        n_collisions > index->rows_at - collision_at + 1 || n_collisions > index->n_rows)
        return bad(index, TARIDX_N_EXT, err, "impossible count of names");
    TARN_TRY(split_block(index, TARIDX_HEADER_SIZE, collision_at - TARIDX_HEADER_SIZE,
                         (uint32_t)n_fields, &index->fields, err));
    return split_block(index, collision_at, index->rows_at - collision_at,
                       (uint32_t)n_collisions, &index->collisions, err);
}

static tarn_status parse(tarn_index *index, tarn_error *err)
{
    unsigned char *h = index->contents.data;
    if (index->contents.size < TARIDX_HEADER_SIZE)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, index->path, index->contents.size,
                             "too short for an index: %llu bytes",
                             (unsigned long long)index->contents.size);
    if (memcmp(h, TARIDX_MAGIC, 8) != 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, index->path, 0, "not a taridx file");
    TARN_TRY(check_header(index, h, err));
    index->chunks = malloc(sizeof *index->chunks);
    if (!index->chunks) return tarn__fail_memory(err);
    index->chunks[0] = (tarn__chunk){0, h + index->rows_at};
    index->n_chunks = 1;
    return TARN_OK;
}

/* Loads a .tarsum, which must belong to exactly this index. */
static tarn_status load_sums_at(tarn_index *index, char *path, tarn_error *err)
{
    if (!path) return tarn__fail_memory(err);
    tarn__sums *sums = NULL;
    tarn_status status = tarn__sums_load(path, &sums, err);
    if (status == TARN_OK &&
        (sums->n_rows != index->n_rows || sums->index_size != index->contents.size ||
         sums->index_head != tarn__crc32c(0, index->contents.data, index->rows_at)))
        status = tarn__fail_at(err, TARN_ERR_STALE, path, TARN_NO_OFFSET,
                               "built for another version of %s, or one of the two is "
                               "damaged; run tarn index again",
                               index->path);
    if (status == TARN_OK)
        index->sums = sums;
    else
        tarn__sums_free(sums);
    free(path);
    return status;
}

static tarn_status check_stride(const tarn_index *index, tarn_error *err)
{
    uint32_t stride = index->sums->stride;
    if (!stride || (index->contiguous &&
                    stride == tarn__regular_stride(index->n_rows, index->n_stems)))
        return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_FORMAT, index->sums->path, 92,
                         "damaged: %u rows per sample, which does not match its index; "
                         "run tarn index again",
                         stride);
}

/* While an index is replaced, its sums may still have the name under which they wait: see
 * tarn__publish_pair. */
static tarn_status load_sums(tarn_index *index, tarn_error *err)
{
    tarn_error why;
    tarn_status status = load_sums_at(index, tarn__sums_path(index->path), &why);
    if (status == TARN_ERR_NO_FILE || status == TARN_ERR_STALE) {
        tarn_error ignored;
        tarn_status waiting =
            load_sums_at(index, tarn__sums_waiting_path(index->path), &ignored);
        if (waiting == TARN_OK || waiting == TARN_ERR_MEMORY) {
            status = waiting;
            why = ignored;
        }
    }
    if (status == TARN_ERR_NO_FILE) return TARN_OK;
    if (status != TARN_OK) {
        if (err) *err = why;
        return status;
    }
    index->sums->data[TARN__PART_ROWS] = index->chunks[0].rows;
    return check_stride(index, err);
}

static tarn_status load_once(const char *path, tarn__load how, tarn_index **out,
                             tarn_error *err)
{
    tarn_index *index = calloc(1, sizeof *index);
    if (!index) return tarn__fail_memory(err);
    tarn__names_init(&index->fields);
    tarn__names_init(&index->collisions);
    tarn_status status = tarn__contents_open(&index->contents, path, err);
    if (status == TARN_OK && !(index->path = strdup(path)))
        status = tarn__fail_memory(err);
    if (status == TARN_OK) status = parse(index, err);
    if (status == TARN_OK && how != TARN__LOAD_ALONE) status = load_sums(index, err);
    if (status == TARN_OK && !(how == TARN__LOAD_TRUSTING && index->sums))
        status = tarn__index_check(index, err);
    if (status == TARN_OK)
        *out = index;
    else
        tarn_index_free(index);
    return status;
}

tarn_status tarn__index_load(const char *path, tarn__load how, tarn_index **out,
                             tarn_error *err)
{
    tarn_status status = load_once(path, how, out, err);
    /* Both files may have been replaced between the two reads. */
    return status == TARN_ERR_STALE ? load_once(path, how, out, err) : status;
}

tarn_status tarn__index_show(tarn_index *index, const char *path, const char *sums_path,
                             tarn_error *err)
{
    char *copy = strdup(path), *sums_copy = strdup(sums_path);
    if (!copy || !sums_copy) {
        free(copy);
        free(sums_copy);
        return tarn__fail_memory(err);
    }
    free(index->path);
    index->path = copy;
    if (index->sums) {
        free(index->sums->path);
        index->sums->path = sums_copy;
    } else {
        free(sums_copy);
    }
    return TARN_OK;
}

tarn_status tarn_index_load(const char *path, tarn_index **out, tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    return tarn__index_load(path, TARN__LOAD_CHECKED, out, err);
}

void tarn_index_info_get(const tarn_index *index, tarn_index_info *out, size_t size)
{
    if (!index) {
        TARN__FILL_ZERO(out, size);
        return;
    }
    const tarn__sums *sums = index->sums;
    tarn_index_info info = {.rows = index->n_rows,
                            .samples = index->n_stems,
                            .fields = (uint32_t)index->fields.count,
                            .collisions = (uint32_t)index->collisions.count,
                            .contiguous = index->contiguous,
                            .has_sums = sums != NULL,
                            .has_checksums = sums && sums->checksums,
                            .keys_known = sums != NULL,
                            .keys = sums ? sums->keys : TARN_KEYS_BASE};
    TARN__FILL_OUT(out, size, info);
}

tarn_status tarn_index_sums_info(const char *path, tarn_index_info *out, size_t size,
                                 tarn_error *err)
{
    TARN__NEED(err, "path", path);
    TARN__NEED(err, "out", out);
    tarn_index *index;
    tarn__sums *sums;
    tarn_index_info known = {0};
    if (tarn__index_load(path, TARN__LOAD_TRUSTING, &index, NULL) == TARN_OK) {
        tarn_index_info_get(index, &known, sizeof known);
        tarn_index_free(index);
    }
    if (known.has_sums) {
        TARN__FILL_OUT(out, size, known);
        return TARN_OK;
    }
    char *sums_path = tarn__sums_path(path);
    if (!sums_path) return tarn__fail_memory(err);
    tarn_status status = tarn__sums_load(sums_path, &sums, err);
    free(sums_path);
    if (status != TARN_OK) return status;
    tarn_index_info info = {.rows = sums->n_rows,
                            .has_sums = true,
                            .has_checksums = sums->checksums != NULL,
                            .keys_known = true,
                            .keys = sums->keys};
    tarn__sums_free(sums);
    TARN__FILL_OUT(out, size, info);
    return TARN_OK;
}

tarn_status tarn_index_row(const tarn_index *index, uint64_t number, tarn_row *out,
                           tarn_error *err)
{
    TARN__NEED(err, "index", index);
    TARN__NEED(err, "out", out);
    if (number >= index->n_rows)
        return tarn__fail_at(err, TARN_ERR_USAGE, index->path, TARN_NO_OFFSET,
                             "row %llu of %llu", (unsigned long long)number,
                             (unsigned long long)index->n_rows);
    TARN_TRY(check_row(index, number, out, err));
    if (!tarn__map_is_torn(index->contents.data)) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, index->path, TARN_NO_OFFSET,
                         "the index was truncated while it was in use");
}

const char *tarn_index_field(const tarn_index *index, uint32_t number)
{
    if (!index) return NULL;
    if (number >= index->fields.count) return NULL;
    return tarn__names_get(&index->fields, number).data;
}

const char *tarn_index_collision(const tarn_index *index, uint32_t number)
{
    if (!index) return NULL;
    if (number == 0 || number > index->collisions.count) return NULL;
    return tarn__names_get(&index->collisions, number - 1).data;
}
