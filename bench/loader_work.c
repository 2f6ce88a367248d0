/* Contestants of bench/loader.py, in turns in one process: batches of a dataset by the
 * loader, compared with the same threads only copying or decoding.
 *
 *     loader_work DATASET FIELD WAY BATCH THREADS SECONDS ROUNDS
 *
 * WAY: bytes   the field as it is stored          compared with memcpy of the same
 * samples rgb     JPEGs to RGB, all of one size      compared with TurboJPEG alone 224 a
 * random crop, 224 x 224, flipped, 8 bits float   the same as float planes first   time
 * to the first batch after opening the dataset, in milliseconds
 *
 * Prints "loader RATE" and "limit RATE" for each round, samples/s, and "wait", "read" and
 * "decode", the loader's seconds in the last round. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <turbojpeg.h>

#include <tarn/tarn.h>

#include "clock.h"

static tarn_error err;
static tarn_dataset *set;
static uint32_t field;
static size_t batch;
static unsigned threads;
static double seconds;
static const char *way;

static void die(const char *what)
{
    char text[2200];
    fprintf(stderr, "loader_work: %s: %s\n", what,
            tarn_error_text(&err, text, sizeof text));
    exit(1);
}

/* --- The loader -------------------------------------------------------------------- */

static tarn_loader *open_loader(tarn_image_steps *steps, tarn_load_field *load,
                                uint64_t epoch)
{
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    tarn_order_options order = TARN_ORDER_OPTIONS_INIT;
    tarn_dataset *shuffled;
    tarn_loader *l;
    *load = (tarn_load_field){tarn_dataset_field(set, field), TARN_LOAD_AUTO, NULL};
    if (strcmp(way, "bytes") == 0 || strcmp(way, "first") == 0)
        load->as = TARN_LOAD_BYTES;
    else if (strcmp(way, "rgb") != 0)
        load->image = steps;
    order.kind = TARN_ORDER_SHUFFLE;
    order.epoch = epoch;
    o.batch = batch;
    o.threads = threads;
    o.fields = load;
    o.n_fields = 1;
    o.no_keys = getenv("NO_KEYS") != NULL;
    if (tarn_dataset_order(set, &order, &shuffled, &err) != TARN_OK) die("order");
    if (tarn_loader_open(shuffled, &o, &l, &err) != TARN_OK) die("open");
    tarn_dataset_close(shuffled);
    return l;
}

static double run_loader(uint64_t round, tarn_loader_stats *stats)
{
    tarn_image_steps steps = TARN_IMAGE_STEPS_INIT;
    tarn_load_field load;
    steps.width = steps.height = 224;
    steps.fit = TARN_IMAGE_FIT_RANDOM;
    steps.flip = 0.5;
    if (strcmp(way, "float") == 0) {
        steps.type = TARN_IMAGE_F32;
        steps.layout = TARN_IMAGE_CHW;
    }
    tarn_loader *l = open_loader(&steps, &load, round);
    tarn_batch *b;
    uint64_t samples = 0, warm = 4;
    double start = now(), end = start;
    while (end - start < seconds) {
        tarn_status status = tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err);
        if (status == TARN_END) continue;
        if (status != TARN_OK) die("next");
        if (warm > 0 && --warm == 0) {
            start = now();
            samples = 0;
        } else {
            samples += b->count;
        }
        tarn_batch_release(b);
        end = now();
    }
    tarn_loader_stats_get(l, stats, sizeof *stats);
    tarn_loader_close(l);
    return (double)samples / (end - start);
}

/* --- The limit --------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    unsigned number;
    double rate;
    uint64_t epoch;
} worker;

static tarn_view *views; /* bytes of all samples */

static uint64_t copy_batch(const uint64_t *samples, unsigned char *to)
{
    size_t at = 0;
    for (size_t i = 0; i < batch; i++) {
        const tarn_view *v = &views[samples[i]];
        memcpy(to + at, v->data, v->size);
        at += v->size;
    }
    return batch;
}

static uint64_t decode_batch(tjhandle jpeg, const uint64_t *samples, unsigned char *to,
                             size_t size)
{
    for (size_t i = 0; i < batch; i++) {
        const tarn_view *v = &views[samples[i]];
        int width, height, sub, space;
        if (tjDecompressHeader3(jpeg, v->data, v->size, &width, &height, &sub, &space) !=
            0)
            die("TurboJPEG");
        size_t need = (size_t)width * height * 3;
        unsigned char *out = to + i * need + need <= to + size ? to + i * need : to;
        if (tjDecompress2(jpeg, v->data, v->size, out, width, 0, height, TJPF_RGB, 0) !=
            0)
            die("TurboJPEG");
    }
    return batch;
}

static void *run_limit(void *context)
{
    worker *w = context;
    uint64_t count = tarn_dataset_count(set), at = 0, samples = 0;
    uint64_t *list = malloc(batch * sizeof *list), most = 0;
    tarn_order *order;
    tarn_order_options o = TARN_ORDER_OPTIONS_INIT;
    o.kind = TARN_ORDER_SHUFFLE;
    o.rank = w->number;
    o.world_size = threads ? threads : 1;
    o.epoch = w->epoch;
    if (tarn_order_open(count, &o, &order, &err) != TARN_OK) die("order");
    for (uint64_t i = 0; i < count; i++)
        if (views[i].size > most) most = views[i].size;
    size_t size = strcmp(way, "bytes") == 0 ? batch * most : batch * 500 * 375 * 3;
    /* As many buffers as the loader has per thread. */
    unsigned char *to[2] = {malloc(size), malloc(size)};
    memset(to[0], 1, size);
    memset(to[1], 1, size);
    tjhandle jpeg = tjInitDecompress();
    tarn_order_info info;
    tarn_order_info_get(order, &info, sizeof info);
    double start = now(), end = start;
    for (unsigned k = 0; end - start < seconds; k++) {
        if (at + batch > info.length) at = 0;
        if (tarn_order_fill(order, at, batch, list, &err) != TARN_OK) die("order");
        at += batch;
        samples += strcmp(way, "bytes") == 0 ? copy_batch(list, to[k & 1])
                                             : decode_batch(jpeg, list, to[k & 1], size);
        end = now();
    }
    w->rate = (double)samples / (end - start);
    tjDestroy(jpeg);
    tarn_order_close(order);
    free(list);
    free(to[0]);
    free(to[1]);
    return NULL;
}

static double run_limits(uint64_t round)
{
    worker workers[64] = {0};
    unsigned count = threads ? threads : 1;
    double rate = 0;
    for (unsigned i = 0; i < count; i++) {
        workers[i].number = i;
        workers[i].epoch = round;
        pthread_create(&workers[i].thread, NULL, run_limit, &workers[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        rate += workers[i].rate;
    }
    return rate;
}

/* -------------------------------------------------------------------------------------
 */

static void open_set(const char *path, const char *name)
{
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = (const char *[]){name, NULL};
    if (tarn_dataset_open(path, &o, &set, &err) != TARN_OK) die(path);
}

static void first_batch(const char *path, const char *name)
{
    tarn_load_field load;
    tarn_batch *b;
    double start = now();
    open_set(path, name);
    double opened = now();
    tarn_loader *l = open_loader(NULL, &load, 0);
    if (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) != TARN_OK) die("first batch");
    printf("open %.3f\nfirst %.3f\n", 1e3 * (opened - start), 1e3 * (now() - opened));
    tarn_batch_release(b);
    tarn_loader_close(l);
    tarn_dataset_close(set);
}

int main(int argc, char **argv)
{
    if (argc != 8) return 2;
    tarn_loader_stats stats = {0};
    way = argv[3];
    batch = strtoul(argv[4], NULL, 10);
    threads = (unsigned)strtoul(argv[5], NULL, 10);
    seconds = strtod(argv[6], NULL);
    if (strcmp(way, "first") == 0) {
        for (int i = 0; i < atoi(argv[7]); i++)
            first_batch(argv[1], argv[2]);
        return 0;
    }
    open_set(argv[1], argv[2]);
    views = calloc(tarn_dataset_count(set), sizeof *views);
    for (uint64_t i = 0; i < tarn_dataset_count(set); i++)
        if (tarn_dataset_get(set, i, field, &views[i], &err) != TARN_OK) die("view");
    for (uint64_t round = 0; round < strtoul(argv[7], NULL, 10); round++) {
        printf("limit %.1f\n", run_limits(round));
        printf("loader %.1f\n", run_loader(round, &stats));
    }
    printf("wait %.3f\nread %.3f\ndecode %.3f\n", stats.waited, stats.read, stats.decode);
    return 0;
}
