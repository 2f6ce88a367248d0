/* Makes batches of tokens from a text field, with a function of our own: each byte is a
 * token, and of a long text a random piece is taken. The function runs on the loader's
 * threads; the batches are the same for any number of them.
 *
 *     cc tokens.c $(pkg-config --cflags --libs tarn) -o tokens
 *     ./tokens data/birds:train txt 4
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

enum { MOST = 16 }; /* tokens of a sample */

static int fail(const tarn_error *err)
{
    char text[2200];
    fprintf(stderr, "%s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

static tarn_status tokenize(void *context, const tarn_map_input *in, tarn_map_output *out,
                            tarn_error *err)
{
    static const tarn_dtype int32 = {'<', 'i', 4};
    const unsigned char *text = in->values[0].data;
    uint64_t size = in->values[0].size, count = size < MOST ? size : MOST;
    void *data;
    int32_t *tokens;
    (void)context;
    if (size == 0) return TARN_END; /* leave the sample out */
    TARN_TRY(tarn_map_room(out, 0, int32, 1, &count, &data, err));
    tokens = data;
    text += in->seed % (size - count + 1); /* the same piece whenever a run is repeated */
    for (uint64_t i = 0; i < count; i++)
        tokens[i] = text[i];
    return TARN_OK;
}

static tarn_status open_loader(char **argv, tarn_loader **out, tarn_error *err)
{
    const tarn_load_field field = {argv[2], TARN_LOAD_BYTES, NULL};
    const char *name = "tokens";
    tarn_collate_options pad = TARN_COLLATE_OPTIONS_INIT;
    const tarn_collate_options *collate[] = {&pad};
    const tarn_value value = {.kind = TARN_VALUE_INTEGER, .integer = -1};
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_dataset *set;
    pad.kind = TARN_COLLATE_PAD;
    pad.value = &value;
    pad.lengths = true;
    o.batch = 4;
    o.threads = (unsigned)strtoul(argv[3], NULL, 10);
    o.fields = &field;
    o.n_fields = 1;
    o.map = tokenize;
    o.map_fields = &name;
    o.n_map_fields = 1;
    o.collate = collate;
    o.on_error = TARN_ON_ERROR_SKIP;
    TARN_TRY(tarn_dataset_open(argv[1], NULL, &set, err));
    tarn_status status = tarn_loader_open(set, &o, out, err);
    tarn_dataset_close(set); /* the loader keeps it open */
    return status;
}

static void show(const tarn_batch *batch)
{
    const tarn_column *tokens = &batch->columns[0], *lengths = &batch->columns[1];
    for (size_t i = 0; i < batch->count; i++)
        printf("%s: %lld of %llu tokens, the first is %d\n",
               batch->keys + batch->key_offsets[i],
               (long long)((int64_t *)lengths->data)[i],
               (unsigned long long)tokens->shape[0],
               ((int32_t *)tokens->data)[i * tokens->shape[0]]);
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_loader *loader;
    tarn_batch *batch;
    tarn_status status;
    if (argc != 4) {
        fprintf(stderr, "usage: %s DATASET FIELD THREADS\n", argv[0]);
        return 2;
    }
    if (open_loader(argv, &loader, &err) != TARN_OK) return fail(&err);
    while ((status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err)) ==
           TARN_OK) {
        show(batch);
        tarn_batch_release(batch);
    }
    tarn_loader_close(loader);
    return status == TARN_END ? 0 : fail(&err);
}
