/* credential_process: a program that prints credentials. Its name is in the user's own
 * configuration file. It runs without a shell, and sees the terminal, because it may ask
 * the user to log in. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "io/aws.h"
#include "io/command.h"

enum { MAX_ARGUMENTS = 64, MAX_OUTPUT = 64 << 10, MAX_SECONDS = 300 };

/* --- The command line, split as a POSIX shell splits words ------------------------- */

/* Copies one word to *to; false if a quote is not closed. */
static bool take_word(const char **at, char **to)
{
    char quote = '\0';
    for (const char *c = *at;; c++) {
        if (!*c || (!quote && strchr(" \t\r\n", *c))) {
            *at = c;
            *(*to)++ = '\0';
            return quote == '\0';
        }
        if (*c == quote)
            quote = '\0';
        else if (!quote && (*c == '"' || *c == '\''))
            quote = *c;
        else if (*c == '\\' && c[1] && (!quote || (quote == '"' && strchr("\\\"", c[1]))))
            *(*to)++ = *++c;
        else
            *(*to)++ = *c;
    }
}

/* words has room for the line; arguments point into it. */
static tarn_status split(const char *line, char *words, char **arguments, tarn_error *err)
{
    size_t count = 0;
    for (;;) {
        line += strspn(line, " \t\r\n");
        if (!*line) break;
        if (count == MAX_ARGUMENTS)
            return tarn__fail(err, TARN_ERR_LIMIT,
                              "credential_process has more than %d words", MAX_ARGUMENTS);
        arguments[count++] = words;
        if (!take_word(&line, &words))
            return tarn__fail(err, TARN_ERR_USAGE,
                              "a quote in credential_process is not closed");
    }
    arguments[count] = NULL;
    if (count) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "credential_process is empty");
}

/* --- Its output -------------------------------------------------------------------- */

static tarn_status read_output(const tarn__command *command, tarn__buf *out,
                               tarn_error *err)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t end = now.tv_sec + MAX_SECONDS; now.tv_sec < end;) {
        char part[4096];
        struct pollfd p = {.fd = command->fd, .events = POLLIN};
        ssize_t n = poll(&p, 1, 1000) > 0 ? read(command->fd, part, sizeof part) : -1;
        if (n == 0) return TARN_OK;
        if (n > 0) TARN_TRY(tarn__buf_add(out, part, (size_t)n, err));
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return tarn__fail(err, TARN_ERR_IO, "the program did not end within %d s",
                      MAX_SECONDS);
}

static tarn_status run(char *const *arguments, tarn__buf *out, tarn_error *err)
{
    tarn__command command;
    const char *shown = arguments[0];
    TARN_TRY(tarn__command_run(&command, arguments, shown, err));
    tarn_status status = read_output(&command, out, err);
    if (status == TARN_OK) return tarn__command_wait(&command, shown, err);
    tarn__command_kill(&command, true);
    tarn__error_place(err, shown, TARN_NO_OFFSET);
    return status;
}

static tarn_status take_output(const tarn__json *object, tarn__cred_value *out,
                               tarn_error *err)
{
    int64_t version = 0;
    char expires[64];
    const tarn__json *v = tarn__json_find(object, "Version");
    if (!v || !tarn__json_int64(v, &version) || version != 1)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED, "Version is not 1");
    TARN_TRY(tarn__cred_text(object, "SecretAccessKey", true, out->secret,
                             sizeof out->secret, err));
    TARN_TRY(tarn__cred_text(object, "SessionToken", false, out->token, sizeof out->token,
                             err));
    TARN_TRY(tarn__cred_text(object, "Expiration", false, expires, sizeof expires, err));
    if (expires[0] && !tarn__cred_time(expires, &out->expires))
        return tarn__fail(err, TARN_ERR_FORMAT, "Expiration is not a time");
    return tarn__cred_text(object, "AccessKeyId", true, out->access, sizeof out->access,
                           err);
}

static tarn_status run_and_take(char *const *arguments, tarn__cred_value *out,
                                tarn_error *err)
{
    tarn__buf text;
    tarn__json_doc doc;
    tarn__buf_init(&text, MAX_OUTPUT);
    tarn_status status = run(arguments, &text, err);
    if (status == TARN_OK)
        status = tarn__cred_parse(&doc, text.data, text.size, arguments[0], err);
    if (status == TARN_OK) {
        status = take_output(tarn__json_root(&doc), out, err);
        if (status != TARN_OK) tarn__error_place(err, arguments[0], TARN_NO_OFFSET);
        tarn__json_reset(&doc);
    }
    if (text.data) explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

tarn_status tarn__aws_process(const tarn__aws *aws, const char *profile,
                              tarn__cred_value *out, tarn_error *err)
{
    const char *line =
        tarn__aws_get(&aws->files, "profile", profile, "credential_process");
    char *arguments[MAX_ARGUMENTS + 1];
    if (!line) return TARN_OK;
    char *words = malloc(strlen(line) + 1);
    if (!words) return tarn__fail_memory(err);
    tarn_status status = split(line, words, arguments, err);
    if (status == TARN_OK) status = run_and_take(arguments, out, err);
    free(words);
    if (status == TARN_OK) return TARN_OK;
    return tarn__cred_explain(err, status,
                              "it is the credential_process of the profile %s",
                              TARN__SHOW(profile, strlen(profile)));
}
