/* Scans a shard. The loop runs once per member and determines the cost of indexing. So a
 * key or field that equals the previous one is recognised by comparison, and hashed only
 * if it is new. */
#include "itar/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/error.h"

/* Bytes between two calls of the progress callback. */
#define PROGRESS_STEP (16u << 20)
/* Fields that are guessed from the previous one; all others are looked up in the
 * table. */
enum { GUESSES = 64 };
/* Number of rows after which the row count of the shard is estimated. */
enum { ENOUGH_ROWS = 1024 };

typedef struct scanner {
    tarn__build *build;
    tarn__scan *scan;
    tarn_tar tar;
    tarn__splitter splitter;
    uint16_t shard;
    uint64_t hash;           /* of the current run's key */
    uint64_t fields_seen;    /* of the current run, by number, the first 64 */
    uint32_t last_field;     /* of the previous row */
    uint32_t guess[GUESSES]; /* the field that last followed a field */
    uint64_t reported;       /* bytes reported to the progress callback */
} scanner;

tarn_status tarn__scan_init(tarn__scan *s, tarn_error *err)
{
    tarn__names_init(&s->fields);
    tarn__buf_init(&s->keys, SIZE_MAX / 2);
    /* Never NULL, even while all keys are empty. */
    return tarn__buf_reserve(&s->keys, 64, err);
}

void tarn__scan_reset(tarn__scan *s)
{
    free(s->rows);
    free(s->run_rows);
    free(s->run_ends);
    free(s->run_hashes);
    free(s->checksums);
    free(s->duplicate_rows);
    tarn__buf_reset(&s->keys);
    tarn__names_reset(&s->fields);
    *s = (tarn__scan){0};
}

static void pass_notice(void *context, const tarn_error *what)
{
    tarn__build *build = context;
    if (!build->options->notice) return;
    pthread_mutex_lock(&build->lock);
    build->options->notice(build->options->notice_context, what);
    pthread_mutex_unlock(&build->lock);
}

static tarn_status report_progress(scanner *s, uint64_t at, tarn_error *err)
{
    tarn__build *build = s->build;
    uint64_t done = atomic_fetch_add(&build->done_bytes, at - s->reported);
    done += at - s->reported;
    s->reported = at;
    if (!build->options->progress) return TARN_OK;
    pthread_mutex_lock(&build->lock);
    int stop = build->options->progress(build->options->progress_context, done,
                                        build->total_bytes);
    pthread_mutex_unlock(&build->lock);
    return stop ? tarn__fail(err, TARN_ERR_CANCELLED, "stopped") : TARN_OK;
}

static bool continues_run(const tarn__scan *scan, const tarn__key *key)
{
    if (scan->n_runs == 0) return false;
    tarn__name last = tarn__scan_key(scan, scan->n_runs - 1);
    return last.size == key->stem_len && memcmp(last.data, key->stem, last.size) == 0;
}

tarn_status tarn__scan_begin_run(tarn__scan *scan, const char *key, size_t len,
                                 uint64_t hash, tarn_error *err)
{
    TARN_TRY(tarn__grow(&scan->run_rows, sizeof *scan->run_rows, scan->n_runs,
                        &scan->run_capacity, err));
    TARN_TRY(tarn__grow(&scan->run_ends, sizeof *scan->run_ends, scan->n_runs,
                        &scan->end_capacity, err));
    TARN_TRY(tarn__grow(&scan->run_hashes, sizeof *scan->run_hashes, scan->n_runs,
                        &scan->hash_capacity, err));
    TARN_TRY(tarn__buf_add(&scan->keys, key, len, err));
    scan->run_hashes[scan->n_runs] = hash;
    scan->run_rows[scan->n_runs] = (uint32_t)scan->n_rows;
    scan->run_ends[scan->n_runs++] = scan->keys.size;
    return TARN_OK;
}

static tarn_status begin_run(scanner *s, const tarn__key *key, tarn_error *err)
{
    s->hash = s->build->hash(key->stem, key->stem_len);
    s->fields_seen = 0;
    return tarn__scan_begin_run(s->scan, key->stem, key->stem_len, s->hash, err);
}

static tarn_status number_field(scanner *s, const tarn__key *key, uint32_t *out,
                                tarn_error *err)
{
    tarn__names *fields = &s->scan->fields;
    uint32_t *guess = &s->guess[s->last_field % GUESSES];
    if (*guess < fields->count) {
        tarn__name name = tarn__names_get(fields, *guess);
        if (name.size == key->field_len &&
            memcmp(name.data, key->field, name.size) == 0) {
            *out = *guess;
            return TARN_OK;
        }
    }
    TARN_TRY(tarn__names_add(fields, key->field, key->field_len, out, err));
    if (fields->count > TARN_MAX_FIELDS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "more than %u different fields; an index cannot number them",
                          TARN_MAX_FIELDS);
    *guess = *out;
    return TARN_OK;
}

static tarn_status note_duplicate(tarn__scan *scan, uint32_t first, tarn_error *err)
{
    if (scan->duplicates++ >= TARN__MAX_REPORTED) return TARN_OK;
    TARN_TRY(tarn__grow(&scan->duplicate_rows, sizeof *scan->duplicate_rows,
                        scan->n_duplicate_rows, &scan->duplicate_capacity, err));
    scan->duplicate_rows[scan->n_duplicate_rows][0] = first;
    scan->duplicate_rows[scan->n_duplicate_rows++][1] = (uint32_t)scan->n_rows;
    return TARN_OK;
}

/* Finds a field that the current run already has. A run with many fields is searched from
 * the start, but a bit set first shows whether that is needed. */
static tarn_status check_duplicate(scanner *s, uint32_t field, tarn_error *err)
{
    tarn__scan *scan = s->scan;
    uint64_t bit = UINT64_C(1) << (field % 64);
    if (!(s->fields_seen & bit)) {
        s->fields_seen |= bit;
        return TARN_OK;
    }
    size_t from = scan->run_rows[scan->n_runs - 1];
    /* Such a long run repeats one key; its first rows are enough. */
    size_t to = scan->n_rows - from > 4096 ? from + 4096 : scan->n_rows;
    for (size_t i = from; i < to; i++)
        if (tarn__row_field(scan->rows + i * TARN__ROW_SIZE) == field)
            return note_duplicate(scan, (uint32_t)i, err);
    return TARN_OK;
}

static tarn_status add_checksum(scanner *s, uint64_t at, uint64_t left, tarn_error *err)
{
    tarn__scan *scan = s->scan;
    uint32_t crc = 0;
    TARN_TRY(tarn__grow(&scan->checksums, sizeof *scan->checksums, scan->n_rows,
                        &scan->checksum_capacity, err));
    while (left) {
        const unsigned char *data;
        size_t len;
        tarn_status status =
            tarn__window_some(&s->tar.window, at, left, &data, &len, err);
        if (status == TARN_END) break; /* end of a stream; the next step reports it */
        TARN_TRY(status);
        crc = tarn__crc32c(crc, data, len);
        at += len;
        left -= len;
        if (at - s->reported >= PROGRESS_STEP) TARN_TRY(report_progress(s, at, err));
    }
    scan->checksums[scan->n_rows] = crc;
    return TARN_OK;
}

/* After some rows, the total is estimated and space for all rows is allocated at once. */
static tarn_status reserve_rows(scanner *s, tarn_error *err)
{
    tarn__scan *scan = s->scan;
    if (scan->n_rows == ENOUGH_ROWS && s->tar.file.size != TARN__SIZE_UNKNOWN) {
        uint64_t mean = s->tar.at / ENOUGH_ROWS;
        size_t expected = (size_t)(s->tar.file.size / mean / 32 * 33) + ENOUGH_ROWS;
        tarn__spare fresh;
        if (!tarn__stream_spare(s->build, expected, &fresh))
            fresh = (tarn__spare){tarn__big_alloc(expected * TARN__ROW_SIZE), expected};
        if (!fresh.rows) return tarn__fail_memory(err);
        memcpy(fresh.rows, scan->rows, scan->n_rows * TARN__ROW_SIZE);
        free(scan->rows);
        scan->rows = fresh.rows;
        scan->row_capacity = fresh.capacity;
    }
    return tarn__grow(&scan->rows, TARN__ROW_SIZE, scan->n_rows, &scan->row_capacity,
                      err);
}

static tarn_status add_member(scanner *s, const tarn__member *m, tarn_error *err)
{
    tarn__scan *scan = s->scan;
    tarn__key key;
    uint32_t field;
    tarn_status status = tarn__split(&s->splitter, s->build->options->keys, m->name,
                                     m->name_len, &key, err);
    if (status == TARN_END) scan->unkeyed++;
    if (status != TARN_OK) return status;
    if (scan->n_rows >= TARN_MAX_ROWS)
        return tarn__fail(err, TARN_ERR_LIMIT, "more than %llu members",
                          (unsigned long long)TARN_MAX_ROWS);
    if (scan->n_rows == ENOUGH_ROWS || scan->n_rows == scan->row_capacity)
        TARN_TRY(reserve_rows(s, err));
    if (!continues_run(scan, &key)) TARN_TRY(begin_run(s, &key, err));
    TARN_TRY(number_field(s, &key, &field, err));
    TARN_TRY(check_duplicate(s, field, err));
    tarn_row row = {.offset = m->offset,
                    .size = m->size,
                    .keyhash = s->hash,
                    .shard = s->shard,
                    .field = (uint16_t)field};
    tarn__row_put(scan->rows + scan->n_rows * TARN__ROW_SIZE, &row);
    s->last_field = field;
    if (s->build->options->sums)
        TARN_TRY(add_checksum(s, m->offset + TARN__BLOCK, m->size, err));
    scan->n_rows++;
    return TARN_OK;
}

/* In lenient mode a member whose key an index cannot store is skipped like damage. */
static tarn_status skip_member(scanner *s, const tarn__member *m, tarn_error *err)
{
    if (!s->build->options->lenient) return TARN_ERR_FORMAT;
    pass_notice(s->build, err);
    s->tar.counts.damages++;
    s->tar.counts.lost_bytes += m->size;
    return TARN_OK;
}

static tarn_status scan_members(scanner *s, tarn_error *err)
{
    for (;;) {
        tarn__member m;
        tarn_status status = tarn__tar_next(&s->tar, &m, err);
        if (status == TARN_END) return TARN_OK;
        TARN_TRY(status);
        if (m.kind != TARN__REGULAR) continue;
        status = add_member(s, &m, err);
        if (status != TARN_OK && status != TARN_END) {
            if (!err->path[0]) tarn__error_place(err, s->tar.file.path, m.offset);
            if (status == TARN_ERR_FORMAT) status = skip_member(s, &m, err);
            TARN_TRY(status);
        }
        if (s->tar.at - s->reported >= PROGRESS_STEP)
            TARN_TRY(report_progress(s, s->tar.at, err));
    }
}

tarn_status tarn__scan_shard(void *context, size_t number)
{
    tarn__build *build = context;
    tarn__scan *scan = &build->scans[number];
    tarn_error *err = &scan->error;
    scanner s = {.build = build, .scan = scan, .shard = (uint16_t)number};
    tarn_tar_options options = TARN_TAR_OPTIONS_INIT;
    options.lenient = build->options->lenient;
    options.notice = pass_notice;
    options.notice_context = build;
    TARN_TRY(tarn__scan_init(scan, err));
    tarn__splitter_init(&s.splitter);
    tarn__window_use use = build->options->sums ? TARN__WINDOW_ALL : TARN__WINDOW_HOP;
    options.allow_pipe = build->options->allow_pipe;
    TARN_TRY((build->options->streams ? tarn__tar_open_url : tarn__tar_open)(
        &s.tar, build->paths[number], &options, use, err));
    tarn_status status = scan_members(&s, err);
    if (status == TARN_OK) status = report_progress(&s, s.tar.file.size, err);
    scan->stamp = (tarn__stamp){s.tar.file.size, s.tar.file.mtime_ns,
                                (uint32_t)scan->n_rows, (uint32_t)(s.tar.digest >> 32)};
    scan->counts = s.tar.counts;
    tarn__tar_close(&s.tar);
    tarn__splitter_reset(&s.splitter);
    return status == TARN_OK ? tarn__stream_shard(build, number, err) : status;
}
