/* Writes the index of several parts: see join.h. The key order is written first, because
 * it shows which keys collide, and the rows come after the names of those keys. */
#include "itar/join.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/error.h"
#include "base/pool.h"
#include "itar/extsort.h"
#include "itar/join_inside.h"
#include "itar/regular.h"
#include "tar/keys.h"

enum { BUFFER = 64 * TARN__SUMS_PAGE, ROWS_AT_ONCE = BUFFER / TARN__ROW_SIZE };
#define SORT_MEMORY ((size_t)64 << 20)

/* --- A section: bytes at an offset, with a CRC for each page -------------------------
 */

typedef struct section {
    tarn__publish *file;
    uint64_t at; /* where the buffer is written */
    unsigned char *buffer;
    size_t used;
    uint32_t *pages; /* the CRC of the next page */
} section;

static tarn_status section_begin(section *s, tarn__publish *file, uint64_t at,
                                 uint32_t *pages, tarn_error *err)
{
    *s = (section){.file = file, .at = at, .pages = pages, .buffer = malloc(BUFFER)};
    return s->buffer ? TARN_OK : tarn__fail_memory(err);
}

static tarn_status section_flush(section *s, tarn_error *err)
{
    for (size_t i = 0; i < s->used; i += TARN__SUMS_PAGE) {
        size_t left = s->used - i;
        size_t len = left < TARN__SUMS_PAGE ? left : TARN__SUMS_PAGE;
        *s->pages++ = tarn__crc32c(0, s->buffer + i, len);
    }
    TARN_TRY(tarn__publish_write_at(s->file, s->buffer, s->used, s->at, err));
    s->at += s->used;
    s->used = 0;
    return TARN_OK;
}

/* Room for size bytes, which divides BUFFER. */
static tarn_status section_next(section *s, size_t size, unsigned char **out,
                                tarn_error *err)
{
    if (s->used + size > BUFFER) TARN_TRY(section_flush(s, err));
    *out = s->buffer + s->used;
    s->used += size;
    return TARN_OK;
}

static tarn_status section_end(section *s, tarn_status status, tarn_error *err)
{
    if (status == TARN_OK && s->used) status = section_flush(s, err);
    free(s->buffer);
    s->buffer = NULL;
    return status;
}

/* --- What the parts contain --------------------------------------------------------- */

typedef struct joining {
    tarn__joiner j;
    tarn__sums *sums; /* of the joined index */
    bool checksums;   /* all parts have them */
    bool irregular;
    tarn__regular regular;
    uint32_t *pages[TARN__PARTS];
    tarn__saving *saving;
} joining;

static tarn_status load_part(const joining *g, size_t number, tarn_index **out,
                             tarn_error *err)
{
    const char *path = g->j.join->parts[number].index_path;
    TARN_TRY(tarn__index_load(path, TARN__LOAD_TRUSTING, out, err));
    if ((*out)->sums) return TARN_OK;
    tarn_index_free(*out);
    return tarn__fail_at(err, TARN_ERR_NO_FILE, path, TARN_NO_OFFSET,
                         "the .tarsum of this index is missing; write it again");
}

static tarn_status take_fields(joining *g, const tarn_index *part, tarn__joined *p,
                               tarn_error *err)
{
    uint32_t id;
    p->n_fields = (uint32_t)part->fields.count;
    p->fields = malloc((p->n_fields + 1) * sizeof *p->fields);
    if (!p->fields) return tarn__fail_memory(err);
    for (uint32_t i = 0; i < p->n_fields; i++) {
        tarn__name name = tarn__names_get(&part->fields, i);
        TARN_TRY(tarn__names_add(&g->j.index->fields, name.data, name.size, &id, err));
        if (id >= TARN_MAX_FIELDS)
            return tarn__fail(
                err, TARN_ERR_LIMIT,
                "more than %u different fields; an index cannot number them",
                TARN_MAX_FIELDS);
        p->fields[i] = (uint16_t)id;
    }
    return TARN_OK;
}

static tarn_status take_stamps(joining *g, const tarn_index *part, tarn_error *err)
{
    tarn__sums *to = g->sums;
    const tarn__sums *from = part->sums;
    if (from->n_shards > g->j.join->n_names - to->n_shards)
        return tarn__fail_at(err, TARN_ERR_STALE, part->path, TARN_NO_OFFSET,
                             "the index has more shards than were expected");
    if (to->n_shards && from->keys != to->keys)
        return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, part->path, TARN_NO_OFFSET,
                             "its rule for keys differs from that of other parts");
    to->keys = from->keys;
    memcpy(to->stamps + to->n_shards, from->stamps,
           from->n_shards * sizeof *from->stamps);
    to->n_shards += from->n_shards;
    return TARN_OK;
}

static tarn_status survey_part(joining *g, size_t number, const tarn_index *part,
                               tarn_error *err)
{
    tarn__joined *p = &g->j.parts[number];
    tarn_index *all = g->j.index;
    p->first_row = g->j.first_rows[number] = all->n_rows;
    p->first_shard = (uint32_t)g->sums->n_shards;
    p->n_rows = part->n_rows;
    p->n_shards = (uint32_t)part->sums->n_shards;
    p->n_collisions = (uint32_t)part->collisions.count;
    all->n_rows += part->n_rows;
    all->n_stems += part->n_stems;
    all->contiguous = all->contiguous && part->contiguous;
    g->checksums = g->checksums && (part->sums->checksums || !part->n_rows);
    if (all->n_rows > TARN_MAX_ROWS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "more than %llu members in one fold; commit some of the parts "
                          "as another fold",
                          (unsigned long long)TARN_MAX_ROWS);
    TARN_TRY(take_fields(g, part, p, err));
    return take_stamps(g, part, err);
}

static tarn_status add_names(joining *g, tarn_error *err)
{
    uint32_t id;
    const tarn__join *join = g->j.join;
    for (size_t i = 0; i < join->n_names; i++) {
        TARN_TRY(tarn__names_add(&g->sums->names, join->names[i], strlen(join->names[i]),
                                 &id, err));
        if (id != i)
            return tarn__fail_at(err, TARN_ERR_EXISTS, join->names[i], TARN_NO_OFFSET,
                                 "a shard is in two parts");
    }
    if (g->sums->n_shards == join->n_names) return TARN_OK;
    return tarn__fail(err, TARN_ERR_STALE, "the indexes have %zu shards, not %zu",
                      g->sums->n_shards, join->n_names);
}

static tarn_status survey(joining *g, tarn_error *err)
{
    const tarn__join *join = g->j.join;
    g->j.parts = calloc(join->count + 1, sizeof *g->j.parts);
    g->j.first_rows = calloc(join->count + 1, sizeof *g->j.first_rows);
    g->j.index = tarn__index_new();
    if (!g->j.parts || !g->j.first_rows || !g->j.index) return tarn__fail_memory(err);
    g->sums = g->j.index->sums = tarn__sums_new();
    if (!g->sums) return tarn__fail_memory(err);
    g->sums->stamps = malloc((join->n_names + 1) * sizeof *g->sums->stamps);
    if (!g->sums->stamps) return tarn__fail_memory(err);
    g->j.index->contiguous = g->checksums = true;
    for (size_t i = 0; i < join->count; i++) {
        tarn_index *part;
        TARN_TRY(load_part(g, i, &part, err));
        tarn_status status = survey_part(g, i, part, err);
        tarn_index_free(part);
        TARN_TRY(status);
    }
    g->sums->n_rows = g->j.index->n_rows;
    return add_names(g, err);
}

/* --- The sums ----------------------------------------------------------------------- */

/* The parts of the sums are in the file, so these only say that they exist. */
static void announce_parts(joining *g, bool on)
{
    static uint32_t present;
    g->sums->order = on ? &present : NULL;
    g->sums->checksums = on && g->checksums ? &present : NULL;
}

static tarn_status lay_out(joining *g, tarn__buf *head, tarn_error *err)
{
    uint64_t count[TARN__PARTS], all = 0;
    announce_parts(g, true);
    for (int part = 0; part < TARN__PARTS; part++)
        all += count[part] = tarn__sums_page_count(g->sums, (tarn__part)part);
    uint32_t *pages = g->sums->pages = calloc((size_t)all + 1, sizeof *pages);
    if (!pages) return tarn__fail_memory(err);
    for (int part = 0; part < TARN__PARTS; part++) {
        g->pages[part] = pages;
        pages += count[part];
    }
    return tarn__sums_head(g->sums, head, err);
}

/* --- The key order ------------------------------------------------------------------ */

static tarn_status damaged(const tarn_index *part, uint64_t row, tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_FORMAT, part->path,
                         part->rows_at + row * TARN__ROW_SIZE,
                         "row %llu refers to a shard, field or key that does not exist",
                         (unsigned long long)row);
}

/* Runs of rows with one key. */
static tarn_status sort_part(joining *g, size_t number, tarn__extsort *sort,
                             tarn_error *err)
{
    tarn_index *part;
    uint32_t first = (uint32_t)g->j.parts[number].first_row;
    TARN_TRY(load_part(g, number, &part, err));
    tarn_status status = tarn__sums_check_all(part->sums, TARN__PART_ROWS, err);
    tarn__run run = {0};
    for (uint64_t i = 0; status == TARN_OK && i < part->n_rows; i++) {
        const unsigned char *row = tarn__index_at(part, i);
        if (i && tarn__row_same_key(row - TARN__ROW_SIZE, row)) {
            run.tag++;
            continue;
        }
        if (i) status = tarn__extsort_add(sort, &run, err);
        run = (tarn__run){tarn__row_hash(row), (uint32_t)(first + i), 1};
    }
    if (status == TARN_OK && part->n_rows) status = tarn__extsort_add(sort, &run, err);
    tarn_index_free(part);
    return status;
}

static tarn_status put_group(joining *g, section *order, tarn_error *err)
{
    TARN_TRY(tarn__join_group(&g->j, err));
    for (size_t i = 0; i < g->j.n_group; i++)
        for (uint32_t k = 0; k < g->j.group[i].tag; k++) {
            unsigned char *to;
            TARN_TRY(section_next(order, 4, &to, err));
            tarn__put32(to, g->j.group[i].row + k);
        }
    g->j.n_group = 0;
    return TARN_OK;
}

static tarn_status merge_pieces(joining *g, tarn__extsort *sort, section *order,
                                tarn_error *err)
{
    tarn__joiner *j = &g->j;
    tarn__run run;
    tarn_status status;
    while ((status = tarn__extsort_next(sort, &run, err)) == TARN_OK) {
        if (j->n_group && j->group[0].hash != run.hash)
            TARN_TRY(put_group(g, order, err));
        TARN_TRY(
            tarn__grow(&j->group, sizeof *j->group, j->n_group, &j->group_capacity, err));
        j->group[j->n_group++] = run;
    }
    if (status != TARN_END) return status;
    return j->n_group ? put_group(g, order, err) : TARN_OK;
}

/* Writes the order to the sums, and numbers the keys that collide. */
static tarn_status write_order(joining *g, uint64_t at, tarn_error *err)
{
    const tarn__join *join = g->j.join;
    tarn__extsort sort;
    section order;
    TARN_TRY(
        section_begin(&order, &g->saving->sums, at, g->pages[TARN__PART_ORDER], err));
    tarn_status status = tarn__extsort_init(&sort, g->saving->rows.final,
                                            join->memory ? join->memory : SORT_MEMORY,
                                            tarn__thread_count(join->threads), err);
    for (size_t i = 0; status == TARN_OK && i < join->count; i++)
        status = sort_part(g, i, &sort, err);
    if (status == TARN_OK) status = tarn__extsort_begin(&sort, err);
    if (status == TARN_OK) status = merge_pieces(g, &sort, &order, err);
    tarn__extsort_reset(&sort);
    status = section_end(&order, status, err);
    return status == TARN_OK ? tarn__join_number(&g->j, err) : status;
}

/* --- Rows and checksums ------------------------------------------------------------- */

/* The first sample shows what regular rows would be. */
static void begin_regular(joining *g, const unsigned char *rows, size_t count)
{
    const tarn_index *all = g->j.index;
    uint32_t stride = tarn__regular_stride(all->n_rows, all->n_stems);
    g->irregular = !all->contiguous || !stride || count < stride;
    if (g->irregular) return;
    for (uint32_t k = 0; k < stride; k++)
        g->regular.fields[k] = tarn__row_field(rows + (size_t)k * TARN__ROW_SIZE);
    tarn__regular_begin(&g->regular, stride, rows);
}

static tarn_status translate(const joining *g, size_t number, const tarn_index *part,
                             uint64_t at, unsigned char *to, tarn_error *err)
{
    const tarn__joined *p = &g->j.parts[number];
    tarn_row row;
    tarn__row_get(tarn__index_at(part, at), &row);
    if (row.shard >= p->n_shards || row.field >= p->n_fields ||
        row.collision > p->n_collisions)
        return damaged(part, at, err);
    row.shard = (uint16_t)(row.shard + p->first_shard);
    row.field = p->fields[row.field];
    row.collision =
        tarn__join_collision(&g->j, row.keyhash, (uint32_t)number, row.collision);
    tarn__row_put(to, &row);
    return TARN_OK;
}

/* Rows are translated in the buffer of the section, some at a time. */
static tarn_status copy_rows(joining *g, size_t number, const tarn_index *part,
                             section *rows, tarn_error *err)
{
    bool first = g->j.parts[number].first_row == 0;
    for (uint64_t at = 0; at < part->n_rows;) {
        uint64_t left = part->n_rows - at;
        if (rows->used == BUFFER) TARN_TRY(section_flush(rows, err));
        size_t room = (BUFFER - rows->used) / TARN__ROW_SIZE;
        size_t count = left < room ? (size_t)left : room;
        unsigned char *to = rows->buffer + rows->used;
        for (size_t i = 0; i < count; i++)
            TARN_TRY(translate(g, number, part, at + i, to + i * TARN__ROW_SIZE, err));
        if (first && at == 0) begin_regular(g, to, count);
        if (!g->irregular) g->irregular = !tarn__regular_next(&g->regular, to, count);
        rows->used += count * TARN__ROW_SIZE;
        at += count;
    }
    return TARN_OK;
}

static tarn_status copy_checksums(const joining *g, const tarn_index *part,
                                  section *checksums, tarn_error *err)
{
    if (!g->checksums || !part->n_rows) return TARN_OK;
    TARN_TRY(tarn__sums_check_all(part->sums, TARN__PART_CHECKSUMS, err));
    for (uint64_t i = 0; i < part->n_rows; i++) {
        unsigned char *to;
        TARN_TRY(section_next(checksums, 4, &to, err));
        tarn__put32(to, part->sums->checksums[i]);
    }
    return TARN_OK;
}

static tarn_status copy_part(joining *g, size_t number, section *rows, section *checksums,
                             tarn_error *err)
{
    tarn_index *part;
    TARN_TRY(load_part(g, number, &part, err));
    tarn_status status = part->n_rows == g->j.parts[number].n_rows
                             ? tarn__sums_check_all(part->sums, TARN__PART_ROWS, err)
                             : tarn__fail_at(err, TARN_ERR_STALE, part->path,
                                             TARN_NO_OFFSET, "changed while it was read");
    if (status == TARN_OK) status = copy_rows(g, number, part, rows, err);
    if (status == TARN_OK) status = copy_checksums(g, part, checksums, err);
    tarn_index_free(part);
    return status;
}

static tarn_status copy_all(joining *g, uint64_t rows_at, uint64_t checksums_at,
                            tarn_error *err)
{
    section rows, checksums;
    g->irregular = true;
    TARN_TRY(
        section_begin(&rows, &g->saving->rows, rows_at, g->pages[TARN__PART_ROWS], err));
    tarn_status status = section_begin(&checksums, &g->saving->sums, checksums_at,
                                       g->pages[TARN__PART_CHECKSUMS], err);
    for (size_t i = 0; status == TARN_OK && i < g->j.join->count; i++)
        status = copy_part(g, i, &rows, &checksums, err);
    status = section_end(&rows, status, err);
    return section_end(&checksums, status, err);
}

/* --- Writing ------------------------------------------------------------------------ */

static tarn_status write_heads(joining *g, const tarn__buf *head, tarn_error *err)
{
    tarn_index *all = g->j.index;
    tarn__buf sums;
    g->sums->stride = g->irregular ? 0 : g->regular.stride;
    g->sums->index_size = head->size + all->n_rows * TARN__ROW_SIZE;
    g->sums->index_head = tarn__crc32c(0, head->data, head->size);
    tarn__buf_init(&sums, SIZE_MAX / 2);
    tarn_status status = tarn__sums_head(g->sums, &sums, err);
    if (status == TARN_OK)
        status = tarn__publish_write_at(&g->saving->sums, sums.data, sums.size, 0, err);
    if (status == TARN_OK)
        status = tarn__publish_write_at(&g->saving->rows, head->data, head->size, 0, err);
    tarn__buf_reset(&sums);
    return status;
}

static tarn_status write_both(joining *g, tarn_error *err)
{
    tarn__buf head, sums;
    tarn__buf_init(&head, SIZE_MAX / 2);
    tarn__buf_init(&sums, SIZE_MAX / 2);
    tarn_status status = lay_out(g, &sums, err);
    uint64_t order_at = sums.size, block = 4 * g->sums->n_rows;
    tarn__buf_reset(&sums);
    if (status == TARN_OK) status = write_order(g, order_at, err);
    if (status == TARN_OK) status = tarn__index_head(g->j.index, &head, err);
    if (status == TARN_OK) status = copy_all(g, head.size, order_at + block, err);
    if (status == TARN_OK) status = write_heads(g, &head, err);
    tarn__buf_reset(&head);
    return status;
}

static tarn_status prepare(joining *g, const char *path, bool no_sync, tarn_error *err)
{
    tarn__saving *s = g->saving;
    char *sums_path = tarn__sums_path(path);
    if (!sums_path) return tarn__fail_memory(err);
    tarn_status status = tarn__publish_begin(&s->rows, path, err);
    if (status == TARN_OK) status = tarn__publish_begin(&s->sums, sums_path, err);
    free(sums_path);
    s->rows.no_sync = s->sums.no_sync = no_sync;
    if (status == TARN_OK) status = write_both(g, err);
    if (status == TARN_OK) status = tarn__publish_sync(&s->rows, err);
    return status == TARN_OK ? tarn__publish_sync(&s->sums, err) : status;
}

static void close_joining(joining *g)
{
    if (g->sums) announce_parts(g, false);
    tarn__join_close(&g->j);
}

tarn_status tarn__index_join(const tarn__join *join, const char *path, tarn__saving *out,
                             tarn_index_info *out_info, tarn_error *err)
{
    joining g = {.j = {.join = join}, .saving = out};
    *out = (tarn__saving){.rows = {.fd = -1}, .sums = {.fd = -1}};
    tarn_status status = survey(&g, err);
    if (status == TARN_OK) status = prepare(&g, path, join->no_sync, err);
    if (status == TARN_OK && out_info)
        tarn_index_info_get(g.j.index, out_info, sizeof *out_info);
    if (status != TARN_OK) tarn__saving_reset(out);
    close_joining(&g);
    return status;
}
