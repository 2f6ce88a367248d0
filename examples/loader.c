/* Reads a dataset in shuffled batches, as a training run would, and prints how fast that
 * was and what was slow.
 *
 *     cc loader.c $(pkg-config --cflags --libs tarn) -o loader
 *     ./loader data/birds:train 8
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

static int fail(const tarn_error *err)
{
    char text[2200];
    fprintf(stderr, "%s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

/* A model would use the batch here. */
static uint64_t train(const tarn_batch *batch)
{
    uint64_t bytes = 0;
    for (size_t c = 0; c < batch->n_columns; c++)
        bytes += batch->columns[c].size;
    return bytes;
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_dataset *set, *shuffled;
    tarn_loader *loader;
    tarn_order_options order = TARN_ORDER_OPTIONS_INIT;
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    if (argc != 3) {
        fprintf(stderr, "usage: %s DATASET THREADS\n", argv[0]);
        return 2;
    }
    order.kind = TARN_ORDER_SHUFFLE;
    order.seed = 7;
    o.batch = 4;
    o.threads = (unsigned)strtoul(argv[2], NULL, 10);
    o.on_error = TARN_ON_ERROR_SKIP;
    if (tarn_dataset_open(argv[1], NULL, &set, &err) != TARN_OK) return fail(&err);
    if (tarn_dataset_order(set, &order, &shuffled, &err) != TARN_OK) return fail(&err);
    if (tarn_loader_open(shuffled, &o, &loader, &err) != TARN_OK) return fail(&err);
    tarn_dataset_close(set); /* the loader keeps them open */
    tarn_dataset_close(shuffled);

    for (int epoch = 0; epoch < 2; epoch++) {
        tarn_batch *batch;
        tarn_status status;
        uint64_t bytes = 0;
        while ((status = tarn_loader_next(loader, TARN_NO_TIMEOUT, &batch, &err)) ==
               TARN_OK) {
            bytes += train(batch);
            tarn_batch_release(batch);
        }
        if (status != TARN_END) return fail(&err);
        printf("epoch %d: %llu bytes\n", epoch, (unsigned long long)bytes);
    }
    tarn_loader_stats stats;
    tarn_loader_stats_get(loader, &stats, sizeof stats);
    printf("%llu samples, %llu skipped, %.0f samples/s, slow: %s\n",
           (unsigned long long)stats.samples, (unsigned long long)stats.skipped,
           (double)stats.samples / stats.seconds, stats.bottleneck);
    tarn_loader_close(loader);
    return 0;
}
