/* Driven by the interop tests: texts on standard input, each ended by a NUL, and the
 * library's results on standard output, each ended by a NUL. A text that is refused comes
 * back as "!status offset message". With "doubles", each eight bytes of input are one
 * double, and the output is its text.
 *
 *   json_tool write|sort|last|utf8|sort-utf8 INDENT      (INDENT -1: on one line)
 *   json_tool doubles */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"

static char *read_all(size_t *out_len)
{
    size_t capacity = 1 << 20, len = 0, got;
    char *data = malloc(capacity + 1);
    while (data && (got = fread(data + len, 1, capacity - len, stdin)) > 0) {
        len += got;
        if (len == capacity) data = realloc(data, (capacity *= 2) + 1);
    }
    if (!data) exit(3);
    data[len] = '\0';
    *out_len = len;
    return data;
}

static tarn_status convert(const char *text, size_t len, const char *how, int indent,
                           tarn__buf *out, tarn_error *err)
{
    tarn__json_doc doc;
    tarn__json_writer w;
    tarn__json_options options = TARN__JSON_OPTIONS_INIT;
    options.last_wins = strcmp(how, "last") == 0;
    TARN_TRY(tarn__json_parse(&doc, text, len, &options, err));
    tarn__json_begin(&w, out);
    w.indent = indent;
    w.ascii = !strstr(how, "utf8");
    tarn__json_put_value(&w, tarn__json_root(&doc), strstr(how, "sort") != NULL);
    tarn__json_reset(&doc);
    return tarn__json_end(&w, err);
}

static void convert_all(const char *data, size_t len, const char *how, int indent)
{
    tarn__buf out;
    tarn_error err;
    tarn__buf_init(&out, SIZE_MAX);
    for (const char *p = data; p < data + len; p += strlen(p) + 1) {
        out.size = 0;
        tarn_status status = convert(p, strlen(p), how, indent, &out, &err);
        if (status == TARN_OK)
            fwrite(out.data, 1, out.size, stdout);
        else
            printf("!%s %llu %s", tarn_status_name(status),
                   (unsigned long long)err.offset, err.message);
        putchar('\0');
    }
    tarn__buf_reset(&out);
}

int main(int argc, char **argv)
{
    size_t len;
    char *data = read_all(&len);
    if (argc == 2 && strcmp(argv[1], "doubles") == 0) {
        for (size_t i = 0; i + sizeof(double) <= len; i += sizeof(double)) {
            double value;
            char text[TARN__DOUBLE_MAX];
            memcpy(&value, data + i, sizeof value);
            tarn__double_text(value, text);
            puts(text);
        }
    } else if (argc == 3) {
        convert_all(data, len, argv[1], atoi(argv[2]));
    } else {
        fputs("usage: json_tool HOW INDENT | doubles\n", stderr);
        return 2;
    }
    free(data);
    return 0;
}
