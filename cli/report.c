/* Prints errors and warnings, and flushes the output. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

int cli_usage(const cli_command *command, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "tarn%s%s: ", command ? " " : "", command ? command->name : "");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nTry: tarn%s%s --help\n", command ? " " : "",
            command ? command->name : "");
    return CLI_USAGE;
}

/* Whether the reader of standard output has closed it. */
static bool is_broken_pipe(const tarn_error *err)
{
    return err->sys_errno == EPIPE && strcmp(err->path, "-") == 0;
}

int cli_fail(const tarn_error *err)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    /* The library blocks SIGPIPE. A command ends by the signal, silently, unless the
     * signal was ignored when it started. */
    if (is_broken_pipe(err)) raise(SIGPIPE);
    fprintf(stderr, "tarn: %s\n", tarn_error_text(err, text, sizeof text));
    if (err->code == TARN_ERR_CANCELLED) return 130;
    return err->code == TARN_ERR_USAGE ? CLI_USAGE : CLI_DATA;
}

void cli_warn(void *context, const tarn_error *what)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    (void)context;
    fprintf(stderr, "tarn: warning: %s\n", tarn_error_text(what, text, sizeof text));
}

const char *cli_count(uint64_t n, const char *what)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%llu %s%s", (unsigned long long)n, what,
             n == 1 ? "" : "s");
    return text;
}

int cli_finish(void)
{
    static bool reported;
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    if (reported) return CLI_DATA;
    reported = true;
    fprintf(stderr, "tarn: cannot write to standard output: %s\n", strerror(errno));
    return CLI_DATA;
}

tarn_status cli_error(tarn_error *err, tarn_status code, const char *fmt, ...)
{
    va_list args;
    *err = (tarn_error){.code = code, .offset = TARN_NO_OFFSET};
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    return code;
}

_Noreturn void cli_no_memory(void)
{
    fputs("tarn: out of memory\n", stderr);
    exit(CLI_DATA);
}
