/* Builds an index: scans the shards in parallel, then merges them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/options.h"
#include "base/pool.h"
#include "io/object.h"
#include "itar/scan.h"

TARN__DEFINE_INIT(tarn_index_options, TARN_INDEX_OPTIONS_INIT)

/* Connections at once; more threads than cores, because they wait for the network. */
enum { REMOTE_THREADS = 16 };

static tarn_status check_names(const char *const *paths, size_t count, tarn_error *err)
{
    if (count > TARN_MAX_SHARDS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%zu shards, but an index can have at most %u; divide them "
                          "into several folds",
                          count, TARN_MAX_SHARDS);
    for (size_t i = 0; i < count; i++)
        if (strchr(paths[i], '\n'))
            return tarn__fail_at(err, TARN_ERR_USAGE, paths[i], TARN_NO_OFFSET,
                                 "a shard name contains a newline");
    return TARN_OK;
}

static uint64_t total_size(const char *const *paths, size_t count)
{
    uint64_t total = 0;
    struct stat st;
    for (size_t i = 0; i < count; i++)
        if (stat(paths[i], &st) == 0) total += (uint64_t)st.st_size;
    return total;
}

static tarn_status scan_all(tarn__build *build, tarn_error *err)
{
    size_t failed;
    build->scans = calloc(build->count ? build->count : 1, sizeof *build->scans);
    if (!build->scans) return tarn__fail_memory(err);
    bool remote = build->count && tarn__is_remote(build->paths[0]);
    unsigned threads = remote && !build->options->threads
                           ? REMOTE_THREADS
                           : tarn__thread_count(build->options->threads);
    tarn_status status =
        tarn__parallel(threads, build->count, tarn__scan_shard, build, &failed);
    if (status != TARN_OK && err) *err = build->scans[failed].error;
    return status;
}

tarn_index *tarn__index_new(void)
{
    tarn_index *index = calloc(1, sizeof *index);
    if (!index) return NULL;
    tarn__names_init(&index->fields);
    tarn__names_init(&index->collisions);
    index->owns_rows = true;
    return index;
}

/* The rows are now in the stream's map, which the index owns from here on. */
static void take_map(tarn__build *build)
{
    if (!build->stream.file) return;
    build->index->owns_rows = false;
    build->index->contents =
        (tarn__contents){build->stream.map, build->stream.map_size, true};
    build->index->rows_at = build->stream.rows_at;
    build->stream.map = NULL;
}

static tarn_status build_index(tarn__build *build, tarn_index_report *report,
                               tarn_error *err)
{
    TARN_TRY(scan_all(build, err));
    TARN_TRY(tarn__stream_attach(build, err));
    tarn_status status = tarn__merge(build, build->index, report, err);
    build->index->threads = tarn__thread_count(build->options->threads);
    take_map(build);
    return status;
}

tarn_status tarn__index_build(const char *const *shards, size_t count,
                              const tarn_index_options *options, tarn__hash hash,
                              struct tarn__publish *file, tarn_index **out,
                              tarn_index_report *report, tarn_error *err)
{
    TARN__OPTIONS(tarn_index_options, taken, TARN_INDEX_OPTIONS_INIT, options, err);
    tarn_index_report ignored;
    tarn__build build = {.paths = shards,
                         .options = &taken,
                         .hash = hash,
                         .count = count,
                         .stream = {.file = file}};
    TARN_TRY(check_names(shards, count, err));
    build.total_bytes = total_size(shards, count);
    pthread_mutex_init(&build.lock, NULL);
    build.index = tarn__index_new();
    tarn_status status = build.index
                             ? build_index(&build, report ? report : &ignored, err)
                             : tarn__fail_memory(err);
    for (size_t i = 0; build.scans && i < count; i++)
        tarn__scan_reset(&build.scans[i]);
    free(build.scans);
    tarn__stream_reset(&build.stream);
    pthread_mutex_destroy(&build.lock);
    if (status == TARN_OK)
        *out = build.index;
    else
        tarn_index_free(build.index);
    return status;
}
