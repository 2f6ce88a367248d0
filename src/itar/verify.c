/* Verification: scans the shards again, leniently, and compares the result with the files
 * on disk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/folds.h>
#include <tarn/samples.h>
#include <tarn/tar.h>

#include "base/error.h"
#include "base/options.h"
#include "io/object.h"
#include "itar/fold_read.h"
#include "itar/folder.h"
#include "itar/index.h"
#include "itar/locate.h"
#include "itar/repair.h"
#include "itar/verify.h"
#include "tar/keys.h"

/* Differing rows are reported one by one up to this many; an index of other shards would
 * hide everything else. */
#define MAX_ROWS_REPORTED 100
/* How many members are tried to find the key rule. */
#define MAX_ROWS_TRIED 100000

typedef struct verifier {
    const tarn_verify_options *options;
    tarn_verify_report *report;
    const char *index_path; /* of the current fold; NULL for a single archive */
    const char *const *shards;
    size_t n_shards;
    tarn_index *given;  /* of a remote fold, already loaded; NULL: load it */
    tarn_index *stored; /* NULL if there is none, or it cannot be read */
    tarn__sums *sums;   /* from the stored index, or loaded separately */
    tarn__sums *own_sums;
    tarn_index *fresh;
    bool has_index;
    bool index_removed;     /* its sums still exist */
    bool checksums_damaged; /* or, if no sums can be read, perhaps damaged */
    bool compared;          /* payloads with their checksums */
    bool shards_missing;    /* that the index has */
    size_t n_stored;
    uint32_t *shard_map; /* from stored shard numbers to current ones, or NO_SHARD */
    bool *shard_known;   /* shards that the index has, by current number */
    uint64_t payload_problems;
    uint64_t rows_reported;
} verifier;

static void report_problem(void *context, const tarn_error *what)
{
    verifier *v = context;
    v->report->problems++;
    if (v->options->problem) v->options->problem(v->options->problem_context, what);
}

#define REPORT(v, code, path, offset, ...)                                               \
    do {                                                                                 \
        tarn_error what_;                                                                \
        tarn__error_set(&what_, code, path, offset, __VA_ARGS__);                        \
        report_problem(v, &what_);                                                       \
    } while (0)

/* --- The index on disk ------------------------------------------------------------- */

/* If one of index and sums is damaged, the other is still useful. */
static tarn_status load_apart(verifier *v, const char *sums_path, tarn_error *err)
{
    tarn_error ignored;
    tarn_status status = tarn__sums_load(sums_path, &v->own_sums, &ignored);
    if (status == TARN_ERR_MEMORY) return tarn__fail_memory(err);
    v->checksums_damaged = status != TARN_OK && status != TARN_ERR_NO_FILE;
    if (status == TARN_OK)
        v->sums = v->own_sums;
    else if (tarn__index_load(v->index_path, TARN__LOAD_ALONE, &v->stored, &ignored) !=
             TARN_OK)
        v->stored = NULL;
    return TARN_OK;
}

/* Sums get their name after their index, so sums alone mean that it was removed. */
static void report_removed_index(verifier *v, const char *sums_path)
{
    if (access(sums_path, F_OK) != 0) return;
    v->index_removed = true;
    REPORT(
        v, TARN_ERR_STALE, sums_path, TARN_NO_OFFSET,
        "the index of these checksums does not exist; tarn verify --repair rebuilds it");
}

static tarn_status check_given(verifier *v, tarn_error *err)
{
    tarn_status status = tarn__index_check(v->given, err);
    if (status == TARN_OK)
        v->stored = v->given;
    else
        tarn_index_free(v->given);
    v->given = NULL;
    return status;
}

static tarn_status load_stored(verifier *v, tarn_error *err)
{
    tarn_error why;
    tarn_status status =
        v->given ? check_given(v, &why)
                 : tarn__index_load(v->index_path, TARN__LOAD_CHECKED, &v->stored, &why);
    v->has_index = status != TARN_ERR_NO_FILE;
    if (status == TARN_ERR_MEMORY || status == TARN_ERR_IO) {
        if (err) *err = why;
        return status;
    }
    char *sums_path = tarn__sums_path(v->index_path);
    if (!sums_path) return tarn__fail_memory(err);
    if (status == TARN_OK)
        v->sums = v->stored->sums;
    else if (v->has_index)
        report_problem(v, &why);
    else
        report_removed_index(v, sums_path);
    status = status == TARN_OK ? TARN_OK : load_apart(v, sums_path, err);
    free(sums_path);
    if (status != TARN_OK || !v->sums) return status;
    if (tarn__sums_check_all(v->sums, TARN__PART_ORDER, &why) != TARN_OK)
        report_problem(v, &why);
    if (tarn__sums_check_all(v->sums, TARN__PART_CHECKSUMS, &why) != TARN_OK) {
        report_problem(v, &why);
        v->checksums_damaged = true;
    }
    return TARN_OK;
}

static bool has_checksums(const verifier *v)
{
    return v->sums && v->sums->checksums && !v->checksums_damaged;
}

static tarn_status scan_fresh(verifier *v, tarn_keys keys, tarn_error *err)
{
    tarn_index_options o = TARN_INDEX_OPTIONS_INIT;
    o.keys = keys;
    o.sums = has_checksums(v);
    o.lenient = true;
    o.threads = v->options->threads;
    o.notice = report_problem;
    o.notice_context = v;
    o.progress = v->options->progress;
    o.progress_context = v->options->progress_context;
    return tarn_index_build(v->shards, v->n_shards, &o, NULL, &v->fresh, NULL, 0, err);
}

/* --- Comparing --------------------------------------------------------------------- */

#define NO_SHARD UINT32_MAX

/* Maps the shards of the index to the current ones: by name if the sums have names,
 * otherwise by number. Both lists are sorted, so the order is the same. */
static tarn_status map_shards(verifier *v, tarn_error *err)
{
    const tarn__sums *old = v->stored->sums;
    v->n_stored = old ? old->n_shards : v->n_shards;
    v->shard_map = malloc((v->n_stored + 1) * sizeof *v->shard_map);
    v->shard_known = calloc(v->n_shards + 1, sizeof *v->shard_known);
    if (!v->shard_map || !v->shard_known) return tarn__fail_memory(err);
    for (size_t i = 0; i < v->n_stored; i++) {
        uint32_t now = (uint32_t)i;
        if (old) {
            tarn__name name = tarn__names_get(&old->names, i);
            now = tarn__names_find(&v->fresh->sums->names, name.data, name.size);
        }
        v->shard_map[i] = now;
        if (now != NO_SHARD) v->shard_known[now] = true;
    }
    return TARN_OK;
}

static void compare_stamps(verifier *v)
{
    const tarn__sums *old = v->stored->sums, *new = v->fresh->sums;
    for (size_t i = 0; i < old->n_shards; i++) {
        tarn__name name = tarn__names_get(&old->names, i);
        uint32_t k = v->shard_map[i];
        if (k == NO_SHARD) {
            v->shards_missing = true;
            REPORT(v, TARN_ERR_STALE, v->index_path, TARN_NO_OFFSET,
                   "the index has a shard that does not exist: %s (%u members)",
                   name.data, old->stamps[i].rows);
        } else if (old->stamps[i].size != new->stamps[k].size)
            REPORT(v, TARN_ERR_STALE, v->shards[k], TARN_NO_OFFSET,
                   "the shard has %llu bytes, but had %llu when it was indexed",
                   (unsigned long long)new->stamps[k].size,
                   (unsigned long long)old->stamps[i].size);
        else if (old->stamps[i].digest != new->stamps[k].digest)
            REPORT(v, TARN_ERR_STALE, v->shards[k], TARN_NO_OFFSET,
                   "its headers are not those that were indexed");
    }
    for (size_t k = 0; k < new->n_shards; k++) {
        if (!v->shard_known[k])
            REPORT(v, TARN_ERR_STALE, v->shards[k], TARN_NO_OFFSET,
                   "the index does not contain this shard (%u members)",
                   new->stamps[k].rows);
    }
}

static const char *row_shard(const verifier *v, const tarn_row *row)
{
    return row->shard < v->n_shards ? v->shards[row->shard] : v->index_path;
}

static bool names_differ(tarn__name a, tarn__name b)
{
    return a.size != b.size || memcmp(a.data, b.data, a.size) != 0;
}

/* The difference between two rows of the same member, or NULL. */
static const char *row_difference(const verifier *v, const tarn_row *old,
                                  const tarn_row *new)
{
    if (old->size != new->size) return "size";
    if (old->keyhash != new->keyhash) return "key";
    if (names_differ(tarn__names_get(&v->stored->fields, old->field),
                     tarn__names_get(&v->fresh->fields, new->field)))
        return "field";
    if ((old->collision == 0) != (new->collision == 0)) return "collision number";
    if (old->collision &&
        names_differ(tarn__names_get(&v->stored->collisions, old->collision - 1),
                     tarn__names_get(&v->fresh->collisions, new->collision - 1)))
        return "collision number";
    return NULL;
}

static void compare_payload(verifier *v, uint64_t old, uint64_t new, const tarn_row *row)
{
    if (!has_checksums(v)) return;
    uint32_t want = v->sums->checksums[old];
    uint32_t have = v->fresh->sums->checksums[new];
    v->report->checksummed++;
    if (want == have) return;
    v->payload_problems++;
    REPORT(v, TARN_ERR_CHECKSUM, row_shard(v, row), row->offset,
           "the payload of row %llu has CRC-32C %08x, but %08x was recorded: its bytes "
           "have changed; restore the shard from a copy",
           (unsigned long long)old, have, want);
}

/* Without matching rows, compares by row number. */
static void compare_payloads(verifier *v)
{
    tarn_row row;
    for (uint64_t i = 0; i < v->fresh->n_rows; i++) {
        tarn__row_get(tarn__index_at(v->fresh, i), &row);
        compare_payload(v, i, i, &row);
    }
}

static void report_row(verifier *v, const char *path, uint64_t offset, uint64_t number,
                       const char *what)
{
    if (v->rows_reported++ < MAX_ROWS_REPORTED)
        REPORT(v, TARN_ERR_STALE, path, offset, "row %llu of the index: %s",
               (unsigned long long)number, what);
    else
        v->report->problems++;
}

static void compare_pair(verifier *v, uint64_t i, const tarn_row *old, uint64_t k,
                         const tarn_row *new)
{
    char what[64] = "wrong ";
    const char *difference = row_difference(v, old, new);
    if (!difference) {
        compare_payload(v, i, k, old);
        return;
    }
    strncat(what, difference, sizeof what - strlen(what) - 1);
    report_row(v, row_shard(v, old), old->offset, i, what);
}

static int compare_place(const tarn_row *a, const tarn_row *b)
{
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The next stored row at or after *i whose shard exists, with the shard's current number.
 * Rows of a missing shard are reported one by one if there are no sums. */
static bool next_stored(verifier *v, uint64_t *i, tarn_row *out)
{
    for (; *i < v->stored->n_rows; ++*i) {
        tarn__row_get(tarn__index_at(v->stored, *i), out);
        uint32_t now = out->shard < v->n_stored ? v->shard_map[out->shard] : NO_SHARD;
        if (now != NO_SHARD) {
            out->shard = (uint16_t)now;
            return true;
        }
        if (!v->stored->sums) {
            v->shards_missing = true;
            report_row(v, v->index_path, TARN_NO_OFFSET, *i, "its shard does not exist");
        }
    }
    return false;
}

static bool next_fresh(const verifier *v, uint64_t *k, tarn_row *out)
{
    for (; *k < v->fresh->n_rows; ++*k) {
        tarn__row_get(tarn__index_at(v->fresh, *k), out);
        if (v->shard_known[out->shard]) return true;
    }
    return false;
}

/* Both lists are in the order of the shards, so one pass matches them. */
static void compare_rows(verifier *v)
{
    uint64_t i = 0, k = 0;
    tarn_row old = {0}, new = {0};
    for (;;) {
        bool has_old = next_stored(v, &i, &old), has_new = next_fresh(v, &k, &new);
        if (!has_old && !has_new) break;
        int order = !has_old ? 1 : !has_new ? -1 : compare_place(&old, &new);
        if (order < 0) {
            report_row(v, row_shard(v, &old), old.offset, i,
                       "there is no readable member here");
            i++;
        } else if (order > 0) {
            report_row(v, row_shard(v, &new), new.offset, i, "it lacks the member here");
            k++;
        } else {
            compare_pair(v, i++, &old, k++, &new);
        }
    }
    if (v->rows_reported > MAX_ROWS_REPORTED)
        REPORT(v, TARN_ERR_STALE, v->index_path, TARN_NO_OFFSET,
               "and %llu more rows that do not match",
               (unsigned long long)(v->rows_reported - MAX_ROWS_REPORTED));
}

static void compare_counts(verifier *v)
{
    if (v->stored->n_stems != v->fresh->n_stems ||
        v->stored->contiguous != v->fresh->contiguous)
        REPORT(v, TARN_ERR_STALE, v->index_path, TARN_NO_OFFSET,
               "the index counts %llu samples%s, but the shards have %llu%s",
               (unsigned long long)v->stored->n_stems,
               v->stored->contiguous ? "" : " (not contiguous)",
               (unsigned long long)v->fresh->n_stems,
               v->fresh->contiguous ? "" : " (not contiguous)");
}

/* The pages may be unchanged while the order is still wrong. */
static void compare_order(verifier *v)
{
    const tarn__sums *old = v->stored->sums, *new = v->fresh->sums;
    if (v->rows_reported || !old || !old->order || v->stored->n_rows != v->fresh->n_rows)
        return;
    if (memcmp(old->order, new->order, 4 * old->n_rows) != 0)
        REPORT(v, TARN_ERR_STALE, old->path, TARN_NO_OFFSET,
               "its key order does not match the index");
}

/* Whether a name gives the stored hash by a rule. */
static bool rule_fits(tarn__splitter *splitter, tarn_keys rule, const tarn__located *l)
{
    tarn__key key;
    return tarn__split(splitter, rule, l->name, l->name_len, &key, NULL) == TARN_OK &&
           tarn__key_hash(key.stem, key.stem_len) == l->row.keyhash;
}

/* Without a .tarsum the key rule is unknown. The first member that matches only one rule
 * decides. */
static tarn_keys find_rule(const verifier *v, tarn__filecache *files)
{
    tarn__place place = {files, v->stored, tarn__key_hash, false};
    tarn__located l;
    tarn__splitter splitter;
    tarn_keys rule = TARN_KEYS_BASE;
    tarn__located_init(&l);
    tarn__splitter_init(&splitter);
    for (uint64_t i = 0; i < v->stored->n_rows && i < MAX_ROWS_TRIED; i++) {
        if (tarn__locate(&place, i, &l, NULL) != TARN_OK) continue;
        bool base = rule_fits(&splitter, TARN_KEYS_BASE, &l);
        bool path = rule_fits(&splitter, TARN_KEYS_PATH, &l);
        if (base == path) continue;
        rule = path ? TARN_KEYS_PATH : TARN_KEYS_BASE;
        break;
    }
    tarn__splitter_reset(&splitter);
    tarn__located_reset(&l);
    return rule;
}

static tarn_status settle_rule(const verifier *v, tarn_keys *out, tarn_error *err)
{
    tarn__filecache *files;
    struct stat st;
    *out = v->sums ? v->sums->keys : TARN_KEYS_BASE;
    if (v->sums || !v->stored || tarn__is_remote(v->shards[0])) return TARN_OK;
    uint64_t *sizes = calloc(v->n_shards + 1, sizeof *sizes);
    if (!sizes) return tarn__fail_memory(err);
    for (size_t i = 0; i < v->n_shards; i++)
        if (stat(v->shards[i], &st) == 0) sizes[i] = (uint64_t)st.st_size;
    tarn_status status =
        tarn__filecache_new(v->shards, sizes, v->n_shards, TARN__IO_READ, &files, err);
    free(sizes);
    TARN_TRY(status);
    *out = find_rule(v, files);
    tarn__filecache_free(files);
    return TARN_OK;
}

/* --- One fold ---------------------------------------------------------------------- */

static tarn_status check_fold(verifier *v, tarn_error *err)
{
    if (v->index_path) TARN_TRY(load_stored(v, err));
    tarn_keys keys;
    TARN_TRY(settle_rule(v, &keys, err));
    TARN_TRY(scan_fresh(v, keys, err));
    v->compared = has_checksums(v);
    if (v->stored) {
        TARN_TRY(map_shards(v, err));
        if (v->stored->sums) compare_stamps(v);
        compare_rows(v);
        compare_order(v);
        compare_counts(v);
    } else if (v->compared) {
        v->compared = v->sums->n_rows == v->fresh->n_rows;
        if (v->compared) compare_payloads(v);
    }
    return TARN_OK;
}

static void count_fold(verifier *v)
{
    v->report->folds++;
    v->report->shards += v->n_shards;
    v->report->members += v->fresh->n_rows;
    v->report->samples += v->fresh->n_stems;
    v->report->indexed += v->has_index;
}

static void drop_fold(verifier *v)
{
    tarn_index_free(v->stored);
    tarn_index_free(v->fresh);
    tarn__sums_free(v->own_sums);
    free(v->shard_map);
    free(v->shard_known);
    v->shard_map = NULL;
    v->shard_known = NULL;
    v->stored = v->fresh = NULL;
    v->sums = v->own_sums = NULL;
}

/* Repairs, then checks again without reporting the same problems twice. */
static tarn_status repair_fold(verifier *v, uint64_t problems, tarn_error *err)
{
    tarn_verify_report again = {0};
    tarn_verify_options quiet = *v->options;
    quiet.problem = NULL;
    bool checksums = has_checksums(v) || v->checksums_damaged;
    tarn__repair r = {.index_path =
                          v->has_index || v->index_removed ? v->index_path : NULL,
                      .shards = v->shards,
                      .n_shards = v->n_shards,
                      .keys = v->fresh->sums->keys,
                      .checksums = checksums,
                      .trusts_payloads = checksums && !v->compared,
                      .keep_index = v->payload_problems || v->shards_missing,
                      .options = v->options,
                      .repairs = &v->report->repairs};
    drop_fold(v);
    TARN_TRY(tarn__repair_fold(&r, err));
    verifier second = *v;
    second.options = &quiet;
    second.report = &again;
    second.rows_reported = second.payload_problems = 0;
    second.index_removed = second.checksums_damaged = false;
    tarn_status status = check_fold(&second, err);
    v->report->indexed += second.has_index && !v->has_index;
    drop_fold(&second);
    v->report->remaining += again.problems < problems ? again.problems : problems;
    return status;
}

tarn_status tarn__verify_fold(const tarn_verify_options *options,
                              tarn_verify_report *report, const char *index_path,
                              tarn_index *given, const char *const *shards,
                              size_t n_shards, tarn_error *err)
{
    verifier v = {.options = options,
                  .report = report,
                  .index_path = index_path,
                  .given = given,
                  .shards = shards,
                  .n_shards = n_shards};
    uint64_t before = report->problems;
    if (options->repair && index_path) TARN_TRY(tarn__index_settle(index_path, err));
    tarn_status status = check_fold(&v, err);
    if (status == TARN_OK) count_fold(&v);
    uint64_t problems = report->problems - before;
    if (status == TARN_OK && problems && options->repair)
        status = repair_fold(&v, problems, err);
    else
        report->remaining += problems;
    drop_fold(&v);
    return status;
}

/* --- Any path ---------------------------------------------------------------------- */

tarn_status tarn__verify_pass(const tarn_verify_options *options,
                              tarn_verify_report *report, tarn_status status,
                              const tarn_error *why, tarn_error *err)
{
    if (status == TARN_OK || status == TARN_ERR_CANCELLED || status == TARN_ERR_MEMORY) {
        if (status != TARN_OK && err) *err = *why;
        return status;
    }
    report->problems++;
    report->remaining++;
    if (options->problem) options->problem(options->problem_context, why);
    return TARN_OK;
}

static tarn_status verify_folder(const char *path, const tarn_verify_options *options,
                                 tarn_verify_report *report, tarn_error *err)
{
    tarn_folds *found;
    TARN_TRY(tarn_folds_list(path, &found, err));
    tarn_status status = TARN_OK;
    for (size_t i = 0; status == TARN_OK && i < found->count; i++) {
        tarn_error why;
        const tarn_listed_fold *one = found->folds[i];
        status = tarn__verify_fold(options, report, one->index_path, NULL, one->shards,
                                   one->n_shards, &why);
        status = tarn__verify_pass(options, report, status, &why, err);
    }
    tarn_folds_free(found);
    return status;
}

/* An index without its shards can only be checked on its own. */
static tarn_status verify_index_alone(const char *path,
                                      const tarn_verify_options *options,
                                      tarn_verify_report *report, tarn_error *err)
{
    verifier v = {.options = options, .report = report, .index_path = path};
    TARN_TRY(load_stored(&v, err));
    report->folds = report->indexed = 1;
    if (v.stored) {
        report->members = v.stored->n_rows;
        report->samples = v.stored->n_stems;
    }
    report->remaining = report->problems;
    drop_fold(&v);
    return TARN_OK;
}

static tarn_status verify_taridx(const char *path, const tarn_verify_options *options,
                                 tarn_verify_report *report, tarn_error *err)
{
    tarn_error why;
    char *spelled;
    TARN_TRY(tarn__path_of_index(path, &spelled, err));
    tarn_status status = verify_folder(spelled, options, report, &why);
    free(spelled);
    if (tarn_is_not_found(status) && report->folds == 0)
        return verify_index_alone(path, options, report, err);
    if (status != TARN_OK && err) *err = why;
    return status;
}

/* Non-contiguous samples and links are not problems of an archive. */
static bool is_remark(const tarn_error *what)
{
    return what->code == TARN_ERR_AMBIGUOUS ||
           (what->code == TARN_ERR_UNSUPPORTED && what->offset == TARN_NO_OFFSET);
}

static void report_unless_remark(void *context, const tarn_error *what)
{
    if (!is_remark(what)) report_problem(context, what);
}

static tarn_status read_stream(verifier *v, const char *url, tarn_error *err)
{
    tarn_samples *samples;
    tarn_samples_item item;
    tarn_samples_report report;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    o.grouping = TARN_GROUP_BASE;
    o.lenient = o.keep_first = o.sizes_only = true;
    o.notice = report_unless_remark;
    o.notice_context = v;
    o.progress = v->options->progress;
    o.progress_context = v->options->progress_context;
    o.allow_pipe = v->options->allow_pipe;
    TARN_TRY(tarn_samples_open(&url, 1, &o, &samples, err));
    tarn_status status;
    do
        status = tarn_samples_next(samples, &item, err);
    while (status == TARN_OK);
    tarn_samples_report_get(samples, &report, sizeof report);
    v->report->samples = report.samples;
    v->report->members = report.members;
    tarn_samples_close(samples);
    return status == TARN_END ? TARN_OK : status;
}

static tarn_status verify_stream(const char *url, const tarn_verify_options *options,
                                 tarn_verify_report *report, tarn_error *err)
{
    tarn_error why;
    verifier v = {.options = options, .report = report};
    if (options->repair)
        return tarn__fail_at(err, TARN_ERR_USAGE, url, TARN_NO_OFFSET,
                             "a stream cannot be repaired");
    report->folds = report->shards = 1;
    tarn_status status = read_stream(&v, url, &why);
    report->remaining = report->problems;
    return tarn__verify_pass(options, report, status, &why, err);
}

tarn_status tarn__fold_verify(const char *path, const tarn_verify_options *options,
                              tarn_verify_report *report, tarn_error *err)
{
    struct stat st;
    if (tarn_remote_form(path) != TARN_REMOTE_NONE)
        return tarn__verify_remote(path, options, report, err);
    if (tarn_tar_is_stream(path)) return verify_stream(path, options, report, err);
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return verify_folder(path, options, report, err);
    if (tarn__is_index_path(path)) return verify_taridx(path, options, report, err);
    tarn_error why;
    tarn_status status = tarn__verify_fold(options, report, NULL, NULL, &path, 1, &why);
    return tarn__verify_pass(options, report, status, &why, err);
}
