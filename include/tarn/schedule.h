/* tarn/schedule.h: which batch delivers which samples. Answers come from the arithmetic
 * that loaders use, without reading samples or replaying an epoch.
 *
 *     tarn_schedule_options o = TARN_SCHEDULE_OPTIONS_INIT;
 *     tarn_turn turn;
 *     size_t count;
 *     o.batch = 64;
 *     if (tarn_dataset_when(shuffled, "owl", &o, &turn, 1, &count, &err) != TARN_OK)
 *         return fail(&err);
 *     if (count)
 *         printf("step %llu, rank %llu\n", (unsigned long long)turn.step,
 *                (unsigned long long)turn.rank);
 *
 * Everything is counted from 0. Any number of threads may call these functions with one
 * dataset.
 */
#ifndef TARN_SCHEDULE_H
#define TARN_SCHEDULE_H

#include <tarn/base.h>
#include <tarn/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_MAX_SCHEDULE_TURNS (UINT64_C(1) << 26) /* that one call finds */

/* batch, equal_batches and drop_last have the meaning of tarn_loader_options. */
typedef struct tarn_schedule_options {
    size_t size; /* of this struct; set by the initialiser */
    uint64_t batch;
    bool equal_batches;
    bool drop_last;
    /* tarn_dataset_when: how many epochs to search, starting with that of the dataset. */
    uint64_t epochs;
} tarn_schedule_options;

#define TARN_SCHEDULE_OPTIONS_INIT                                                       \
    {                                                                                    \
        .size = sizeof(tarn_schedule_options), .batch = 1, .epochs = 1                   \
    }
TARN_API void tarn_schedule_options_init(tarn_schedule_options *options, size_t size);

/* One delivery of a sample. */
typedef struct tarn_turn {
    uint64_t epoch;
    uint64_t step;     /* number of the batch in its epoch */
    uint64_t rank;     /* of the dataset's world_size; see tarn_dataset_info */
    uint64_t place;    /* in the batch */
    uint64_t position; /* in the epoch, counted over all ranks */
    uint64_t sample;   /* its number, see tarn_dataset_sequence */
} tarn_turn;

/* Finds when a sample is delivered, to any rank: every delivery if the order repeats
 * samples, and none if it omits this one. If the dataset is split, the ranks are those of
 * the outermost split; which of them the dataset is does not matter. At most room turns,
 * in order of epoch and position, are written to out; *out_count is set to their number.
 * TARN_ERR_NO_SAMPLE if no sample has the key. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_when(tarn_dataset *dataset,
                                                    const char *key,
                                                    const tarn_schedule_options *options,
                                                    tarn_turn *out, size_t room,
                                                    size_t *out_count, tarn_error *err);

/* Creates a dataset of the samples of one batch of the dataset's rank. Steps are counted
 * from the beginning of the dataset's epoch on. After the last batch of an epoch, they
 * continue in the next one. If out_turn is not NULL, it is set to the epoch, step and
 * rank of the batch, and the position of its first sample. TARN_ERR_USAGE if the rank has
 * no batches. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_step(tarn_dataset *dataset, uint64_t step,
                                                    const tarn_schedule_options *options,
                                                    tarn_dataset **out,
                                                    tarn_turn *out_turn, size_t turn_size,
                                                    tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
