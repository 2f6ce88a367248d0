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

/* --- Words that are nearly right --------------------------------------------------- */

enum { MAX_WORD = 31 };

/* Characters to insert, delete, replace, or swap with their neighbour. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t d[MAX_WORD + 2][MAX_WORD + 2];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            size_t least = i ? d[i - 1][j] + 1 : j;
            if (j && (!i || d[i][j - 1] + 1 < least)) least = i ? d[i][j - 1] + 1 : j;
            if (i && j && d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) < least)
                least = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    }
    return d[n][m];
}

/* A third of the letters may differ. The beginning of a word is near, too. */
void cli_guess_try(cli_guess *g, const char *known)
{
    size_t n = strlen(g->word), m = strlen(known);
    if (n < 2 || n > MAX_WORD || !m || m > MAX_WORD) return;
    size_t far = n > 2 && n < m && strncmp(g->word, known, n) == 0
                     ? 1
                     : distance(g->word, n, known, m);
    if (far > (m + 1) / 3 || (g->best && far >= g->distance)) return;
    g->best = known;
    g->distance = far;
}

const char *cli_guess_text(const cli_guess *g, const char *prefix)
{
    static char text[MAX_WORD + 40];
    if (!g->best) return "";
    snprintf(text, sizeof text, "; did you mean %s%s?", prefix, g->best);
    return text;
}

const char *cli_guess_command(const char *name)
{
    cli_guess g = {.word = name};
    for (int i = 0; cli_commands[i]; i++)
        cli_guess_try(&g, cli_commands[i]->name);
    return cli_guess_text(&g, "");
}

static int fail_unknown(const cli_command *c, const char *arg, size_t len)
{
    char word[MAX_WORD + 2];
    snprintf(word, sizeof word, "%.*s", (int)len, arg + 2);
    cli_guess g = {.word = word};
    for (int i = 0; c->options[i].name; i++)
        cli_guess_try(&g, c->options[i].name);
    if (c->options[0].name) cli_guess_try(&g, "help");
    return cli_usage(c, "unknown option %s%s", arg, cli_guess_text(&g, "--"));
}

bool cli_choice(const cli_args *args, const char *name, const char *const *words,
                size_t count, int *out)
{
    const char *value = cli_value(args, name);
    char list[256] = "";
    if (!value) return true;
    cli_guess g = {.word = value};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], value) == 0) {
            *out = (int)i;
            return true;
        }
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s",
                 i == 0          ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 words[i]);
        cli_guess_try(&g, words[i]);
    }
    cli_usage(args->command, "--%s must be %s, not %s%s", name, list, value,
              cli_guess_text(&g, ""));
    return false;
}

/* --- Parsing ----------------------------------------------------------------------- */

static void take(cli_args *out, int i, const char *value)
{
    out->values[i] = value;
    out->given[out->n_given++] = (cli_given){i, value};
}

/* Parses one "--name", "--name=value" or "--name value". */
static int take_long(const cli_command *c, int argc, char **argv, int *at, cli_args *out)
{
    const char *arg = argv[*at] + 2, *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    int i = find_long(c, arg, len);
    if (i < 0) return fail_unknown(c, argv[*at], len);
    if (!c->options[i].value && equals)
        return cli_usage(c, "--%s does not take a value", c->options[i].name);
    const char *value = c->options[i].value;
    if (!value || (value[0] == '[' && !equals))
        take(out, i, "");
    else if (equals)
        take(out, i, equals + 1);
    else if (*at + 1 < argc)
        take(out, i, argv[++*at]);
    else
        return cli_usage(c, "--%s needs a value", c->options[i].name);
    return CLI_OK;
}

/* Parses "-x", "-xyz", "-o value" or "-ovalue". */
static int take_short(const cli_command *c, int argc, char **argv, int *at, cli_args *out)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        int i = find_short(c, *p);
        if (i < 0) return cli_usage(c, "unknown option -%c", *p);
        const char *value = c->options[i].value;
        if (!value || value[0] == '[') {
            take(out, i, "");
            continue;
        }
        if (p[1])
            take(out, i, p + 1);
        else if (*at + 1 < argc)
            take(out, i, argv[++*at]);
        else
            return cli_usage(c, "-%c needs a value", *p);
        break;
    }
    return CLI_OK;
}

int cli_parse(const cli_command *c, int argc, char **argv, cli_args *out)
{
    bool only_words = false;
    *out = (cli_args){.command = c};
    size_t letters = 0; /* "-xyz" is several options */
    for (int at = 0; at < argc; at++)
        letters += strlen(argv[at]) + 1;
    out->words = calloc((size_t)argc + 1, sizeof *out->words);
    out->given = calloc(letters + 1, sizeof *out->given);
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

bool cli_has(const cli_args *args, const char *name)
{
    return cli_value(args, name) != NULL;
}

const char *cli_value_at(const cli_args *args, const char *name, size_t n)
{
    int option = find_long(args->command, name, strlen(name));
    for (int i = 0; i < args->n_given; i++)
        if (args->given[i].option == option && n-- == 0) return args->given[i].value;
    return NULL;
}

void cli_args_free(cli_args *args)
{
    free(args->words);
    free(args->given);
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

bool cli_number64(const cli_args *args, const char *name, uint64_t *out)
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
    static const char *const words[] = {"base", "path"};
    int rule = *out == TARN_KEYS_PATH;
    if (!cli_choice(args, "keys", words, 2, &rule)) return false;
    *out = rule ? TARN_KEYS_PATH : TARN_KEYS_BASE;
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
        cli_note("tarn: %s: cannot open: %s\n", path, strerror(errno));
        return NULL;
    }
    char *text = read_stream(in);
    if (ferror(in)) {
        cli_note("tarn: %s: cannot read: %s\n", standard ? "standard input" : path,
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
