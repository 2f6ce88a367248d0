/* The error struct and its text. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secrets.h"
#include "base/utf8.h"

const char *tarn_version(void)
{
    return TARN_VERSION;
}

const char *tarn_status_name(tarn_status status)
{
    static const char *const names[] = {
        "ok",        "end",       "usage",       "memory",    "io",
        "format",    "truncated", "unsupported", "limit",     "not-found",
        "ambiguous", "stale",     "checksum",    "cancelled", "exists",
        "no-file",   "no-fold",   "no-sample",   "no-field"};
    _Static_assert(sizeof names / sizeof names[0] == TARN_ERR_NO_FIELD + 1,
                   "a name each");
    return (unsigned)status <= TARN_ERR_NO_FIELD ? names[status] : "unknown";
}

bool tarn_is_not_found(tarn_status status)
{
    return status == TARN_ERR_NOT_FOUND ||
           (status >= TARN_ERR_NO_FILE && status <= TARN_ERR_NO_FIELD);
}

/* A copy without secrets; NULL if there is no memory, because nothing is safer to show.
 */
static char *shown_copy(const char *text, bool is_url)
{
    size_t size = tarn__shown_size(strlen(text));
    char *out = malloc(size);
    return out ? tarn_hide_secrets(out, size, text, is_url) : NULL;
}

static void set_path(tarn_error *err, const char *path)
{
    char *shown = NULL;
    if (path && tarn__may_hold_secrets(path)) path = shown = shown_copy(path, true);
    size_t len = path ? strlen(path) : 0;
    if (len >= sizeof err->path) {
        /* The end of a path is more useful than its beginning. */
        path += len - (sizeof err->path - 1);
        len = sizeof err->path - 1;
    }
    if (len) memcpy(err->path, path, len);
    err->path[len] = '\0';
    free(shown);
}

/* Hides secrets before the text is cut: a password that is cut could not be
 * recognised. */
static size_t set_message(tarn_error *err, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(err->message, sizeof err->message, fmt, args);
    if (n > 0 && tarn__may_hold_secrets(err->message)) {
        char *whole = NULL;
        if (vasprintf(&whole, fmt, again) < 0) whole = NULL;
        char *shown = whole ? shown_copy(whole, false) : NULL;
        n = snprintf(err->message, sizeof err->message, "%s", shown ? shown : "");
        free(shown);
        free(whole);
    }
    va_end(again);
    return n < 0 ? 0 : (size_t)n;
}

static void fill_error(tarn_error *err, tarn_status code, const char *path,
                       uint64_t offset, int sys_errno, const char *fmt, va_list args)
{
    if (!err) return;
    err->code = code;
    err->sys_errno = sys_errno;
    err->offset = offset;
    set_path(err, path);
    size_t used = set_message(err, fmt, args);
    if (sys_errno && used < sizeof err->message) {
        char text[128];
        /* The GNU strerror_r returns the text, which may be outside the buffer. */
        const char *what = strerror_r(sys_errno, text, sizeof text);
        snprintf(err->message + used, sizeof err->message - used, ": %s", what);
    }
}

void tarn__error_set(tarn_error *err, tarn_status code, const char *path, uint64_t offset,
                     const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill_error(err, code, path, offset, 0, fmt, args);
    va_end(args);
}

tarn_status tarn__error_set_errno(tarn_error *err, const char *path, int e,
                                  const char *fmt, ...)
{
    va_list args;
    tarn_status code = e == ENOENT || e == ENOTDIR ? TARN_ERR_NO_FILE
                       : e == ENOMEM               ? TARN_ERR_MEMORY
                       : e == EEXIST               ? TARN_ERR_EXISTS
                                                   : TARN_ERR_IO;
    va_start(args, fmt);
    fill_error(err, code, path, TARN_NO_OFFSET, e, fmt, args);
    va_end(args);
    return code;
}

void tarn__error_place(tarn_error *err, const char *path, uint64_t offset)
{
    if (!err) return;
    set_path(err, path);
    err->offset = offset;
}

void tarn__error_line(tarn_error *err, tarn_status code, const char *path, uint64_t line)
{
    char message[TARN_ERROR_MESSAGE_MAX];
    if (!err || err->path[0]) return;
    memcpy(message, err->message, sizeof message);
    tarn__error_set(err, code, path, TARN_NO_OFFSET, "line %llu: %s",
                    (unsigned long long)line, message);
}

/* A path may come from the data, and terminals interpret control characters in it. */
static bool is_calm(const char *path)
{
    for (; *path; path++)
        if ((unsigned char)*path < 0x20 || *path == 0x7f) return false;
    return true;
}

char *tarn_error_text(const tarn_error *err, char *buf, size_t size)
{
    char shown[4 * TARN_ERROR_PATH_MAX];
    if (size) buf[0] = '\0';
    if (!err) return buf;
    const char *path = is_calm(err->path) ? err->path
                                          : tarn_printable(shown, sizeof shown, err->path,
                                                           strlen(err->path));
    if (size == 0) return buf;
    if (path[0] && err->offset != TARN_NO_OFFSET)
        snprintf(buf, size, "%s: offset %llu: %s", path, (unsigned long long)err->offset,
                 err->message);
    else if (path[0])
        snprintf(buf, size, "%s: %s", path, err->message);
    else if (err->offset != TARN_NO_OFFSET)
        snprintf(buf, size, "offset %llu: %s", (unsigned long long)err->offset,
                 err->message);
    else
        snprintf(buf, size, "%s", err->message);
    return buf;
}

/* Characters that terminals interpret or that reorder the text: C1 controls, and the
 * marks, embeddings and isolates of bidirectional text. */
static bool is_tricky(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    if (len == 2) return u[0] == 0xc2 && u[1] < 0xa0;
    if (len != 3 || u[0] != 0xe2) return false;
    return (u[1] == 0x80 &&
            (u[2] == 0x8e || u[2] == 0x8f || (u[2] >= 0xa8 && u[2] <= 0xae))) ||
           (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9);
}

char *tarn_printable(char *out, size_t size, const char *name, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0, i = 0;
    while (i < len && size >= 8) {
        unsigned char c = (unsigned char)name[i];
        size_t take = c < 0x80 ? 1 : tarn__utf8_valid_length(name + i, len - i);
        bool plain = take > 1 ? !is_tricky(name + i, take)
                              : take == 1 && c >= 0x20 && c < 0x7f && c != '\\';
        size_t need = plain ? take : 4;
        if (used + need + 4 > size) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (plain) {
            memcpy(out + used, name + i, take);
        } else {
            out[used] = '\\';
            out[used + 1] = 'x';
            out[used + 2] = hex[c >> 4];
            out[used + 3] = hex[c & 15];
            take = 1;
        }
        used += need;
        i += take;
    }
    if (size) out[used] = '\0';
    return out;
}
