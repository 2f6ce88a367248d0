/* Keys that came by, for targets that do not look themselves. */
#ifndef TARN_CLI_SEEN_H
#define TARN_CLI_SEEN_H

#include "cli.h"

/* Empty if all is 0. */
typedef struct cli_seen {
    struct cli_seen_slot *slots;
    size_t count, n_slots;
} cli_seen;

/* Whether a key came before, and then from where; else it is remembered. It goes by the
 * key's 64-bit hash: among a million keys, one run in some ten million is told of one
 * that did not come. */
bool cli_seen_before(cli_seen *seen, const char *key, uint64_t from, uint64_t *out_from);

void cli_seen_free(cli_seen *seen);

#endif
