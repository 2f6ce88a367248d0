/* Local files and standard input. Pipes and devices are read like files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/again.h"
#include "io/input.h"
#include "io/url.h"

typedef struct file_input {
    tarn__input in;
    int fd;
    bool owned; /* standard input stays open */
    uint64_t at;
} file_input;

static tarn_status file_read(tarn__input *in, void *buf, size_t len, size_t *out_got,
                             tarn_error *err)
{
    file_input *file = (file_input *)in;
    ssize_t n;
    do
        n = read(file->fd, buf, len);
    while (n < 0 && tarn__io_again(file->fd, POLLIN));
    if (n < 0) {
        tarn_status status = tarn__fail_errno(err, in->shown, errno, "cannot read");
        if (err) err->offset = file->at;
        return status;
    }
    file->at += (uint64_t)n;
    *out_got = (size_t)n;
    return TARN_OK;
}

static void file_close(tarn__input *in)
{
    file_input *file = (file_input *)in;
    if (file->owned) close(file->fd);
    free(file);
}

static const tarn__input_ops file_ops = {file_read, file_close};

static tarn_status make_input(int fd, bool owned, tarn__input **out, tarn_error *err)
{
    file_input *file = malloc(sizeof *file);
    if (!file) {
        if (owned) close(fd);
        return tarn__fail_memory(err);
    }
    *file = (file_input){.in.ops = &file_ops, .fd = fd, .owned = owned};
    *out = &file->in;
    return TARN_OK;
}

tarn_status tarn__stdin_open(const char *url, const char *shown,
                             const tarn_source_options *options, tarn__input **out,
                             tarn_error *err)
{
    return make_input(STDIN_FILENO, false, out, err);
}

tarn_status tarn__file_input_open(const char *url, const char *shown,
                                  const tarn_source_options *options, tarn__input **out,
                                  tarn_error *err)
{
    struct stat st;
    int fd = open(url, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tarn__fail_errno(err, shown, errno, "cannot open");
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return tarn__fail_at(err, TARN_ERR_UNSUPPORTED, shown, TARN_NO_OFFSET,
                             "is a folder, not a file");
    }
    /* Only advice. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return make_input(fd, true, out, err);
}

tarn_status tarn__file_url_open(const char *url, const char *shown,
                                const tarn_source_options *options, tarn__input **out,
                                tarn_error *err)
{
    tarn__buf path;
    tarn__buf_init(&path, TARN__MAX_URL + 1);
    tarn_status status = tarn__url_file_path(&path, url, err);
    if (status == TARN_OK)
        status = tarn__file_input_open(path.data, shown, options, out, err);
    else
        tarn__error_place(err, shown, TARN_NO_OFFSET);
    tarn__buf_reset(&path);
    return status;
}
