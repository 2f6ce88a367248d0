/* Samples as samples: a fold, shards or one archive, wherever they come from. */
#include <stdlib.h>
#include <string.h>

#include "target.h"

typedef struct state {
    cli_out out;
    cli_members members;
    uint64_t *seen; /* hashes of keys, in an archive, which does not look itself */
    size_t count, slots;
} state;

static void insert(uint64_t *slots, size_t n, uint64_t hash)
{
    size_t at = hash & (n - 1);
    while (slots[at])
        at = (at + 1) & (n - 1);
    slots[at] = hash;
}

static void grow(state *s)
{
    size_t n = s->slots ? 2 * s->slots : 1024;
    uint64_t *slots = calloc(n, sizeof *slots);
    if (!slots) cli_no_memory();
    for (size_t i = 0; i < s->slots; i++)
        if (s->seen[i]) insert(slots, n, s->seen[i]);
    free(s->seen);
    s->seen = slots;
    s->slots = n;
}

/* Whether a key came before, by its 64-bit hash: among a million keys, one run in some
 * ten million stops for no reason. */
static bool came_before(state *s, const char *key)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3;
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
    hash |= hash == 0;
    if (2 * (s->count + 1) > s->slots) grow(s);
    for (size_t at = hash & (s->slots - 1); s->seen[at]; at = (at + 1) & (s->slots - 1))
        if (s->seen[at] == hash) return true;
    insert(s->seen, s->slots, hash);
    s->count++;
    return false;
}

static tarn_status put(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    bool keep;
    char shown[200];
    if (!s->out.folds && came_before(s, r->key))
        return cli_error(err, TARN_ERR_EXISTS,
                         "sample %s comes a second time, and would be one with the first",
                         tarn_printable(shown, sizeof shown, r->key, strlen(r->key)));
    TARN_TRY(cli_out_keep(&s->out, r->key, 0, &keep, err));
    if (!keep) return TARN_OK;
    TARN_TRY(cli_members_make(&s->members, r, err));
    if (s->members.count == 0) return TARN_OK; /* it had nothing with a name */
    return cli_out_put(&s->out, 0, r->key, s->members.fields, s->members.count, err);
}

static int end(void *context)
{
    state *s = context;
    int status = cli_out_finish(&s->out);
    cli_members_free(&s->members);
    free(s->seen);
    free(s);
    return status;
}

static void stop(void *context)
{
    state *s = context;
    cli_out_stop(&s->out);
    cli_members_free(&s->members);
    free(s->seen);
    free(s);
}

int cli_target_samples(const cli_args *args, const char *path, const char *fold,
                       cli_target *out)
{
    state *s = calloc(1, sizeof *s);
    if (!s) cli_no_memory();
    int status = cli_out_open(&s->out, args, path, &fold, 1);
    *out = (cli_target){.state = s, .put = put, .end = end, .stop = stop};
    if (status != CLI_OK) free(s);
    return status;
}
