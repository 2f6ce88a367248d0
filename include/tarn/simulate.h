/* tarn/simulate.h: what a training run would request of remote files, before it runs.
 *
 *     tarn_simulation_options o = TARN_SIMULATION_OPTIONS_INIT;
 *     tarn_simulation *sim;
 *     tarn_simulated_epoch e;
 *     o.cache = true;
 *     o.cache_limit = 500000000000;
 *     if (tarn_simulation_open(&loader, 1, &o, &sim, &err) != TARN_OK) return fail(&err);
 *     while (tarn_simulation_next(sim, &e, sizeof e, &err) == TARN_OK)
 *         printf("epoch %llu: %llu requests, %llu bytes\n", (unsigned long long)e.epoch,
 *                (unsigned long long)e.requests, (unsigned long long)e.bytes);
 *     tarn_simulation_close(sim);
 *
 * The order of samples is known in advance, so the requests are not estimated: each batch
 * of the loaders is passed to the code that plans their requests, which then counts them
 * instead of sending them. Only the index is needed. Files may also be local, and are
 * then treated as if they were on a server.
 *
 * The counts are those of an undisturbed run, without repeated requests. With a cache and
 * several threads or ranks, a run differs a little: where two of them need the same block
 * at the same time, it depends on the moment which of them requests it. Opening the
 * dataset takes one or two requests for its index, which are not counted.
 */
#ifndef TARN_SIMULATE_H
#define TARN_SIMULATE_H

#include <tarn/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_simulation tarn_simulation;

typedef struct tarn_simulation_options {
    size_t size;          /* of this struct; set by the initialiser */
    bool cache;           /* the loaders share a cache, which is empty at first */
    uint64_t cache_limit; /* bytes that it may take on disk; 0: no limit */
    /* For the expected time: */
    double latency;   /* seconds until a response begins */
    double bandwidth; /* bytes per second, for all loaders together; 0: no limit */
    /* Requests of a loader at once; 0: as many as tarn would use, which begins with 16
     * and uses more while that is faster. */
    unsigned connections;
    uint64_t epochs; /* at most; 0: as many as the loaders have, which may be no end */
} tarn_simulation_options;

#define TARN_SIMULATION_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_simulation_options), .latency = 0.03                         \
    }
TARN_API void tarn_simulation_options_init(tarn_simulation_options *options, size_t size);

#define TARN_MAX_SIMULATED_LOADERS 65536u

/* Simulates loaders that run at the same time on one machine, such as those of its ranks,
 * from their current positions. Loaders of datasets that were made from one opened
 * dataset read the same files. The loaders are not changed. They must not be used or
 * closed before the simulation is closed. Close it with tarn_simulation_close. */
TARN_API TARN_CHECKED tarn_status tarn_simulation_open(
    tarn_loader *const *loaders, size_t count, const tarn_simulation_options *options,
    tarn_simulation **out, tarn_error *err);
TARN_API void tarn_simulation_close(tarn_simulation *simulation);

typedef struct tarn_simulated_epoch {
    uint64_t epoch;
    uint64_t batches, samples; /* of all loaders */
    uint64_t wanted;           /* bytes that the samples need */
    uint64_t cached;           /* of these, the ones that the cache has */
    uint64_t requests;
    uint64_t bytes; /* in responses: also gaps between samples, and whole blocks */
    uint64_t kept;  /* bytes of the cache on disk, after this epoch */
    /* Expected time if the network is the only limit: no decoding, no training. */
    double seconds;
} tarn_simulated_epoch;

/* Simulates the next epoch, and fills *out, of size bytes. TARN_END after the last. */
TARN_API TARN_CHECKED tarn_status tarn_simulation_next(tarn_simulation *simulation,
                                                       tarn_simulated_epoch *out,
                                                       size_t size, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
