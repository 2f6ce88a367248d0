/* An index and its checksums, beside shards that never change: whatever the two files
 * say, returned bytes are those of the member they claim to be.
 *
 * The input is 4 bytes, an index, and the checksums if any bytes are left: the low 24
 * bits of the little-endian number are the length of the index, the other 8 are options.
 */
#include "common.h"

#include <tarn/dataset.h>
#include <tarn/members.h>
#include <tarn/verify.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "folder.h"
#include "itar/fold.h"
#include "shard.h"

enum { MIX = 1, CHECKED = 2, READ = 4, BY_HASH = 8, VERIFY = 16, FILTER = 32 };

static const char *fold_name;
static unsigned first_shard, last_shard;
static bool has_sums;

/* --- The folder ------------------------------------------------------------------- */

/* A file beside the index: "NAME.ENDING". */
static const char *beside(const char *name, const char *ending)
{
    static char path[PATH_SIZE];
    char base[64];
    snprintf(base, sizeof base, "%s%s", name, ending);
    path_to(path, base);
    return path;
}

static void make_shards(void)
{
    static shard_bytes shard;
    for (unsigned i = 0; i < SHARDS; i++) {
        make_shard(i, &shard);
        CHECK(tarn__crc32c(0, shard.data, shard.size) == shard_crcs[i]);
        put_file(beside(shard_names[i], ""), shard.data, shard.size);
    }
}

/* --- The index by itself ---------------------------------------------------------- */

static void walk_index(void)
{
    char path[512];
    tarn_index *index;
    tarn_index_info info;
    tarn_error err;
    snprintf(path, sizeof path, "%s/%s.taridx", folder, fold_name);
    if (tarn_index_load(path, &index, &err) != TARN_OK) {
        CHECK(err.code > TARN_END && err.path[0] && err.message[0]);
        return;
    }
    tarn_index_info_get(index, &info, sizeof info);
    CHECK(info.samples <= info.rows);
    for (uint64_t i = 0; i < info.rows; i++) {
        tarn_row row;
        CHECK(tarn_index_row(index, i, &row, &err) == TARN_OK);
        CHECK(tarn_index_field(index, row.field) && row.collision <= info.collisions);
        CHECK((tarn_index_collision(index, row.collision) != NULL) ==
              (row.collision > 0));
        CHECK(row.offset % 512 == 0);
    }
    CHECK(!tarn_index_field(index, info.fields));
    CHECK(!tarn_index_collision(index, info.collisions + 1));
    tarn_index_free(index);
}

/* --- Rows and samples ------------------------------------------------------------- */

static int is_letter(const unsigned char *data, size_t size, unsigned char letter)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != letter) return 0;
    return 1;
}

static const truth *truth_at(const tarn_row *row)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (members[i].shard == first_shard + row->shard &&
            members[i].offset == row->offset)
            return &members[i];
    return NULL;
}

static bool is_twin(const char *key)
{
    return strcmp(key, TWIN_ONE) == 0 || strcmp(key, TWIN_TWO) == 0;
}

/* The checksum file is trusted about where the previous member ends, and so about whether
 * there is room for an extended header, which gives a member its size. */
static bool is_hidden(tarn__fold *fold, uint64_t number, const tarn_row *row)
{
    tarn_row before;
    return has_sums && number > 0 &&
           tarn_index_row(fold->index, number - 1, &before, NULL) == TARN_OK &&
           before.shard == row->shard && before.offset + 512 + before.size <= row->offset;
}

/* The member that a row returns, or NULL if it returns an error. */
static const truth *check_row(tarn__fold *fold, uint64_t number)
{
    tarn_row row;
    tarn_view view;
    tarn_text key = {0}, name = {0};
    if (tarn__fold_view(fold, number, false, &view, NULL) != TARN_OK) return NULL;
    CHECK(tarn_index_row(fold->index, number, &row, NULL) == TARN_OK);
    const truth *m = truth_at(&row);
    CHECK(m);
    if (m->how == PAX_SIZE && view.size == 0 && is_hidden(fold, number, &row)) {
        tarn_view_release(&view);
        return NULL;
    }
    CHECK(view.size == m->size && is_letter(view.data, view.size, m->letter));
    tarn_view_release(&view);
    CHECK(tarn__fold_names(fold, number, &key, &name, NULL) == TARN_OK);
    CHECK(strcmp(key.data, m->key) == 0 && strcmp(name.data, m->name) == 0);
    CHECK(strcmp(tarn_index_field(fold->index, row.field), m->field) == 0);
    tarn_text_reset(&key);
    tarn_text_reset(&name);
    return m;
}

/* All readable rows of a sample have one key, or two with the same hash: the index is
 * trusted about those. When a sample was looked up by key and the index lists keys that
 * share a hash, every row was compared. */
static void check_sample(tarn__fold *fold, const tarn__sample_rows *s, const char *key)
{
    bool exact = key && tarn_index_collision(fold->index, 1);
    CHECK(s->count > 0);
    for (uint32_t k = 0; k < s->count && k < 64; k++) {
        const truth *m = check_row(fold, tarn__rows_at(s, k));
        if (!m) continue;
        if (!key) key = m->key;
        CHECK(strcmp(key, m->key) == 0 || (!exact && is_twin(key) && is_twin(m->key)));
    }
}

static tarn__sample_rows rows_of(const tarn__fold *fold, uint64_t sample)
{
    uint64_t from = tarn__fold_start(fold, sample);
    return (tarn__sample_rows){(uint32_t)tarn__fold_n_rows(fold, sample), (uint32_t)from,
                               fold->rows ? fold->rows + from : NULL};
}

static void check_key(tarn__fold *fold, const char *key, const char *field)
{
    tarn__sample_rows s;
    uint64_t sample, row;
    if (tarn__fold_find_rows(fold, key, &s, NULL) != TARN_OK) return;
    check_sample(fold, &s, key);
    uint32_t id = tarn__names_find(&fold->index->fields, field, strlen(field));
    if (id == TARN__NAME_NONE || tarn__fold_count(fold, &sample, NULL) != TARN_OK ||
        tarn__fold_find(fold, key, &sample, NULL) != TARN_OK ||
        tarn__fold_row_of(fold, sample, id, &row, NULL) != TARN_OK)
        return;
    const truth *m = check_row(fold, row);
    CHECK(!m || strcmp(m->field, field) == 0);
}

/* Returns how many members could be read by position. */
static uint64_t check_positions(tarn__fold *fold, uint64_t samples)
{
    uint64_t rows = 0, good = 0;
    tarn_index_info index;
    tarn_index_info_get(fold->index, &index, sizeof index);
    for (uint64_t i = 0; i < samples; i++) {
        tarn__sample_rows s = rows_of(fold, i);
        if (i < 32) check_sample(fold, &s, NULL);
        for (uint32_t k = 0; k < s.count && i < 32; k++)
            good += check_row(fold, tarn__rows_at(&s, k)) != NULL;
        rows += s.count;
    }
    CHECK(rows == index.rows && samples == index.samples);
    return good;
}

/* --- The dataset ------------------------------------------------------------------ */

static bool is_member(const char *key, const char *field, const unsigned char *data,
                      size_t size)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        const truth *m = &members[i];
        bool is_key = strcmp(m->key, key) == 0 || (is_twin(m->key) && is_twin(key));
        if (is_key && strcmp(m->field, field) == 0 && m->size == size &&
            is_letter(data, size, m->letter))
            return true;
    }
    return false;
}

/* One field of a sample, by a view and in a batch. */
static void check_piece(tarn_dataset *d, uint64_t sample, uint32_t field, const char *key)
{
    tarn_view view;
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    uint64_t pair[2] = {sample, sample};
    tarn_status status = tarn_dataset_get(d, sample, field, &view, NULL);
    CHECK((tarn_dataset_read(d, pair, 2, &field, 1, &batch, NULL) == TARN_OK) ==
          (status == TARN_OK));
    if (status == TARN_OK) {
        CHECK(is_member(key, tarn_dataset_field(d, field), view.data, view.size));
        CHECK(batch.count == 2 && batch.offsets[2] == 2 * view.size);
        CHECK(memcmp(batch.data, view.data, view.size) == 0);
        CHECK(memcmp(batch.data + view.size, view.data, view.size) == 0);
        tarn_view_release(&view);
    }
    tarn_dataset_batch_reset(&batch);
}

static void check_sets(tarn_dataset *d)
{
    tarn_field_sets *sets;
    uint64_t samples = 0;
    if (tarn_dataset_field_sets(d, &sets, NULL) != TARN_OK) return;
    for (size_t i = 0; i < sets->count; i++)
        samples += sets->sets[i]->samples;
    CHECK(samples == tarn_dataset_count(d));
    tarn_field_sets_free(sets);
}

/* The rows that the members should have, in a fold of the same files. */
static void check_members(tarn__fold *fold, tarn_dataset *d, uint64_t sample)
{
    tarn_stored have[64];
    size_t n;
    if (tarn_dataset_members(d, sample, have, 64, &n, NULL) != TARN_OK) return;
    for (size_t k = 0; k < n && k < 64; k++) {
        const truth *m = check_row(fold, have[k].row);
        CHECK(!m || strcmp(m->field, tarn_dataset_field(d, have[k].field)) == 0);
    }
}

static void check_filters(tarn__fold *fold, tarn_dataset *all)
{
    const char *fields[] = {"txt", "cls"}, *keys[] = {"a", "m", TWIN_TWO, "absent"};
    bool found[4];
    tarn_dataset *having, *few, *d;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_HAVING;
    c.names = fields;
    c.n_names = 2;
    if (tarn_dataset_filter(all, &c, &having, NULL) != TARN_OK) return;
    c.kind = TARN_CONDITION_KEYS;
    c.names = keys;
    c.n_names = 4;
    c.found = found;
    if (tarn_dataset_with_fields(having, fields, 2, &few, NULL) == TARN_OK) {
        if (tarn_dataset_filter(few, &c, &d, NULL) == TARN_OK) {
            CHECK(!found[3]);
            for (uint64_t i = 0; i < tarn_dataset_count(d); i++)
                check_members(fold, d, i);
            tarn_dataset_close(d);
        }
        tarn_dataset_close(few);
    }
    tarn_dataset_close(having);
}

static void check_dataset(tarn__fold *fold, const char *path, unsigned options)
{
    tarn_dataset *d;
    tarn_text key = {0};
    uint64_t found;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.check = options & CHECKED;
    o.by_hash = options & BY_HASH;
    if (options & READ) o.io = TARN_IO_READ;
    if (tarn_dataset_open(path, &o, &d, NULL) != TARN_OK) return;
    check_sets(d);
    if (options & FILTER) check_filters(fold, d);
    for (uint64_t i = 0; i < tarn_dataset_count(d) && i < 16; i++) {
        if (tarn_dataset_key(d, i, &key, NULL) != TARN_OK) continue;
        check_members(fold, d, i);
        for (uint32_t f = 0; f < 8 && tarn_dataset_field(d, f); f++)
            check_piece(d, i, f, key.data);
        if (tarn_dataset_find(d, (const char *const *)&key.data, 1, &found, NULL, NULL) ==
            TARN_OK)
            CHECK(found < tarn_dataset_count(d));
    }
    tarn_text_reset(&key);
    tarn_dataset_close(d);
}

/* --- The fold --------------------------------------------------------------------- */

static uint64_t count_truth(void)
{
    uint64_t n = 0;
    for (size_t i = 0; i < MEMBERS; i++)
        n += members[i].shard >= first_shard && members[i].shard < last_shard;
    return n;
}

static void check_fold(const char *path, unsigned options, bool verified)
{
    tarn__fold *fold;
    tarn_error err;
    uint64_t good = 0, samples;
    tarn__fold_options o = {0};
    o.check = options & CHECKED;
    o.by_hash = options & BY_HASH;
    if (options & READ) o.io = TARN_IO_READ;
    tarn_status status = tarn__fold_open(path, &o, &fold, &err);
    if (status == TARN_OK) {
        if (tarn__fold_count(fold, &samples, NULL) == TARN_OK)
            good = check_positions(fold, samples);
        for (size_t i = 0; i < MEMBERS; i++)
            check_key(fold, members[i].key, members[i].field);
        check_key(fold, "absent", "txt");
        check_dataset(fold, path, options);
        tarn__fold_close(fold);
    }
    if (verified && !(options & CHECKED)) CHECK(good == count_truth());
}

/* Whether verification finds no problem in an existing index. */
static bool verify(const char *path)
{
    tarn_verify_report report = {0};
    tarn_verify_options o = TARN_VERIFY_OPTIONS_INIT;
    o.threads = 1;
    CHECK(tarn_verify(path, &o, &report, sizeof report, NULL) == TARN_OK);
    CHECK(report.folds == 1 && report.members == count_truth());
    return report.indexed && report.problems == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[512];
    if (size < 4) return 0;
    uint32_t word = tarn__get32(data);
    unsigned options = word >> 24;
    size_t len = word & 0xffffff;
    if (len > size - 4) len = size - 4;
    if (make_folder()) make_shards();
    fold_name = options & MIX ? "mix" : "train";
    first_shard = options & MIX ? TRAIN_SHARDS : 0;
    last_shard = options & MIX ? SHARDS : TRAIN_SHARDS;
    put_file(beside(fold_name, ".taridx"), data + 4, len);
    has_sums = len < size - 4;
    if (has_sums)
        put_file(beside(fold_name, ".tarsum"), data + 4 + len, size - 4 - len);
    else
        unlink(beside(fold_name, ".tarsum"));
    snprintf(path, sizeof path, "%s:%s", folder, fold_name);
    walk_index();
    check_fold(path, options, options & VERIFY && verify(path));
    return 0;
}

/* --- Mutation --------------------------------------------------------------------- */

/* Writes the CRCs of a part's pages; returns the position after them, or NULL. */
static uint8_t *fix_pages(uint8_t *at, const uint8_t *end, const uint8_t *part,
                          size_t size)
{
    for (size_t done = 0; at && done < size; done += 4096, at += 4) {
        if (end - at < 4) return NULL;
        size_t len = size - done < 4096 ? size - done : 4096;
        tarn__put32(at, tarn__crc32c(0, part + done, len));
    }
    return at;
}

/* Corrects the CRCs of a .tarsum, so that the code after the check is reached. */
static void fix_sums(const uint8_t *index, size_t index_size, uint8_t *sums, size_t size)
{
    if (size < 128 || index_size < 64) return;
    uint8_t *end = sums + size;
    uint64_t rows_at = tarn__get64(index + 48), block = 4 * tarn__get64(sums + 16);
    uint64_t pages = tarn__get64(sums + 48),
             places[2] = {tarn__get64(sums + 56), tarn__get64(sums + 64)};
    if (rows_at > index_size || pages < 128 || pages > size) return;
    tarn__put64(sums + 72, size);
    tarn__put64(sums + 80, index_size);
    tarn__put32(sums + 88, tarn__crc32c(0, index, rows_at));
    uint8_t *at = fix_pages(sums + pages, end, index + rows_at, index_size - rows_at);
    for (int i = 0; i < 2; i++)
        if (places[i] && places[i] <= size && block <= size - places[i])
            at = fix_pages(at, end, sums + places[i], block);
    if (!at) return;
    uint32_t self = tarn__crc32c(0, sums, 124);
    tarn__put32(sums + 124, tarn__crc32c(self, sums + 128, (size_t)(at - sums) - 128));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max);
    if (size < 4 || seed % 4 == 0) return size;
    size_t len = tarn__get32(data) & 0xffffff;
    if (len < size - 4) fix_sums(data + 4, len, data + 4 + len, size - 4 - len);
    return size;
}
