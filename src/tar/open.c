/* Opens an archive: a plain file by position, everything else as a stream. The first
 * bytes decide what it is, never its name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/options.h"
#include "io/filter.h"
#include "io/input.h"
#include "io/object.h"
#include "io/url.h"
#include "tar/reader.h"

/* The compression that the first bytes show, or NULL. A valid header is the beginning of
 * an archive, whatever its first member is called. */
static const char *compression_of(const unsigned char *head, size_t len)
{
    static const unsigned char lz4[] = {0x04, 0x22, 0x4d, 0x18};
    const tarn__filter *cut;
    if (len >= TARN__BLOCK && tarn__header_sum_matches(head)) return NULL;
    const tarn__filter *filter = tarn__filter_by_magic(head, len, &cut);
    if (filter) return filter->name;
    return len >= sizeof lz4 && memcmp(head, lz4, sizeof lz4) == 0 ? "lz4" : NULL;
}

static tarn_status find_compression(const tarn__file *file, const char **out,
                                    tarn_error *err)
{
    unsigned char head[TARN__BLOCK];
    size_t got;
    TARN_TRY(tarn__read_at(file->fd, file->path, head, sizeof head, 0, &got, err));
    *out = compression_of(head, got);
    return TARN_OK;
}

static tarn_status fail_compressed(const char *path, const char *compression,
                                   tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, path, 0,
                         "compressed with %s, so random access is impossible; decompress "
                         "it first",
                         compression);
}

static void begin_reading(tarn_tar *tar, const tarn_tar_options *options)
{
    *tar = (tarn_tar){.options = *options, .torn_at = TARN_NO_OFFSET};
    tar->file.fd = -1;
    tar->window.direct_fd = -1;
    tarn__buf_init(&tar->path, TARN_MAX_EXTENDED);
    tarn__buf_init(&tar->joined, TARN__BLOCK);
    tarn__buf_init(&tar->name, TARN_MAX_EXTENDED);
}

static tarn_status open_file(tarn_tar *tar, const char *path, tarn__window_use use,
                             tarn_error *err)
{
    const char *compression;
    TARN_TRY(tarn__file_open(&tar->file, path, err));
    TARN_TRY(find_compression(&tar->file, &compression, err));
    if (compression) return fail_compressed(path, compression, err);
    return tarn__window_open(&tar->window, &tar->file, use, err);
}

/* --- Streams ----------------------------------------------------------------------- */

static tarn_status open_source(tarn_tar *tar, const char *url, tarn_error *err)
{
    TARN__OPTIONS(tarn_source_options, taken, TARN_SOURCE_OPTIONS_INIT,
                  tar->options.source, err);
    taken.allow_pipe |= tar->options.allow_pipe;
    tar->file.path = tarn__url_shown(url);
    if (!tar->file.path) return tarn__fail_memory(err);
    TARN_TRY(tarn_source_open(url, &taken, &tar->source, err));
    tar->file.mtime_ns = tarn__source_modified_ns(tar->source);
    return tarn__window_open_source(&tar->window, &tar->file, tar->source, err);
}

/* A remote object can be read by position later, but now it is read once, as a stream. */
static tarn_status open_remote(tarn_tar *tar, const char *url, tarn_error *err)
{
    const unsigned char *head;
    size_t got = 0;
    TARN__OPTIONS(tarn_source_options, o, TARN_SOURCE_OPTIONS_INIT, tar->options.source,
                  err);
    o.filter = TARN_FILTER_NONE;
    tar->options.source = &o;
    tarn_status status = open_source(tar, url, err);
    tar->options.source = NULL;
    TARN_TRY(status);
    status = tarn__window_some(&tar->window, 0, TARN__BLOCK, &head, &got, err);
    if (status == TARN_END) return TARN_OK;
    TARN_TRY(status);
    const char *compression = compression_of(head, got);
    return compression ? fail_compressed(tar->file.path, compression, err) : TARN_OK;
}

tarn_status tarn__tar_open(tarn_tar *tar, const char *path,
                           const tarn_tar_options *options, tarn__window_use use,
                           tarn_error *err)
{
    begin_reading(tar, options);
    tarn_status status = tarn__is_remote(path) ? open_remote(tar, path, err)
                                               : open_file(tar, path, use, err);
    if (status != TARN_OK) tarn__tar_close(tar);
    return status;
}

/* Whether a file can only be read as a stream: files that are not regular, and compressed
 * ones. A missing file is reported when it is opened. */
static tarn_status check_file(const char *path, bool *out_stream, tarn_error *err)
{
    struct stat st;
    tarn__file file;
    const char *compression;
    *out_stream = false;
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode)) return TARN_OK;
    *out_stream = !S_ISREG(st.st_mode);
    if (*out_stream) return TARN_OK;
    TARN_TRY(tarn__file_open(&file, path, err));
    tarn_status status = find_compression(&file, &compression, err);
    tarn__file_close(&file);
    if (status == TARN_OK) *out_stream = compression && strcmp(compression, "lz4") != 0;
    return status;
}

static tarn_status is_stream(const char *path, bool *out, tarn_error *err)
{
    *out = strcmp(path, "-") == 0 || tarn__url_scheme(path) > 0;
    return *out ? TARN_OK : check_file(path, out, err);
}

bool tarn_tar_is_stream(const char *path)
{
    if (!path) return false;
    bool stream;
    return is_stream(path, &stream, NULL) == TARN_OK && stream;
}

tarn_status tarn__tar_open_url(tarn_tar *tar, const char *url,
                               const tarn_tar_options *options, tarn__window_use use,
                               tarn_error *err)
{
    bool called = options->source && options->source->calls;
    bool stream = called;
    begin_reading(tar, options);
    if (!called) TARN_TRY(is_stream(url, &stream, err));
    if (!stream) return tarn__tar_open(tar, url, options, use, err);
    tarn_status status = open_source(tar, url, err);
    if (status != TARN_OK) tarn__tar_close(tar);
    return status;
}

void tarn__tar_close(tarn_tar *tar)
{
    tarn__window_close(&tar->window);
    tarn_source_close(tar->source);
    tar->source = NULL;
    tarn__file_close(&tar->file);
    tarn__buf_reset(&tar->path);
    tarn__buf_reset(&tar->joined);
    tarn__buf_reset(&tar->name);
}
