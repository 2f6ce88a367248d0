/* Prints errors and warnings, and flushes the output. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"

/* --- Text that may have names from files and URLs --------------------------------- */

/* A copy of a text without secrets. */
static char *hide(const char *text, bool is_url)
{
    size_t size = 2 * strlen(text) + 16;
    char *out = malloc(size);
    if (!out) cli_no_memory();
    return tarn_hide_secrets(out, size, text, is_url);
}

const char *cli_shown(const char *path)
{
    static char *texts[8];
    static unsigned next;
    if (!path) return NULL;
    char **text = &texts[next++ % 8];
    free(*text);
    return *text = hide(path, true);
}

/* Writes text with its control characters escaped, except newlines and tabs. Backslashes
 * stay, because names in messages have been escaped already. */
static void put_calm(FILE *out, const char *text)
{
    static const char plain[] = "\\\n\t";
    while (*text) {
        size_t len = strcspn(text, plain);
        char *shown = malloc(4 * len + 8);
        if (!shown) cli_no_memory();
        fputs(tarn_printable(shown, 4 * len + 8, text, len), out);
        free(shown);
        text += len;
        for (; *text && strchr(plain, *text); text++)
            fputc(*text, out);
    }
}

static char *formatted(const char *fmt, va_list args)
{
    char *text;
    if (vasprintf(&text, fmt, args) < 0) cli_no_memory();
    return text;
}

static void put_note(const char *fmt, va_list args)
{
    char *text = formatted(fmt, args), *hidden = hide(text, false);
    put_calm(stderr, hidden);
    free(hidden);
    free(text);
}

void cli_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_note(fmt, args);
    va_end(args);
}

void cli_print(const char *fmt, ...)
{
    static int terminal = -1;
    va_list args;
    if (terminal < 0) terminal = isatty(STDOUT_FILENO);
    va_start(args, fmt);
    if (terminal) {
        char *text = formatted(fmt, args);
        put_calm(stdout, text);
        free(text);
    } else {
        vprintf(fmt, args);
    }
    va_end(args);
}

/* --- Errors ------------------------------------------------------------------------ */

int cli_usage(const cli_command *command, const char *fmt, ...)
{
    va_list args;
    const char *space = command ? " " : "", *name = command ? command->name : "";
    fprintf(stderr, "tarn%s%s: ", space, name);
    va_start(args, fmt);
    put_note(fmt, args);
    va_end(args);
    fprintf(stderr, "\nTry: tarn%s%s --help\n", space, name);
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
    cli_note("tarn: %s\n", tarn_error_text(err, text, sizeof text));
    if (err->code == TARN_ERR_CANCELLED) return 130;
    return err->code == TARN_ERR_USAGE ? CLI_USAGE : CLI_DATA;
}

void cli_warn(void *context, const tarn_error *what)
{
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    (void)context;
    cli_note("tarn: warning: %s\n", tarn_error_text(what, text, sizeof text));
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
