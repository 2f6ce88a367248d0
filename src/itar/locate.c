/* Checks the header that a row refers to. Most members are fully described by their own
 * header and directly follow the member of the previous row. If there is a gap between
 * the two, it may contain extended headers with the name or the size, so it is parsed as
 * a reader of the archive would. */
#include "itar/locate.h"

#include <string.h>

#include "base/error.h"
#include "io/remote.h"
#include "tar/header.h"
#include "tar/pax.h"

/* How far back extended headers are searched: a long name and a long link name. */
#define MAX_LOOK (2 * (TARN_MAX_EXTENDED + TARN__BLOCK))

typedef struct lookup {
    const tarn__place *place;
    tarn__located *out;
    uint64_t number; /* of the row */
    uint64_t size;   /* according to the headers */
} lookup;

void tarn__located_init(tarn__located *l)
{
    l->name = NULL;
    l->name_len = 0;
    l->before = NULL;
    l->before_size = 0;
    tarn__buf_init(&l->text, TARN_MAX_EXTENDED);
    tarn__splitter_init(&l->splitter);
}

void tarn__located_reset(tarn__located *l)
{
    tarn__buf_reset(&l->text);
    tarn__splitter_reset(&l->splitter);
}

static tarn_status get_block(const lookup *l, uint64_t offset, unsigned char *block,
                             tarn_error *err)
{
    tarn_view view;
    TARN_TRY(tarn__filecache_view(l->place->files, l->out->row.shard, offset, TARN__BLOCK,
                                  &view, err));
    memcpy(block, view.data, TARN__BLOCK);
    tarn_view_release(&view);
    return TARN_OK;
}

/* Whether the key matches the row: hash, collision number and field. */
static bool key_fits(const lookup *l, const tarn__key *key)
{
    const tarn_row *row = &l->out->row;
    tarn__name field = tarn__names_get(&l->place->index->fields, row->field);
    if (field.size != key->field_len || memcmp(field.data, key->field, field.size) != 0 ||
        l->place->hash(key->stem, key->stem_len) != row->keyhash)
        return false;
    if (l->place->index->collisions.count == 0) return row->collision == 0;
    uint32_t id =
        tarn__names_find(&l->place->index->collisions, key->stem, key->stem_len);
    return row->collision == (id == TARN__NAME_NONE ? 0 : id + 1);
}

/* Whether the name in out (by either key rule, unless one is known) and the size match.
 * Fails only if out of memory. */
static tarn_status check_fit(lookup *l, bool *out_fits, tarn_error *err)
{
    tarn__located *out = l->out;
    const tarn__sums *sums = l->place->index->sums;
    *out_fits = false;
    if (l->size != out->row.size) return TARN_OK;
    for (int rule = TARN_KEYS_BASE; rule <= TARN_KEYS_PATH && !*out_fits; rule++) {
        if (sums && (int)sums->keys != rule) continue;
        tarn_status status = tarn__split(&out->splitter, (tarn_keys)rule, out->name,
                                         out->name_len, &out->key, err);
        if (status == TARN_ERR_MEMORY) return status;
        *out_fits = status == TARN_OK && key_fits(l, &out->key);
    }
    return TARN_OK;
}

/* Copies a name that is not stored as is in the block, because the view it comes from
 * goes away. */
static tarn_status take_name(tarn__located *out, const char *prefix, size_t prefix_len,
                             const char *name, size_t len, tarn_error *err)
{
    out->text.size = 0;
    if (prefix_len) {
        TARN_TRY(tarn__buf_add(&out->text, prefix, prefix_len, err));
        TARN_TRY(tarn__buf_add(&out->text, "/", 1, err));
    }
    TARN_TRY(tarn__buf_add(&out->text, name, len, err));
    out->name = out->text.data;
    out->name_len = out->text.size;
    return TARN_OK;
}

/* Applies an extended header whose records are the size bytes at text. */
static tarn_status apply_extended(lookup *l, tarn__kind kind, const char *text,
                                  size_t size, tarn_error *err)
{
    tarn__pax pax;
    if (kind == TARN__GNU_NAME)
        return take_name(l->out, NULL, 0, text, strnlen(text, size), err);
    if (kind != TARN__PAX) return TARN_OK;
    TARN_TRY(tarn__pax_parse(text, size, &pax, err));
    if (pax.has_size) l->size = pax.size;
    return pax.path ? take_name(l->out, NULL, 0, pax.path, pax.path_len, err) : TARN_OK;
}

/* Extended headers found in a gap, until a member uses them. */
typedef struct pending {
    const unsigned char *header[2];
    tarn__kind first; /* kind of header[0] */
    unsigned count;
    uint64_t pax_size;
    bool has_pax_size;
} pending;

static bool extends_member(tarn__kind kind)
{
    return kind == TARN__PAX || kind == TARN__GNU_NAME || kind == TARN__GNU_LINK;
}

/* If there are two headers for the name, a strict reader rejects the second and a lenient
 * one uses the header next to the member. So the search ends at a second one. */
static bool add_pending(pending *p, const unsigned char *block, tarn__kind kind)
{
    if (p->count == 2 || (p->count && p->first == kind)) return false;
    if (p->count == 0) p->first = kind;
    p->header[p->count++] = block;
    return true;
}

/* Processes one header of a gap: remembers an extended header, skips a member that has no
 * row. */
static bool pass_header(const unsigned char *data, size_t len, size_t *at, pending *p)
{
    tarn__header header;
    tarn__pax pax;
    if (tarn__header_parse(data + *at, &header, NULL) != TARN_OK) return false;
    uint64_t size = header.size;
    if (extends_member(header.kind)) {
        /* The headers are not in a valid order. */
        if (header.kind == TARN__PAX && p->count) return false;
        if (!add_pending(p, data + *at, header.kind)) return false;
    } else {
        if (header.kind == TARN__REGULAR && p->has_pax_size) size = p->pax_size;
        *p = (pending){0};
    }
    uint64_t room = len - *at - TARN__BLOCK;
    uint64_t padded = (size + TARN__BLOCK - 1) & ~(uint64_t)(TARN__BLOCK - 1);
    if (size > room || padded > room) return false;
    if (header.kind == TARN__PAX) {
        const char *records = (const char *)data + *at + TARN__BLOCK;
        if (tarn__pax_parse(records, (size_t)size, &pax, NULL) != TARN_OK) return false;
        p->has_pax_size = pax.has_size;
        p->pax_size = pax.size;
    }
    *at += TARN__BLOCK + (size_t)padded;
    return true;
}

/* Parses the gap from its start, header by header, as a reader does. */
static bool walk_gap(const unsigned char *data, size_t len, pending *out)
{
    size_t at = 0;
    *out = (pending){0};
    while (at < len)
        if (!pass_header(data, len, &at, out)) return false;
    return true;
}

/* Searches the gap from its end if its start cannot be parsed: it may contain damage that
 * a lenient reader skipped. */
static void look_back(const unsigned char *data, size_t len, pending *out)
{
    tarn__header header;
    tarn__pax pax;
    *out = (pending){0};
    for (size_t back = 2 * TARN__BLOCK; back <= len && out->count < 2;
         back += TARN__BLOCK) {
        const unsigned char *block = data + len - back;
        if (!tarn__header_sum_matches(block) ||
            tarn__header_parse(block, &header, NULL) != TARN_OK ||
            !extends_member(header.kind))
            continue;
        uint64_t blocks = (header.size + TARN__BLOCK - 1) / TARN__BLOCK;
        if ((blocks + 1) * TARN__BLOCK != back) continue;
        /* Data that no reader accepts as records gives no name. If it was damaged later,
         * the name does not match. */
        if (header.kind == TARN__PAX &&
            tarn__pax_parse((const char *)block + TARN__BLOCK, (size_t)header.size, &pax,
                            NULL) != TARN_OK)
            continue;
        if (!add_pending(out, block, header.kind) || header.kind == TARN__PAX) return;
        len -= back;
        back = TARN__BLOCK;
    }
}

static tarn_status apply_all(lookup *l, const unsigned char *data, size_t len,
                             bool from_front, tarn_error *err)
{
    tarn__header header;
    pending found;
    if (!from_front || !walk_gap(data, len, &found)) look_back(data, len, &found);
    for (unsigned i = 0; i < found.count; i++) {
        TARN_TRY(tarn__header_parse(found.header[i], &header, err));
        TARN_TRY(apply_extended(l, header.kind,
                                (const char *)found.header[i] + TARN__BLOCK,
                                (size_t)header.size, err));
    }
    return TARN_OK;
}

/* Whether the size in the previous row is right. With sums it is; without, its header
 * must agree. */
static bool is_true_size(const lookup *l, const tarn_row *before)
{
    unsigned char block[TARN__BLOCK];
    tarn__header header;
    return l->place->index->sums || l->place->remote ||
           (get_block(l, before->offset, block, NULL) == TARN_OK &&
            tarn__header_parse(block, &header, NULL) == TARN_OK &&
            header.size == before->size);
}

/* Number of bytes between the member of the previous row and this row's header. A row
 * that is not located before this one gives no information. */
static uint64_t gap_between(const tarn_row *before, const tarn_row *row)
{
    uint64_t end = before->offset + TARN__BLOCK + before->size;
    end = (end + TARN__BLOCK - 1) & ~(uint64_t)(TARN__BLOCK - 1);
    return row->offset >= end ? row->offset - end : row->offset;
}

static tarn_status measure_gap(const lookup *l, uint64_t *out, tarn_error *err)
{
    tarn_row before;
    const tarn_row *row = &l->out->row;
    *out = row->offset;
    if (l->number == 0) return TARN_OK;
    TARN_TRY(tarn_index_row(l->place->index, l->number - 1, &before, err));
    if (before.shard != row->shard || !is_true_size(l, &before)) return TARN_OK;
    *out = gap_between(&before, row);
    return TARN_OK;
}

size_t tarn__locate_before(const tarn__place *place, const tarn_row *row, uint64_t number)
{
    tarn_row before;
    uint64_t gap = row->offset;
    bool remote = place->remote || tarn__remote_current()->tally;
    if (!place->index->sums && !remote) return 0;
    if (number && tarn_index_row(place->index, number - 1, &before, NULL) != TARN_OK)
        return 0;
    if (number && before.shard == row->shard) gap = gap_between(&before, row);
    return gap <= TARN__LOCATE_BEFORE ? (size_t)gap : 0;
}

static tarn_status look_into_gap(lookup *l, tarn_error *err)
{
    tarn_view view;
    uint64_t gap;
    TARN_TRY(measure_gap(l, &gap, err));
    if (gap < 2 * TARN__BLOCK) return TARN_OK;
    bool whole = gap <= MAX_LOOK;
    if (!whole) gap = MAX_LOOK;
    const tarn_row *row = &l->out->row;
    if (whole && gap == l->out->before_size)
        return apply_all(l, l->out->before, (size_t)gap, true, err);
    TARN_TRY(tarn__filecache_view(l->place->files, row->shard, row->offset - gap,
                                  (size_t)gap, &view, err));
    tarn_status status = apply_all(l, view.data, (size_t)gap, whole, err);
    tarn_view_release(&view);
    return status;
}

static tarn_status fail_stale(const lookup *l, tarn_error *err)
{
    const tarn_row *row = &l->out->row;
    const tarn_index *index = l->place->index;
    return tarn__fail_at(
        err, TARN_ERR_STALE, tarn__filecache_path(l->place->files, row->shard),
        row->offset,
        "row %llu of the index says field %s, %llu bytes, key hash %016llx, but the "
        "shard has member %s of %llu bytes here: the index does not belong to this "
        "shard; run tarn index again",
        (unsigned long long)l->number, tarn__names_get(&index->fields, row->field).data,
        (unsigned long long)row->size, (unsigned long long)row->keyhash,
        TARN__SHOW(l->out->name, l->out->name_len), (unsigned long long)l->size);
}

static tarn_status parse_block(lookup *l, tarn_error *err)
{
    tarn__header header;
    tarn__located *out = l->out;
    const char *path = tarn__filecache_path(l->place->files, out->row.shard);
    tarn_error why;
    if (tarn__header_parse(out->block, &header, &why) != TARN_OK)
        return tarn__fail_at(err, TARN_ERR_STALE, path, out->row.offset,
                             "row %llu of the index points here, but %s; the shard is "
                             "damaged or the index does not belong to it",
                             (unsigned long long)l->number, why.message);
    if (header.kind != TARN__REGULAR)
        return tarn__fail_at(err, TARN_ERR_STALE, path, out->row.offset,
                             "row %llu of the index points here, but this is not a "
                             "regular file (type 0x%02x); run tarn index again",
                             (unsigned long long)l->number, (unsigned char)header.type);
    l->size = header.size;
    out->name = header.name;
    out->name_len = header.name_len;
    if (header.prefix_len == 0) return TARN_OK;
    return take_name(out, header.prefix, header.prefix_len, header.name, header.name_len,
                     err);
}

/* Reports a row that is not inside a shard. */
static tarn_status fail_row(const tarn__place *place, uint64_t number,
                            const tarn_row *row, tarn_error *err)
{
    size_t shards = tarn__filecache_count(place->files);
    if (row->shard >= shards)
        return tarn__fail_at(
            err, TARN_ERR_STALE, place->index->path, TARN_NO_OFFSET,
            "row %llu is in shard %u, but there are %zu shards; run tarn index again",
            (unsigned long long)number, row->shard, shards);
    return tarn__fail_at(
        err, TARN_ERR_STALE, tarn__filecache_path(place->files, row->shard), row->offset,
        "row %llu of the index: offset past the end of the shard, which has %llu bytes; "
        "run tarn index again",
        (unsigned long long)number,
        (unsigned long long)tarn__filecache_size(place->files, row->shard));
}

tarn_status tarn__locate_row(const tarn__place *place, uint64_t number, tarn_row *out,
                             tarn_error *err)
{
    TARN_TRY(tarn_index_row(place->index, number, out, err));
    if (tarn__filecache_reaches(place->files, out->shard,
                                out->offset + TARN__BLOCK + out->size))
        return TARN_OK;
    return fail_row(place, number, out, err);
}

tarn_status tarn__locate_check(const tarn__place *place, uint64_t number,
                               tarn__located *out, tarn_error *err)
{
    lookup l = {.place = place, .out = out, .number = number};
    TARN_TRY(parse_block(&l, err));
    TARN_TRY(look_into_gap(&l, err));
    bool fits;
    TARN_TRY(check_fit(&l, &fits, err));
    return fits ? TARN_OK : fail_stale(&l, err);
}

tarn_status tarn__locate(const tarn__place *place, uint64_t number, tarn__located *out,
                         tarn_error *err)
{
    lookup l = {.place = place, .out = out, .number = number};
    TARN_TRY(tarn__locate_row(place, number, &out->row, err));
    TARN_TRY(get_block(&l, out->row.offset, out->block, err));
    return tarn__locate_check(place, number, out, err);
}

/* --- Keys from one header only ----------------------------------------------------- */

/* Whether the member directly follows the member of the previous row. */
static bool follows(const tarn_index *index, uint64_t number, const tarn_row *row)
{
    tarn_row before;
    if (number == 0) return row->offset == 0;
    if (!index->sums || tarn_index_row(index, number - 1, &before, NULL) != TARN_OK)
        return false;
    if (before.shard != row->shard) return row->offset == 0;
    uint64_t end = before.offset + TARN__BLOCK + before.size;
    return row->offset == ((end + TARN__BLOCK - 1) & ~(uint64_t)(TARN__BLOCK - 1));
}

bool tarn__locate_name_key(const tarn__place *place, const unsigned char *header,
                           tarn__key *out)
{
    const char *name = (const char *)header, *base = name, *dot = NULL;
    const char *at = name, *limit = name + TARN__NAME_SIZE;
    for (; at < limit && *at; at++) {
        if (*at == '/') base = at + 1, dot = NULL;
        if (*at == '.' && !dot) dot = at;
    }
    if (at == limit || !dot) return false;
    out->stem = place->index->sums->keys == TARN_KEYS_PATH ? name : base;
    out->stem_len = (size_t)(dot - out->stem);
    return true;
}

static bool is_printable(const char *name)
{
    for (size_t i = 0; i < TARN__NAME_SIZE && name[i]; i++)
        if (name[i] <= ' ' || name[i] > '~') return false;
    return true;
}

bool tarn__locate_plain_key(const tarn__place *place, uint64_t number,
                            const tarn_row *row, const unsigned char *header,
                            tarn__key *out)
{
    const tarn_index *index = place->index;
    return index->sums && !index->collisions.count && !header[TARN__PREFIX_AT] &&
           follows(index, number, row) && tarn__locate_name_key(place, header, out) &&
           is_printable((const char *)header) &&
           place->hash(out->stem, out->stem_len) == row->keyhash;
}
