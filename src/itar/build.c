/* Building an index: the shards are scanned in parallel, then merged. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/options.h"
#include "base/pool.h"
#include "itar/scan.h"

static tarn_status check_names(const char *const *paths, size_t count, tarn_error *err)
{
    if (count > TARN_MAX_SHARDS)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%zu shards, and an index can number %u of them", count,
                          TARN_MAX_SHARDS);
    for (size_t i = 0; i < count; i++)
        if (strchr(paths[i], '\n'))
            return tarn__fail_at(err, TARN_ERR_USAGE, paths[i], TARN_NO_OFFSET,
                                 "a shard name with a newline");
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
    unsigned threads = tarn__thread_count(build->options->threads);
    tarn_status status =
        tarn__parallel(threads, build->count, tarn__scan_shard, build, &failed);
    if (status != TARN_OK && err) *err = build->scans[failed].error;
    return status;
}

static tarn_index *new_index(void)
{
    tarn_index *index = calloc(1, sizeof *index);
    if (!index) return NULL;
    tarn__names_init(&index->fields);
    tarn__names_init(&index->crashes);
    index->owns_rows = true;
    return index;
}

tarn_status tarn__index_build(const char *const *shards, size_t count,
                              const tarn_index_options *options, tarn__hash hash,
                              tarn_index **out, tarn_index_report *report,
                              tarn_error *err)
{
    TARN__OPTIONS(tarn_index_options, taken, TARN_INDEX_OPTIONS_INIT, options, err);
    tarn_index_report ignored;
    tarn__build build = {
        .paths = shards, .options = &taken, .hash = hash, .count = count};
    TARN_TRY(check_names(shards, count, err));
    build.total_bytes = total_size(shards, count);
    pthread_mutex_init(&build.lock, NULL);
    tarn_index *index = new_index();
    tarn_status status = index ? scan_all(&build, err) : tarn__fail_memory(err);
    if (status == TARN_OK)
        status = tarn__merge(&build, index, report ? report : &ignored, err);
    for (size_t i = 0; build.scans && i < count; i++)
        tarn__scan_reset(&build.scans[i]);
    free(build.scans);
    pthread_mutex_destroy(&build.lock);
    if (status == TARN_OK)
        *out = index;
    else
        tarn_index_free(index);
    return status;
}

tarn_status tarn_index_build(const char *const *shards, size_t count,
                             const tarn_index_options *options, tarn_index **out,
                             tarn_index_report *report, tarn_error *err)
{
    return tarn__index_build(shards, count, options, tarn__key_hash, out, report, err);
}
