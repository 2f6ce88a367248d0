/* Merges scanned shards into one index.
 *
 * Runs are sorted by hash. Runs with the same hash belong to one sample if their keys are
 * equal, otherwise their keys collide. As the format requires, the key seen first has
 * collision number 0, and all other colliding keys of the fold are numbered in the order
 * they were first seen. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/sort.h"
#include "io/filecache.h"
#include "itar/key_order.h"
#include "itar/locate.h"
#include "itar/remote_place.h"
#include "itar/scan.h"

typedef struct merger {
    tarn__build *build;
    tarn_index *index;
    tarn_index_report *report;
    tarn__run *runs; /* tag: number of rows */
    size_t n_runs;
    uint64_t *first_row; /* of each shard */
    /* Runs whose key is not the first with its hash: hash is the key's first row, row the
     * run's own first row, tag the number of rows. */
    tarn__run *strangers;
    size_t n_strangers, stranger_capacity;
    tarn__run *pairs; /* pairs of rows that collide: hash is the first, row the second */
    size_t n_pairs, pairs_capacity;
} merger;

/* The key of the run that starts with a row. It is rarely needed, so it is searched for
 * instead of stored. */
static tarn__name key_at_row(const merger *m, uint64_t row)
{
    size_t shard = tarn__stretch_of(m->first_row, m->build->count, row);
    const tarn__scan *scan = &m->build->scans[shard];
    size_t low = 0, high = scan->n_runs;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (m->first_row[shard] + scan->run_rows[mid] <= row)
            low = mid;
        else
            high = mid;
    }
    return tarn__scan_key(scan, low);
}

static bool names_equal(tarn__name a, tarn__name b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* --- Fields ------------------------------------------------------------------------ */

tarn_status tarn__merge_fields(tarn_index *index, tarn__scan *scan, tarn_error *err)
{
    size_t count = scan->fields.count;
    uint32_t *map = malloc((count + 1) * sizeof *map);
    if (!map) return tarn__fail_memory(err);
    bool same = true;
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        tarn__name name = tarn__names_get(&scan->fields, i);
        status = tarn__names_add(&index->fields, name.data, name.size, &map[i], err);
        same &= status == TARN_OK && map[i] == i;
    }
    if (status == TARN_OK && index->fields.count > TARN_MAX_FIELDS)
        status = tarn__fail(err, TARN_ERR_LIMIT,
                            "more than %u different fields; an index cannot number them",
                            TARN_MAX_FIELDS);
    for (size_t i = 0; status == TARN_OK && !same && i < scan->n_rows; i++) {
        unsigned char *field = scan->rows + i * TARN__ROW_SIZE + 18;
        tarn__put16(field, (uint16_t)map[tarn__get16(field)]);
    }
    free(map);
    return status;
}

/* --- Rows -------------------------------------------------------------------------- */

static void count_shard(merger *m, const tarn__scan *scan)
{
    tarn_index_report *r = m->report;
    r->directories += scan->counts.directories;
    r->links += scan->counts.links;
    r->devices += scan->counts.devices;
    r->damages += scan->counts.damages;
    r->lost_bytes += scan->counts.lost_bytes;
    r->unkeyed += scan->unkeyed;
    r->duplicates += scan->duplicates;
}

/* The rows of a shard whose first row has the number first. */
static tarn_status rows_of_shard(merger *m, tarn__scan *scan, uint64_t first,
                                 unsigned char **out, tarn_error *err)
{
    const tarn__stream *stream = &m->build->stream;
    if (stream->file) {
        *out = stream->map + stream->rows_at + first * TARN__ROW_SIZE;
        return TARN_OK;
    }
    TARN_TRY(tarn__merge_fields(m->index, scan, err));
    *out = scan->rows;
    scan->rows = NULL;
    return TARN_OK;
}

/* Moves the rows to the index, as one chunk per shard. */
static tarn_status take_rows(merger *m, tarn_error *err)
{
    tarn__build *b = m->build;
    m->first_row = calloc(b->count + 1, sizeof *m->first_row);
    m->index->chunks = calloc(b->count + 1, sizeof *m->index->chunks);
    if (!m->first_row || !m->index->chunks) return tarn__fail_memory(err);
    for (size_t i = 0; i < b->count; i++) {
        tarn__scan *scan = &b->scans[i];
        unsigned char *rows;
        TARN_TRY(rows_of_shard(m, scan, m->index->n_rows, &rows, err));
        count_shard(m, scan);
        m->first_row[i] = m->index->n_rows;
        m->index->chunks[i] = (tarn__chunk){m->index->n_rows, rows};
        m->index->n_chunks = i + 1;
        m->index->n_rows += scan->n_rows;
        m->n_runs += scan->n_runs;
    }
    if (m->index->n_rows > TARN_MAX_ROWS)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %llu members in one fold",
                          (unsigned long long)TARN_MAX_ROWS);
    return TARN_OK;
}

/* Some consecutive shards, whose runs one task puts into the buckets. */
typedef struct share {
    size_t from, to;              /* shards */
    size_t at[TARN__RUN_BUCKETS]; /* number of runs, then the place of the next one */
} share;

typedef struct dealing {
    const merger *m;
    share *shares;
    size_t count;
} dealing;

static tarn_status count_share(void *context, size_t number)
{
    const dealing *d = context;
    share *s = &d->shares[number];
    for (size_t i = s->from; i < s->to; i++) {
        const tarn__scan *scan = &d->m->build->scans[i];
        for (size_t k = 0; k < scan->n_runs; k++)
            s->at[tarn__run_bucket(scan->run_hashes[k])]++;
    }
    return TARN_OK;
}

static tarn_status deal_share(void *context, size_t number)
{
    const dealing *d = context;
    share *s = &d->shares[number];
    for (size_t i = s->from; i < s->to; i++) {
        const tarn__scan *scan = &d->m->build->scans[i];
        uint64_t first = d->m->first_row[i];
        for (size_t k = 0; k < scan->n_runs; k++) {
            uint64_t hash = scan->run_hashes[k], row = scan->run_rows[k];
            uint64_t end = k + 1 < scan->n_runs ? scan->run_rows[k + 1] : scan->n_rows;
            d->m->runs[s->at[tarn__run_bucket(hash)]++] =
                (tarn__run){hash, (uint32_t)(first + row), (uint32_t)(end - row)};
        }
    }
    return TARN_OK;
}

/* Turns numbers of runs into places: by bucket, then by share. */
static void place_shares(const dealing *d, size_t ends[TARN__RUN_BUCKETS])
{
    size_t at = 0;
    for (unsigned b = 0; b < TARN__RUN_BUCKETS; b++) {
        for (size_t i = 0; i < d->count; i++) {
            size_t n = d->shares[i].at[b];
            d->shares[i].at[b] = at;
            at += n;
        }
        ends[b] = at;
    }
}

/* The shards of a fold are usually of one size, so a few shares per thread are enough. */
static void divide_shards(dealing *d, size_t shards)
{
    for (size_t i = 0; i < d->count; i++) {
        d->shares[i].from = shards * i / d->count;
        d->shares[i].to = shards * (i + 1) / d->count;
    }
}

/* The runs are copied from the scans into the buckets of their hashes, and the buckets
 * sorted, all by several threads. */
static tarn_status sort_runs(merger *m, tarn_error *err)
{
    enum { SHARES_PER_THREAD = 4, WORTH_THREADS = 1 << 15 };
    unsigned threads =
        m->n_runs < WORTH_THREADS ? 1 : tarn__thread_count(m->build->options->threads);
    size_t ends[TARN__RUN_BUCKETS], failed;
    dealing d = {.m = m, .count = (size_t)threads * SHARES_PER_THREAD};
    if (d.count > m->build->count) d.count = m->build->count;
    m->runs = tarn__big_alloc((m->n_runs + 1) * sizeof *m->runs);
    d.shares = calloc(d.count + 1, sizeof *d.shares);
    if (!m->runs || !d.shares) {
        free(d.shares);
        return tarn__fail_memory(err);
    }
    divide_shards(&d, m->build->count);
    (void)!tarn__parallel(threads, d.count, count_share, &d, &failed);
    place_shares(&d, ends);
    (void)!tarn__parallel(threads, d.count, deal_share, &d, &failed);
    tarn__runs_sort_buckets(m->runs, ends, threads);
    free(d.shares);
    return TARN_OK;
}

/* --- Collisions -------------------------------------------------------------------- */

static tarn_status note_stranger(merger *m, uint32_t first_row, const tarn__run *run,
                                 tarn_error *err)
{
    TARN_TRY(tarn__grow(&m->strangers, sizeof *m->strangers, m->n_strangers,
                        &m->stranger_capacity, err));
    m->strangers[m->n_strangers++] = (tarn__run){first_row, run->row, run->tag};
    return TARN_OK;
}

/* Distinguishes the keys of runs that share both hashes with a table. Runs are in the
 * order of their rows. The run that starts with row first is not a stranger. */
static tarn_status separate_by_table(merger *m, const tarn__run *runs, size_t count,
                                     uint32_t first, tarn_error *err)
{
    uint32_t *key_rows = malloc(count * sizeof *key_rows), id = 0;
    if (!key_rows) return tarn__fail_memory(err);
    tarn__names keys;
    tarn__names_init(&keys);
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        tarn__name key = key_at_row(m, runs[i].row);
        size_t known = keys.count;
        status = tarn__names_add(&keys, key.data, key.size, &id, err);
        if (keys.count > known) key_rows[id] = runs[i].row;
        if (status == TARN_OK && key_rows[id] != first)
            status = note_stranger(m, key_rows[id], &runs[i], err);
    }
    m->index->n_stems += keys.count;
    tarn__names_reset(&keys);
    free(key_rows);
    return status;
}

static bool is_one_key(const merger *m, const tarn__run *runs, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (!names_equal(key_at_row(m, runs[0].row), key_at_row(m, runs[i].row)))
            return false;
    return true;
}

/* Runs that share both hashes, which are almost always runs of one key. */
static tarn_status separate_twins(merger *m, const tarn__run *runs, size_t count,
                                  uint32_t first, tarn_error *err)
{
    if (!is_one_key(m, runs, count)) return separate_by_table(m, runs, count, first, err);
    m->index->n_stems++;
    for (size_t i = 0; runs[0].row != first && i < count; i++)
        TARN_TRY(note_stranger(m, runs[0].row, &runs[i], err));
    return TARN_OK;
}

/* A keyed hash that nobody can prepare for. If a test replaces the ordinary hash, it
 * replaces this one as well. */
static uint64_t second_hash(const merger *m, tarn__name key)
{
    tarn__hash hash = m->build->hash == tarn__key_hash ? tarn__name_hash : m->build->hash;
    return hash(key.data, key.size);
}

/* Sorts the runs of one hash by a second hash, in linear time for any keys. Every key
 * except that of the first row is a stranger. */
static tarn_status separate_keys(merger *m, const tarn__run *runs, size_t count,
                                 tarn_error *err)
{
    tarn__run *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return tarn__fail_memory(err);
    for (size_t i = 0; i < count; i++)
        sorted[i] = (tarn__run){second_hash(m, key_at_row(m, runs[i].row)), runs[i].row,
                                runs[i].tag};
    tarn__runs_sort(sorted, count, 1);
    tarn_status status = TARN_OK;
    for (size_t i = 0, j; status == TARN_OK && i < count; i = j) {
        for (j = i + 1; j < count && sorted[j].hash == sorted[i].hash;)
            j++;
        status = separate_twins(m, sorted + i, j - i, runs[0].row, err);
    }
    free(sorted);
    return status;
}

static tarn_status group_runs(merger *m, tarn_error *err)
{
    for (size_t i = 0, j; i < m->n_runs; i = j) {
        bool one_key = true;
        for (j = i + 1; j < m->n_runs && m->runs[j].hash == m->runs[i].hash; j++)
            one_key = one_key && names_equal(key_at_row(m, m->runs[i].row),
                                             key_at_row(m, m->runs[j].row));
        if (one_key)
            m->index->n_stems++;
        else
            TARN_TRY(separate_keys(m, m->runs + i, j - i, err));
    }
    return TARN_OK;
}

static tarn_status number_collisions(merger *m, tarn_error *err)
{
    uint32_t id = 0;
    tarn__runs_sort(m->strangers, m->n_strangers, 1);
    for (size_t i = 0; i < m->n_strangers; i++) {
        const tarn__run *run = &m->strangers[i];
        tarn__name key = key_at_row(m, run->row);
        TARN_TRY(tarn__names_add(&m->index->collisions, key.data, key.size, &id, err));
        for (uint32_t k = 0; k < run->tag; k++) {
            const unsigned char *row = tarn__index_at(m->index, run->row + k);
            tarn__put32((unsigned char *)(uintptr_t)row + 20, id + 1);
        }
    }
    return TARN_OK;
}

/* --- Order and contiguity ---------------------------------------------------------- */

/* A key that continues from one shard into the next counts as one stretch. */
static uint64_t count_stretches(const merger *m)
{
    uint64_t stretches = m->n_runs;
    const tarn__scan *before = NULL;
    for (size_t i = 0; i < m->build->count; i++) {
        const tarn__scan *scan = &m->build->scans[i];
        if (scan->n_runs == 0) continue;
        if (before && names_equal(tarn__scan_key(before, before->n_runs - 1),
                                  tarn__scan_key(scan, 0)))
            stretches--;
        before = scan;
    }
    return stretches;
}

/* Finds two rows of one sample, from different runs, with the same field. */
static tarn_status find_far_duplicates(merger *m, const tarn__run *runs, size_t count,
                                       size_t n_rows, tarn_error *err)
{
    tarn__run *rows = malloc(n_rows * sizeof *rows);
    if (!rows) return tarn__fail_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < runs[i].tag; k++) {
            const unsigned char *row = tarn__index_at(m->index, runs[i].row + k);
            uint64_t key =
                (uint64_t)tarn__row_collision(row) << 16 | tarn__row_field(row);
            rows[n++] = (tarn__run){key, runs[i].row + k, runs[i].row};
        }
    }
    tarn__runs_sort(rows, n, 1);
    tarn_status status = TARN_OK;
    for (size_t i = 1; status == TARN_OK && i < n; i++) {
        if (rows[i].hash != rows[i - 1].hash || rows[i].tag == rows[i - 1].tag) continue;
        m->report->duplicates++;
        if (m->n_pairs >= TARN__MAX_REPORTED) continue;
        status =
            tarn__grow(&m->pairs, sizeof *m->pairs, m->n_pairs, &m->pairs_capacity, err);
        if (status == TARN_OK)
            m->pairs[m->n_pairs++] = (tarn__run){rows[i - 1].row, rows[i].row, 0};
    }
    free(rows);
    return status;
}

/* Writes the rows of the sorted runs. A hash with several runs is checked further. */
static tarn_status fill_order(merger *m, uint32_t *order, tarn_error *err)
{
    size_t at = 0;
    for (size_t i = 0, j; i < m->n_runs; i = j) {
        size_t from_at = at;
        for (j = i; j < m->n_runs && m->runs[j].hash == m->runs[i].hash; j++)
            for (uint32_t k = 0; k < m->runs[j].tag; k++)
                order[at++] = m->runs[j].row + k;
        if (j - i < 2) continue;
        TARN_TRY(tarn__order_by_collision(m->index, order + from_at, at - from_at, err));
        TARN_TRY(find_far_duplicates(m, m->runs + i, j - i, at - from_at, err));
    }
    return TARN_OK;
}

/* --- Sums -------------------------------------------------------------------------- */

static tarn_status take_checksums(merger *m, tarn__sums *sums, tarn_error *err)
{
    sums->checksums = malloc((sums->n_rows + 1) * sizeof *sums->checksums);
    if (!sums->checksums) return tarn__fail_memory(err);
    for (size_t i = 0; i < m->build->count; i++) {
        tarn__scan *scan = &m->build->scans[i];
        if (scan->n_rows)
            memcpy(sums->checksums + m->first_row[i], scan->checksums,
                   scan->n_rows * sizeof *sums->checksums);
        free(scan->checksums);
        scan->checksums = NULL;
    }
    return TARN_OK;
}

static tarn_status make_sums(merger *m, tarn_error *err)
{
    tarn__build *b = m->build;
    tarn__sums *sums = m->index->sums = tarn__sums_new();
    if (!sums) return tarn__fail_memory(err);
    sums->keys = b->options->keys;
    sums->n_rows = m->index->n_rows;
    sums->n_shards = b->count;
    sums->stamps = malloc((b->count + 1) * sizeof *sums->stamps);
    sums->order = tarn__big_alloc((sums->n_rows + 1) * sizeof *sums->order);
    if (!sums->stamps || !sums->order) return tarn__fail_memory(err);
    for (size_t i = 0; i < b->count; i++) {
        uint32_t id;
        char *name =
            tarn__remote_name(b->options->names ? b->options->names[i] : b->paths[i]);
        if (!name) return tarn__fail_memory(err);
        sums->stamps[i] = b->scans[i].stamp;
        tarn_status status = tarn__names_add(&sums->names, name, strlen(name), &id, err);
        free(name);
        TARN_TRY(status);
        if (id != i)
            return tarn__fail_at(err, TARN_ERR_USAGE, b->paths[i], TARN_NO_OFFSET,
                                 "a shard is given twice");
    }
    TARN_TRY(fill_order(m, sums->order, err));
    return b->options->sums ? take_checksums(m, sums, err) : TARN_OK;
}

/* --- Reporting members that collide ------------------------------------------------ */

static void report_pair(merger *m, tarn__filecache *files, uint64_t first,
                        uint64_t second)
{
    tarn_row a, b;
    tarn__located one, two;
    tarn_error what;
    char shown[2][200];
    tarn__row_get(tarn__index_at(m->index, first), &a);
    tarn__row_get(tarn__index_at(m->index, second), &b);
    tarn__located_init(&one);
    tarn__located_init(&two);
    tarn__place place = {files, m->index, m->build->hash, false};
    if (tarn__locate(&place, first, &one, NULL) == TARN_OK &&
        tarn__locate(&place, second, &two, NULL) == TARN_OK) {
        tarn__error_set(
            &what, TARN_ERR_AMBIGUOUS, m->build->paths[b.shard], b.offset,
            "%s has the same key and field as %s at offset %llu of %s%s",
            tarn_printable(shown[0], sizeof shown[0], two.name, two.name_len),
            tarn_printable(shown[1], sizeof shown[1], one.name, one.name_len),
            (unsigned long long)a.offset, m->build->paths[a.shard],
            m->build->options->keys == TARN_KEYS_BASE &&
                    (two.name_len != one.name_len ||
                     memcmp(two.name, one.name, one.name_len) != 0)
                ? "; keys that include the folder (--keys path) distinguish them"
                : "");
    } else { /* a stream, or changed meanwhile */
        tarn__error_set(
            &what, TARN_ERR_AMBIGUOUS, m->build->paths[b.shard], b.offset,
            "the member here has the same key and field as the one at offset %llu of %s",
            (unsigned long long)a.offset, m->build->paths[a.shard]);
    }
    m->build->options->notice(m->build->options->notice_context, &what);
    tarn__located_reset(&one);
    tarn__located_reset(&two);
}

static tarn_status report_duplicates(merger *m, tarn_error *err)
{
    tarn__build *b = m->build;
    tarn__filecache *files;
    if (m->report->duplicates == 0 || !b->options->notice) return TARN_OK;
    uint64_t *sizes = malloc((b->count + 1) * sizeof *sizes);
    if (!sizes) return tarn__fail_memory(err);
    for (size_t i = 0; i < b->count; i++)
        sizes[i] = b->scans[i].stamp.size;
    tarn_status status =
        tarn__filecache_new(b->paths, sizes, b->count, TARN__IO_READ, &files, err);
    free(sizes);
    TARN_TRY(status);
    size_t reported = 0;
    for (size_t i = 0; i < b->count; i++)
        for (size_t k = 0; k < b->scans[i].n_duplicate_rows; k++)
            if (reported++ < TARN__MAX_REPORTED)
                report_pair(m, files, m->first_row[i] + b->scans[i].duplicate_rows[k][0],
                            m->first_row[i] + b->scans[i].duplicate_rows[k][1]);
    for (size_t k = 0; k < m->n_pairs && reported++ < TARN__MAX_REPORTED; k++)
        report_pair(m, files, m->pairs[k].hash, m->pairs[k].row);
    tarn__filecache_free(files);
    return TARN_OK;
}

tarn_status tarn__merge(tarn__build *build, tarn_index *index, tarn_index_report *report,
                        tarn_error *err)
{
    merger m = {.build = build, .index = index, .report = report};
    *report = (tarn_index_report){0};
    tarn_status status = take_rows(&m, err);
    if (status == TARN_OK) status = sort_runs(&m, err);
    if (status == TARN_OK) status = group_runs(&m, err);
    if (status == TARN_OK) status = number_collisions(&m, err);
    if (status == TARN_OK)
        index->contiguous = index->n_rows < 2 || count_stretches(&m) == index->n_stems;
    if (status == TARN_OK) status = make_sums(&m, err);
    if (status == TARN_OK) status = report_duplicates(&m, err);
    free(m.runs);
    free(m.strangers);
    free(m.pairs);
    free(m.first_row);
    return status;
}
