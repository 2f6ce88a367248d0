/* Samples with problems: a list of keys, as tarn verify --decode --bad-keys writes it,
 * each with an optional tab and reason. */
#include <stdlib.h>
#include <string.h>

#include "browse.h"

static int by_key(const void *a, const void *b)
{
    return strcmp(((const browse_problem *)a)->key, ((const browse_problem *)b)->key);
}

/* Splits the text at line ends; the keys and messages are borrowed from it. */
static void split(browse_problems *p)
{
    for (char *line = p->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        size_t len = strlen(line);
        if (len && line[len - 1] == '\r') line[len - 1] = '\0';
        if (!*line) continue;
        char *tab = strchr(line, '\t');
        if (tab) *tab++ = '\0';
        p->items[p->count++] = (browse_problem){line, tab ? tab : ""};
    }
}

int browse_problems_read(const char *path, browse_problems *out)
{
    size_t lines = 1;
    *out = (browse_problems){.text = cli_file_text(path)};
    if (!out->text) return CLI_DATA;
    for (const char *c = out->text; *c; c++)
        lines += *c == '\n';
    out->items = calloc(lines, sizeof *out->items);
    out->keys = calloc(lines, sizeof *out->keys);
    if (!out->items || !out->keys) cli_no_memory();
    split(out);
    qsort(out->items, out->count, sizeof *out->items, by_key);
    for (size_t i = 0; i < out->count; i++)
        out->keys[i] = out->items[i].key;
    return CLI_OK;
}

void browse_problems_free(browse_problems *p)
{
    free(p->text);
    free(p->items);
    free(p->keys);
}

const browse_problem *browse_problem_of(const browse_problems *p, const char *key)
{
    browse_problem wanted = {key, ""};
    if (p->count == 0) return NULL;
    return bsearch(&wanted, p->items, p->count, sizeof *p->items, by_key);
}
