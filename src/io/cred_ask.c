/* What providers of credentials have in common: requests, files, JSON and times. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "io/cred.h"
#include "io/url.h"

/* A provider that sends less on average is given up, so that no answer takes long. */
enum { CONNECT = 10, STALL = 20, MIN_SPEED = 50 };

tarn_status tarn__cred_set(char *out, size_t size, const char *value, size_t len,
                           const char *what, tarn_error *err)
{
    if (len >= size) return tarn__fail(err, TARN_ERR_USAGE, "%s is too long", what);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
            return tarn__fail(err, TARN_ERR_USAGE, "%s contains a control character",
                              what);
    memcpy(out, value, len);
    out[len] = '\0';
    return TARN_OK;
}

tarn_status tarn__cred_explain(tarn_error *err, tarn_status status, const char *format,
                               ...)
{
    if (!err) return status;
    size_t used = strlen(err->message), size = sizeof err->message;
    va_list args;
    if (used + 3 < size) {
        memcpy(err->message + used, "; ", 3);
        va_start(args, format);
        vsnprintf(err->message + used + 2, size - used - 2, format, args);
        va_end(args);
    }
    return status;
}

/* --- Requests -------------------------------------------------------------------- */

static tarn_status exchange(const tarn__cred_ask *ask, const char *shown,
                            tarn__cred_answer *answer, bool need_ok, tarn_error *err)
{
    tarn__http http;
    tarn__http_config config = {
        .shown = shown,
        .connect_seconds = ask->connect_seconds ? ask->connect_seconds : CONNECT,
        .stall_seconds = ask->stall_seconds ? ask->stall_seconds : STALL,
        .retries = ask->retries,
        .min_speed = MIN_SPEED,
        .direct = ask->direct,
        .sign = ask->sign,
        .signer = ask->signer,
    };
    tarn__http_request request = {
        .method = ask->method,
        .url = ask->url,
        .headers = ask->headers,
        .body = ask->body,
        .body_size = ask->body ? strlen(ask->body) : 0,
    };
    answer->status = 0;
    answer->connected = false;
    TARN_TRY(tarn__http_init(&http, &config, err));
    tarn_status status = tarn__http_exchange(&http, &request, &answer->reply, err);
    answer->status = http.head.status;
    answer->connected = http.connected;
    if (status == TARN_OK && need_ok && http.head.status != 200)
        status =
            tarn__http_fail_status(&http, answer->reply.body, answer->reply.size, err);
    tarn__http_reset(&http);
    return status;
}

static tarn_status ask_shown(const tarn__cred_ask *ask, tarn__cred_answer *answer,
                             bool need_ok, tarn_error *err)
{
    char *shown = tarn__url_shown(ask->url);
    if (!shown) return tarn__fail_memory(err);
    tarn_status status = exchange(ask, shown, answer, need_ok, err);
    free(shown);
    return status;
}

tarn_status tarn__cred_ask_any(const tarn__cred_ask *ask, tarn__cred_answer *answer,
                               tarn_error *err)
{
    return ask_shown(ask, answer, false, err);
}

tarn_status tarn__cred_ask_ok(const tarn__cred_ask *ask, tarn__cred_answer *answer,
                              tarn_error *err)
{
    return ask_shown(ask, answer, true, err);
}

tarn_status tarn__cred_bearer(const char *token, tarn__http *http, tarn_error *err)
{
    size_t size = strlen(token) + 32;
    char *line = malloc(size);
    if (!line) return tarn__fail_memory(err);
    snprintf(line, size, "Authorization: Bearer %s", token);
    tarn_status status = tarn__http_add_header(http, line, err);
    explicit_bzero(line, size);
    free(line);
    return status;
}

/* --- Files and JSON -------------------------------------------------------------- */

static tarn_status read_all(tarn__buf *out, int fd, const char *path, size_t max,
                            tarn_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return tarn__fail_errno(err, path, errno, "cannot read");
    if (S_ISDIR(st.st_mode))
        return tarn__fail_at(err, TARN_ERR_USAGE, path, TARN_NO_OFFSET, "is a folder");
    for (;;) {
        char part[4096];
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tarn__fail_errno(err, path, errno, "cannot read");
        if (n == 0) return TARN_OK;
        if ((size_t)n > max - out->size)
            return tarn__fail_at(err, TARN_ERR_LIMIT, path, TARN_NO_OFFSET,
                                 "has more than %zu bytes", max);
        tarn_status status = tarn__buf_add(out, part, (size_t)n, err);
        explicit_bzero(part, sizeof part);
        TARN_TRY(status);
    }
}

tarn_status tarn__cred_read_file(tarn__buf *out, const char *path, size_t max,
                                 tarn_error *err)
{
    tarn__buf_init(out, max + 1);
    /* A FIFO that nobody writes to must not stop the program. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return tarn__fail_errno(err, path, errno, "cannot open");
    tarn_status status = read_all(out, fd, path, max, err);
    close(fd);
    if (status == TARN_OK) status = tarn__buf_reserve(out, 1, err);
    if (status == TARN_OK) out->data[out->size] = '\0';
    if (status != TARN_OK) tarn__buf_reset(out);
    return status;
}

tarn_status tarn__cred_parse(tarn__json_doc *doc, const char *text, size_t len,
                             const char *from, tarn_error *err)
{
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    options.last_wins = true;
    tarn_status status = tarn__json_parse(doc, len ? text : "", len, &options, err);
    if (status == TARN_OK && tarn__json_root(doc)->kind != TARN__JSON_OBJECT) {
        tarn__json_reset(doc);
        status = tarn__fail(err, TARN_ERR_FORMAT, "is not a JSON object");
    }
    if (status == TARN_OK) return TARN_OK;
    /* The parser's message may quote the text, which holds secrets. */
    uint64_t offset = err ? err->offset : 0;
    return tarn__fail_at(err, status, from, offset,
                         "expected a JSON object with credentials");
}

tarn_status tarn__cred_text(const tarn__json *object, const char *key, bool need,
                            char *out, size_t size, tarn_error *err)
{
    const tarn__json *v = tarn__json_find(object, key);
    out[0] = '\0';
    if (!v || v->kind == TARN__JSON_NULL)
        return need ? tarn__fail(err, TARN_ERR_FORMAT, "%s is missing", key) : TARN_OK;
    if (v->kind != TARN__JSON_STRING || (need && v->size == 0))
        return tarn__fail(err, TARN_ERR_FORMAT, "%s is not a text", key);
    return tarn__cred_set(out, size, v->u.text, v->size, key, err);
}

/* --- Times ----------------------------------------------------------------------- */

static bool take_offset(const char *at, int64_t *out)
{
    int hours, minutes = 0, used = 0;
    *out = 0;
    if (at[0] == 'Z' || at[0] == 'z') return at[1] == '\0';
    if (strcmp(at, "UTC") == 0 || !at[0]) return true;
    if (at[0] != '+' && at[0] != '-') return false;
    if (sscanf(at + 1, "%2d%n", &hours, &used) != 1 || used != 2) return false;
    const char *rest = at + 3;
    if (*rest == ':') rest++;
    if (*rest && (sscanf(rest, "%2d%n", &minutes, &used) != 1 || rest[used]))
        return false;
    *out = (hours * 60 + minutes) * 60 * (at[0] == '-' ? -1 : 1);
    return hours < 24 && minutes >= 0 && minutes < 60;
}

bool tarn__cred_time(const char *text, int64_t *out)
{
    struct tm t = {0};
    int64_t offset;
    const char *at = strptime(text, "%Y-%m-%d", &t);
    if (!at || (*at != 'T' && *at != ' ')) return false;
    at = strptime(at + 1, "%H:%M:%S", &t);
    if (!at) return false;
    if (*at == '.') at += 1 + strspn(at + 1, "0123456789");
    if (!take_offset(at, &offset)) return false;
    *out = (int64_t)timegm(&t) - offset;
    return true;
}
