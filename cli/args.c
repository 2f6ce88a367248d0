/* Parses the command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "out.h"

static int find_long(const cli_command *c, const char *name, size_t len)
{
    for (int i = 0; c->options[i].name; i++)
        if (len && strlen(c->options[i].name) == len &&
            memcmp(c->options[i].name, name, len) == 0)
            return i;
    return -1;
}

static int find_short(const cli_command *c, char letter)
{
    for (int i = 0; c->options[i].name; i++)
        if (c->options[i].letter == letter) return i;
    return -1;
}

static void note_given(cli_args *args, int option)
{
    args->given[args->n_given++] = (struct cli_given){option, args->values[option]};
}

/* Parses one "--name", "--name=value" or "--name value". */
static int take_long(const cli_command *c, int argc, char **argv, int *at, cli_args *out)
{
    const char *arg = argv[*at] + 2, *equals = strchr(arg, '=');
    int i = find_long(c, arg, equals ? (size_t)(equals - arg) : strlen(arg));
    if (i < 0) return cli_usage(c, "unknown option %s", argv[*at]);
    if (!c->options[i].value && equals)
        return cli_usage(c, "--%s does not take a value", c->options[i].name);
    if (!c->options[i].value)
        out->values[i] = "";
    else if (equals)
        out->values[i] = equals + 1;
    else if (*at + 1 < argc)
        out->values[i] = argv[++*at];
    else
        return cli_usage(c, "--%s needs a value", c->options[i].name);
    note_given(out, i);
    return CLI_OK;
}

/* Parses "-x", "-xyz", "-o value" or "-ovalue". */
static int take_short(const cli_command *c, int argc, char **argv, int *at, cli_args *out)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        int i = find_short(c, *p);
        if (i < 0) return cli_usage(c, "unknown option -%c", *p);
        if (!c->options[i].value) {
            out->values[i] = "";
            continue;
        }
        if (p[1])
            out->values[i] = p + 1;
        else if (*at + 1 < argc)
            out->values[i] = argv[++*at];
        else
            return cli_usage(c, "-%c needs a value", *p);
        note_given(out, i);
        break;
    }
    return CLI_OK;
}

int cli_parse(const cli_command *c, int argc, char **argv, cli_args *out)
{
    bool only_words = false;
    *out = (cli_args){.command = c};
    out->words = calloc((size_t)argc + 1, sizeof *out->words);
    out->given = calloc((size_t)argc + 1, sizeof *out->given);
    if (!out->words || !out->given) cli_no_memory();
    for (int at = 0; at < argc; at++) {
        const char *arg = argv[at];
        int status = CLI_OK;
        if (only_words || arg[0] != '-' || arg[1] == '\0')
            out->words[out->n_words++] = arg;
        else if (strcmp(arg, "--") == 0)
            only_words = true;
        else if (arg[1] == '-')
            status = take_long(c, argc, argv, &at, out);
        else
            status = take_short(c, argc, argv, &at, out);
        if (status != CLI_OK) return status;
    }
    if (out->n_words < c->min_words) return cli_usage(c, "%s is missing", c->words);
    if (out->n_words > c->max_words)
        return cli_usage(c, "unexpected argument %s", out->words[c->max_words]);
    return CLI_OK;
}

const char *cli_value(const cli_args *args, const char *name)
{
    int i = find_long(args->command, name, strlen(name));
    return i < 0 ? NULL : args->values[i];
}

const char *cli_value_at(const cli_args *args, const char *name, int number)
{
    int i = find_long(args->command, name, strlen(name));
    for (int k = 0; k < args->n_given; k++)
        if (args->given[k].option == i && number-- == 0) return args->given[k].value;
    return NULL;
}

bool cli_has(const cli_args *args, const char *name)
{
    return cli_value(args, name) != NULL;
}

void cli_set(cli_args *args, const char *name, const char *value)
{
    args->values[find_long(args->command, name, strlen(name))] = value;
}

enum { MAX_NUMBER = 1000000 };

bool cli_number(const cli_args *args, const char *name, unsigned *out)
{
    const char *value = cli_value(args, name);
    char *end;
    if (!value) return true;
    errno = 0;
    unsigned long n = strtoul(value, &end, 10);
    if (end == value || *end || value[0] == '-') {
        cli_usage(args->command, "--%s needs a number, not %s", name, value);
        return false;
    }
    if (errno || n > MAX_NUMBER) {
        cli_usage(args->command, "--%s must be at most %d, not %s", name, MAX_NUMBER,
                  value);
        return false;
    }
    *out = (unsigned)n;
    return true;
}

/* Ignores case. */
bool cli_ends_with(const char *text, const char *ending)
{
    size_t len = strlen(text), n = strlen(ending);
    return len > n && strcasecmp(text + len - n, ending) == 0;
}

bool cli_field_is(const char *field, const char *kind)
{
    const char *dot = strrchr(field, '.');
    return strcasecmp(dot ? dot + 1 : field, kind) == 0;
}

const char *cli_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* k, M, G, T and P are powers of 1000, with an i (Ki, Mi) powers of 1024. */
static bool read_size(const char *text, uint64_t *out)
{
    static const char letters[] = "kMGTP";
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || !(value >= 0)) return false;
    const char *letter = *end ? strchr(letters, *end == 'K' ? 'k' : *end) : NULL;
    if (letter) {
        double base = end[1] == 'i' ? 1024 : 1000;
        for (const char *at = letters; at <= letter; at++)
            value *= base;
        end += end[1] == 'i' ? 2 : 1;
    }
    if (*end == 'B') end++;
    if (*end || value > 9e18) return false;
    *out = (uint64_t)value;
    return true;
}

bool cli_size(const cli_args *args, const char *name, uint64_t *out)
{
    const char *text = cli_value(args, name);
    if (!text || read_size(text, out)) return true;
    cli_usage(args->command, "--%s takes a number such as 10000, 500M or 2GiB, not %s",
              name, text);
    return false;
}

bool cli_fraction(const cli_args *args, const char *name, double *out)
{
    const char *text = cli_value(args, name);
    char *end;
    if (!text) return true;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out <= 1) return true;
    cli_usage(args->command, "--%s takes a fraction such as 0.1, not %s", name, text);
    return false;
}

bool cli_seed(const cli_args *args, const char *name, uint64_t *out)
{
    const char *text = cli_value(args, name);
    char *end;
    if (!text) return true;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (!errno && end != text && !*end && text[0] != '-') return true;
    cli_usage(args->command, "--%s takes a whole number, not %s", name, text);
    return false;
}

bool cli_keys(const cli_args *args, tarn_keys *out)
{
    const char *value = cli_value(args, "keys");
    if (!value) return true;
    if (strcmp(value, "base") == 0) {
        *out = TARN_KEYS_BASE;
    } else if (strcmp(value, "path") == 0) {
        *out = TARN_KEYS_PATH;
    } else {
        cli_usage(args->command, "--keys must be base or path, not %s", value);
        return false;
    }
    return true;
}

int cli_refuse(const cli_args *args, const char *kind, const char *const *names)
{
    for (; *names; names++)
        if (cli_has(args, *names))
            return cli_usage(args->command, "--%s cannot be used with %s", *names, kind);
    return CLI_OK;
}

int cli_refuse_for(const cli_args *args, const char *kind, const cli_instead *list)
{
    for (; list->option; list++)
        if (cli_has(args, list->option))
            return cli_usage(args->command, "--%s cannot be used with %s: %s",
                             list->option, kind, list->instead);
    return CLI_OK;
}

static char *read_stream(FILE *in)
{
    size_t size = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text) {
        size += fread(text + size, 1, capacity - size - 1, in);
        if (size + 1 < capacity) break;
        char *grown = realloc(text, capacity *= 2);
        if (!grown) free(text);
        text = grown;
    }
    if (text) text[size] = '\0';
    /* Accepts the NUL-separated output of tarn ls -0. */
    for (size_t i = 0; text && i < size; i++)
        if (text[i] == '\0') text[i] = '\n';
    return text;
}

char *cli_file_text(const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "rb");
    if (!in) {
        fprintf(stderr, "tarn: %s: cannot open: %s\n", path, strerror(errno));
        return NULL;
    }
    char *text = read_stream(in);
    if (ferror(in)) {
        fprintf(stderr, "tarn: %s: cannot read: %s\n", standard ? "standard input" : path,
                strerror(errno));
        free(text);
        text = NULL;
    }
    if (!standard) fclose(in);
    return text;
}

/* Splits text in place. Empty lines in a file are skipped, and a carriage return before
 * the newline is dropped. */
static bool split_items(cli_list *list, const char *separator, bool lines)
{
    size_t capacity = 0;
    char *at = list->text;
    while (at && *at) {
        char *end = strpbrk(at, separator);
        size_t len = end ? (size_t)(end - at) : strlen(at);
        if (lines && len && at[len - 1] == '\r') at[len - 1] = '\0';
        if (list->count == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            const char **grown = realloc(list->items, capacity * sizeof *grown);
            if (!grown) return false;
            list->items = grown;
        }
        if (end) *end = '\0';
        if (*at) list->items[list->count++] = at;
        at = end ? end + 1 : NULL;
    }
    return true;
}

void cli_lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z') *text = (char)(*text - 'A' + 'a');
}

bool cli_list_get(const char *value, cli_list *out)
{
    bool from_file = value[0] == '@';
    *out = (cli_list){.text = from_file ? cli_file_text(value + 1) : strdup(value)};
    if (!out->text && from_file) return false; /* already reported */
    if (!out->text || !split_items(out, from_file ? "\n" : ",", from_file))
        cli_no_memory();
    return true;
}

void cli_list_free(cli_list *list)
{
    free(list->text);
    free(list->items);
    *list = (cli_list){0};
}
