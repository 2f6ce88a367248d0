/* Writes JSON. Bytes that are not UTF-8 are replaced by U+FFFD. */
#include <string.h>

#include "cli.h"

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none. */
static size_t sequence(const unsigned char *s)
{
    size_t need = s[0] < 0x80                   ? 1
                  : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                  : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                  : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                : 0;
    for (size_t i = 1; i < need; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return need;
}

/* U+0080 to U+009F: a terminal may take them for commands. */
static bool is_control(const unsigned char *s)
{
    return s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0;
}

static void put_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', out);
    while (*s) {
        size_t n = sequence(s);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(out, "\\u%04x", *s);
        else if (is_control(s))
            fprintf(out, "\\u%04x", s[1]);
        else if (n)
            fwrite(s, 1, n, out);
        else
            fputs("\\ufffd", out);
        s += n ? n : 1;
    }
    fputc('"', out);
}

static void begin(cli_json *j, const char *key)
{
    if (j->comma) fputs(", ", j->out);
    if (key) {
        put_string(j->out, key);
        fputs(": ", j->out);
    }
    j->comma = true;
}

void cli_json_open(cli_json *j, const char *key, char bracket)
{
    begin(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void cli_json_close(cli_json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}

void cli_json_text(cli_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        put_string(j->out, value);
    else
        fputs("null", j->out);
}

void cli_json_number(cli_json *j, const char *key, uint64_t value)
{
    begin(j, key);
    fprintf(j->out, "%llu", (unsigned long long)value);
}

void cli_json_bool(cli_json *j, const char *key, bool value)
{
    begin(j, key);
    fputs(value ? "true" : "false", j->out);
}

void cli_json_problem(cli_json *j, const tarn_error *what)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "path", cli_shown(what->path));
    if (what->offset != TARN_NO_OFFSET) cli_json_number(j, "offset", what->offset);
    cli_json_text(j, "kind", tarn_status_name(what->code));
    cli_json_text(j, "message", what->message);
    cli_json_close(j, '}');
}

void cli_json_line(cli_json *j)
{
    fputc('\n', j->out);
    j->comma = false;
}

/* Only strings in JSON have such characters. What is written to a file stays as it is. */
void cli_json_raw(cli_json *j, const char *key, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + len;
    begin(j, key);
    if (j->out != stdout) {
        fwrite(text, 1, len, j->out);
        return;
    }
    for (; s < end; s++) {
        if (*s == 0x7f)
            fputs("\\u007f", stdout);
        else if (end - s > 1 && is_control(s))
            fprintf(stdout, "\\u%04x", *++s);
        else
            fputc(*s, stdout);
    }
}
