/* Writes samples of any dataset to a fold, shards or one archive. */
#include <string.h>

#include "target.h"

typedef struct state {
    cli_members members;
    void *output; /* of tarn_pack */
    tarn_status (*walk)(void *context, cli_put_record put, void *state, tarn_error *err);
    void *context;
} state;

static tarn_status put_sample(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    TARN_TRY(cli_members_make(&s->members, r, err));
    if (s->members.count == 0) return TARN_OK; /* the sample has no members with a name */
    return tarn_pack_put(s->output, 0, r->key, s->members.fields, s->members.count, err);
}

static tarn_status feed(void *context, void *output, tarn_error *err)
{
    state *s = context;
    s->output = output;
    return s->walk(s->context, put_sample, s, err);
}

int cli_samples_write(const cli_args *args, const char *path, const char *source,
                      uint64_t samples,
                      tarn_status (*walk)(void *context, cli_put_record put, void *state,
                                          tarn_error *err),
                      void *context)
{
    state s = {.walk = walk, .context = context};
    cli_out out;
    int status = cli_out_init(&out, args, path);
    out.options.feed = feed;
    out.options.feed_context = &s;
    out.options.feed_source = source;
    out.options.feed_samples = samples;
    out.hint = "--number uses running numbers as keys";
    if (status == CLI_OK) status = cli_out_run(&out, NULL, 0);
    cli_members_free(&s.members);
    return status;
}
