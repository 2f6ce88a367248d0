/* The parts of tarn__fold_verify. */
#ifndef TARN_ITAR_VERIFY_H
#define TARN_ITAR_VERIFY_H

#include <tarn/verify.h>

#include "itar/index.h"

/* Verifies one fold. Takes over given: the index, if it is already loaded; index_path is
 * then only its name. */
TARN_CHECKED tarn_status tarn__verify_fold(const tarn_verify_options *options,
                                           tarn_verify_report *report,
                                           const char *index_path, tarn_index *given,
                                           const char *const *shards, size_t n_shards,
                                           tarn_error *err);

/* A failure in one fold does not end the check of the others: it is reported as a
 * problem, except those that concern the whole run. */
TARN_CHECKED tarn_status tarn__verify_pass(const tarn_verify_options *options,
                                           tarn_verify_report *report, tarn_status status,
                                           const tarn_error *why, tarn_error *err);

TARN_CHECKED tarn_status tarn__verify_remote(const char *url,
                                             const tarn_verify_options *options,
                                             tarn_verify_report *report, tarn_error *err);

#endif
