/* Manifests that people write: CSV, TSV and JSON lines for shards, JSON lines for record
 * packs, and lists of names to keep. An accepted manifest is written, and the samples of
 * the result are those of the manifest. The first byte is the kind, the rest is the text.
 * Two files, a.txt and b.bin, are beside the manifest. */
#include "common.h"

#include <tarn/dataset.h>
#include <tarn/iac.h>
#include <tarn/tar.h>

#include "folder.h"
#include "itar/collection.h"
#include "pack/records.h"

enum { LONGEST = 8 << 10, KINDS = 5 };

static const char *const endings[KINDS] = {"csv", "tsv", "jsonl", "pack", "json"};
static char path[KINDS][PATH_SIZE], pack_path[PATH_SIZE], tar_path[PATH_SIZE],
    shard_path[PATH_SIZE];

static void make_files(void)
{
    char name[PATH_SIZE];
    for (int i = 0; i < KINDS; i++) {
        snprintf(name, sizeof name, "m.%s", endings[i]);
        path_to(path[i], name);
    }
    path_to(pack_path, "out.iac");
    path_to(tar_path, "out.tar");
    path_to(shard_path, "new.tar");
    path_to(name, "a.txt");
    put_file(name, "text of a", 9);
    path_to(name, "b.bin");
    put_file(name, "\0\1\2", 3);
}

/* --- Shards ----------------------------------------------------------------------- */

typedef struct shard {
    tarn_tar_writer *writer;
    uint64_t samples, fields;
} shard;

static tarn_status take(void *context, unsigned part, const char *key,
                        const tarn_field *fields, size_t count, tarn_error *err)
{
    shard *s = context;
    CHECK(part == 0 && key[0] && count > 0);
    s->samples++;
    s->fields += count;
    return tarn_tar_writer_add(s->writer, key, fields, count, err);
}

/* As many members are read as were written. */
static void read_again(uint64_t members)
{
    tarn_tar *tar;
    tarn_member m;
    CHECK(tarn_tar_open(shard_path, NULL, &tar, NULL) == TARN_OK);
    while (tarn_tar_next(tar, &m, NULL) == TARN_OK)
        members--;
    CHECK(members == 0);
    tarn_tar_close(tar);
}

static tarn_status write_shard(tarn__collection *c, tarn_error *err)
{
    tarn_walk_options o = TARN_WALK_OPTIONS_INIT;
    tarn_tar_writer_options w = TARN_TAR_WRITER_OPTIONS_INIT;
    shard s = {0};
    o.threads = 1;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.overwrite = sink.no_sync = true;
    w.sink = &sink;
    CHECK(tarn_tar_writer_open(shard_path, &w, &s.writer, NULL) == TARN_OK);
    tarn_status status = tarn__collection_walk(c, &o, take, &s, err);
    if (status != TARN_OK) {
        tarn_tar_writer_abandon(s.writer);
        return status;
    }
    CHECK(tarn_tar_writer_finish(s.writer, NULL, 0, NULL) == TARN_OK);
    CHECK(s.samples == c->n_samples && s.fields == c->files + c->values);
    read_again(s.fields);
    return TARN_OK;
}

static void try_collection(const char *manifest)
{
    tarn__collection *c;
    tarn_error err;
    CHECK(tarn__collection_new(NULL, &c, &err) == TARN_OK);
    tarn_status status = tarn__collection_add_manifest(c, manifest, &err);
    if (status == TARN_OK) status = tarn__collection_group(c, &err);
    if (status == TARN_OK) {
        for (uint64_t i = 0; i < c->n_samples; i++) {
            unsigned part;
            const char *key = tarn__collection_key(c, i, &part);
            CHECK(key && key[0] && part == 0);
            for (const char *k = key; *k; k++)
                CHECK((unsigned char)*k >= 0x20 && *k != 0x7f);
        }
        CHECK(!tarn__collection_key(c, c->n_samples, NULL));
        status = write_shard(c, &err);
    }
    if (status != TARN_OK) CHECK(err.code == status && err.message[0]);
    tarn__collection_free(c);
}

/* --- Record packs ----------------------------------------------------------------- */

/* Also with the column t as times, if type is given. */
static void try_pack(const char *manifest, const char *type)
{
    tarn_pack_type time = {"t", type};
    tarn_iac_write_options write = TARN_IAC_WRITE_OPTIONS_INIT;
    tarn__records_options o = {.write = &write, .types = &time, .n_types = type != NULL};
    tarn_iac_info info;
    tarn_iac *pack;
    tarn_view view;
    tarn_error err;
    uint64_t records = 0;
    write.overwrite = write.no_sync = true;
    tarn_status status =
        tarn__records_from_manifest(pack_path, manifest, &o, &records, &err);
    if (status != TARN_OK) {
        CHECK(err.code == status && err.message[0]);
        return;
    }
    CHECK(tarn_iac_open(pack_path, NULL, &pack, &err) == TARN_OK);
    tarn_iac_info_get(pack, &info, sizeof info);
    CHECK(info.records == records);
    for (uint64_t i = 0; i < records; i++) {
        CHECK(tarn_iac_view(pack, i, false, &view, &err) == TARN_OK);
        tarn_view_release(&view);
    }
    tarn_iac_close(pack);
}

/* --- Lists of names ----------------------------------------------------------------- */

/* Shards of three samples. */
static tarn_dataset *open_birds(void)
{
    tarn_dataset *d;
    static const char *const keys[] = {"kea", "tui", "moa"};
    tarn_tar_writer *w;
    const tarn_field field = {"txt", "bird", 4, NULL};
    tarn_tar_writer_options o = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    sink.overwrite = sink.no_sync = true;
    o.sink = &sink;
    CHECK(tarn_tar_writer_open(tar_path, &o, &w, NULL) == TARN_OK);
    for (int i = 0; i < 3; i++)
        CHECK(tarn_tar_writer_add(w, keys[i], &field, 1, NULL) == TARN_OK);
    CHECK(tarn_tar_writer_finish(w, NULL, 0, NULL) == TARN_OK);
    CHECK(tarn_dataset_open(tar_path, NULL, &d, NULL) == TARN_OK);
    return d;
}

static void try_names(const char *list)
{
    tarn_dataset *birds = open_birds(), *kept;
    tarn_error err;
    size_t missing = 0;
    tarn_condition c = TARN_CONDITION_INIT;
    c.kind = TARN_CONDITION_JSON;
    c.name = list;
    for (int strict = 0; strict < 2; strict++) {
        c.missing = strict ? NULL : &missing;
        tarn_status status = tarn_dataset_filter(birds, &c, &kept, &err);
        if (status == TARN_OK) {
            CHECK(tarn_dataset_count(kept) <= 3);
            CHECK(!strict || missing == 0);
            tarn_dataset_close(kept);
        } else {
            CHECK(err.code == status && err.message[0]);
        }
    }
    tarn_dataset_close(birds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > LONGEST) return 0;
    if (make_folder()) make_files();
    unsigned kind = data[0] % KINDS;
    put_file(path[kind], data + 1, size - 1);
    if (kind < 3) {
        try_collection(path[kind]);
    } else if (kind == 3) {
        try_pack(path[kind], NULL);
        try_pack(path[kind], "timestamp");
    } else {
        try_names(path[kind]);
    }
    return 0;
}
