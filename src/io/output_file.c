/* Local files, which appear complete or not at all, and unbuffered outputs: standard
 * output, pipes and devices. publish.h does everything that concerns how a file reaches
 * the disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/again.h"
#include "io/output.h"
#include "io/publish.h"
#include "io/sigpipe.h"
#include "io/url.h"

typedef struct file_output {
    tarn__output out;
    tarn__publish publish;
} file_output;

static tarn_status file_write(tarn__output *out, const void *data, size_t len,
                              tarn_error *err)
{
    return tarn__publish_write(&((file_output *)out)->publish, data, len, err);
}

static tarn_status file_finish(tarn__output *out, tarn_error *err)
{
    file_output *file = (file_output *)out;
    tarn_status status = tarn__publish_finish(&file->publish, err);
    free(file);
    return status;
}

static void file_abandon(tarn__output *out)
{
    file_output *file = (file_output *)out;
    tarn__publish_abandon(&file->publish);
    free(file);
}

static const tarn__output_ops file_ops = {file_write, file_finish, file_abandon};

typedef struct through_output {
    tarn__output out;
    int fd;
    bool owned;
    uint64_t at;
} through_output;

static tarn_status through_write(tarn__output *out, const void *data, size_t len,
                                 tarn_error *err)
{
    through_output *through = (through_output *)out;
    tarn__sigpipe guard;
    tarn_status status = TARN_OK;
    tarn__sigpipe_block(&guard);
    while (len && status == TARN_OK) {
        ssize_t n = write(through->fd, data, len);
        if (n < 0 && tarn__io_again(through->fd, POLLOUT)) continue;
        if (n < 0) {
            status = tarn__fail_errno(err, out->shown, errno, "cannot write");
            if (err) err->offset = through->at;
        } else {
            data = (const char *)data + n;
            len -= (size_t)n;
            through->at += (uint64_t)n;
        }
    }
    tarn__sigpipe_restore(&guard);
    return status;
}

/* A network file system may report an error only at close; standard output stays open. */
static tarn_status through_finish(tarn__output *out, tarn_error *err)
{
    through_output *through = (through_output *)out;
    tarn_status status = TARN_OK;
    if (through->owned && close(through->fd) != 0)
        status = tarn__fail_errno(err, out->shown, errno, "cannot close");
    free(through);
    return status;
}

static void through_abandon(tarn__output *out)
{
    through_output *through = (through_output *)out;
    if (through->owned) close(through->fd);
    free(through);
}

static const tarn__output_ops through_ops = {through_write, through_finish,
                                             through_abandon};

static tarn_status make_through(int fd, bool owned, tarn__output **out, tarn_error *err)
{
    through_output *through = malloc(sizeof *through);
    if (!through) {
        if (owned) close(fd);
        return tarn__fail_memory(err);
    }
    *through = (through_output){.out.ops = &through_ops, .fd = fd, .owned = owned};
    *out = &through->out;
    return TARN_OK;
}

tarn_status tarn__stdout_open(const char *url, const char *shown,
                              const tarn_sink_options *options, tarn__output **out,
                              tarn_error *err)
{
    return make_through(STDOUT_FILENO, false, out, err);
}

static tarn_status publish_at(const char *path, const tarn_sink_options *options,
                              tarn__output **out, tarn_error *err)
{
    file_output *file = malloc(sizeof *file);
    if (!file) return tarn__fail_memory(err);
    *file = (file_output){.out.ops = &file_ops};
    tarn_status status = tarn__publish_begin(&file->publish, path, err);
    if (status != TARN_OK) {
        free(file);
        return status;
    }
    file->publish.keep_existing = !options->overwrite;
    file->publish.no_sync = options->no_sync;
    *out = &file->out;
    return TARN_OK;
}

/* Devices and links are opened directly: a rename would replace them. */
tarn_status tarn__file_output_open(const char *url, const char *shown,
                                   const tarn_sink_options *options, tarn__output **out,
                                   tarn_error *err)
{
    struct stat st;
    if (stat(url, &st) != 0) return publish_at(url, options, out, err);
    if (S_ISDIR(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "is a folder; name a file in it");
    if (!S_ISREG(st.st_mode)) {
        int fd = open(url, O_WRONLY | O_CLOEXEC);
        if (fd < 0) return tarn__fail_errno(err, shown, errno, "cannot open");
        return make_through(fd, true, out, err);
    }
    if (!options->overwrite)
        return tarn__fail_at(err, TARN_ERR_EXISTS, shown, TARN_NO_OFFSET,
                             "the file already exists; use overwrite (--overwrite) "
                             "to replace it");
    char *real = realpath(url, NULL);
    if (!real) return tarn__fail_errno(err, shown, errno, "cannot resolve");
    tarn_status status = publish_at(real, options, out, err);
    free(real);
    return status;
}

tarn_status tarn__file_url_create(const char *url, const char *shown,
                                  const tarn_sink_options *options, tarn__output **out,
                                  tarn_error *err)
{
    tarn__buf path;
    tarn__buf_init(&path, TARN__MAX_URL + 1);
    tarn_status status = tarn__url_file_path(&path, url, err);
    if (status == TARN_OK)
        status = tarn__file_output_open(path.data, shown, options, out, err);
    else
        tarn__error_place(err, shown, TARN_NO_OFFSET);
    tarn__buf_reset(&path);
    return status;
}
