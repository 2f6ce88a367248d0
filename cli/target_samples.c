/* Samples as samples: a fold, shards or one archive, wherever they come from. */
#include <stdlib.h>
#include <string.h>

#include "seen.h"
#include "target.h"

typedef struct state {
    cli_out out;
    cli_members members;
    cli_seen seen; /* keys in an archive, which does not look itself */
} state;

static tarn_status put(void *context, const cli_record *r, tarn_error *err)
{
    state *s = context;
    bool keep;
    uint64_t first;
    char shown[200];
    if (!s->out.folds && cli_seen_before(&s->seen, r->key, 0, &first))
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
    cli_seen_free(&s->seen);
    free(s);
    return status;
}

static void stop(void *context)
{
    state *s = context;
    cli_out_stop(&s->out);
    cli_members_free(&s->members);
    cli_seen_free(&s->seen);
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
