/* Reads one field of every sample of a dataset, 256 samples per call, and adds up the
 * bytes. The path is a fold, a tar, an array file or a record pack.
 *
 *     cc batches.c $(pkg-config --cflags --libs tarn) -o batches
 *     ./batches data/birds:train jpg
 */
#include <stdio.h>

#include <tarn/tarn.h>

enum { BATCH = 256 };

static tarn_status add_up(tarn_dataset *data, uint64_t *out_bytes, tarn_error *err)
{
    uint64_t samples[BATCH], count = tarn_dataset_count(data);
    tarn_dataset_batch batch = TARN_DATASET_BATCH_INIT;
    tarn_status status = TARN_OK;
    for (uint64_t first = 0; first < count && status == TARN_OK; first += BATCH) {
        size_t n = 0;
        for (; n < BATCH && first + n < count; n++)
            samples[n] = first + n;
        status = tarn_dataset_read(data, samples, n, NULL, 0, &batch, err);
        if (status == TARN_OK) *out_bytes += batch.offsets[batch.count];
    }
    tarn_dataset_batch_reset(&batch);
    return status;
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_dataset *data;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    char text[2200];
    uint64_t bytes = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: batches PATH FIELD\n");
        return 2;
    }
    const char *fields[] = {argv[2], NULL};
    o.fields = fields;
    o.scan = true;
    tarn_status status = tarn_dataset_open(argv[1], &o, &data, &err);
    if (status == TARN_OK) {
        status = add_up(data, &bytes, &err);
        printf("%llu samples, %llu bytes\n", (unsigned long long)tarn_dataset_count(data),
               (unsigned long long)bytes);
        tarn_dataset_close(data);
    }
    if (status != TARN_OK)
        fprintf(stderr, "%s\n", tarn_error_text(&err, text, sizeof text));
    return status != TARN_OK;
}
