/* The URL of a remote fold or of its shards, taken apart. Names of files stay as they are
 * written in the URL. */
#ifndef TARN_ITAR_REMOTE_PLACE_H
#define TARN_ITAR_REMOTE_PLACE_H

#include <tarn/folds.h>
#include <tarn/source.h>

#include "io/listing.h"

typedef struct tarn__place_url {
    char *folder; /* without a slash at its end */
    char *query;  /* with its question mark; or "" */
    char *only;   /* the name of a fold; or NULL */
    char *glob;   /* for the names of files; or NULL */
    bool web;     /* http or https: names are encoded, and there is no listing */
    bool listed;  /* the files come from the store, not from the URL */
    bool apart;   /* the URLs are in different folders */
    const char **files;
    size_t count;
    char *names; /* of the files, if they are neither in urls nor in listing */
    tarn_urls *urls;
    tarn__listing listing;
} tarn__place_url;

/* Sends no request. */
TARN_CHECKED tarn_status tarn__remote_parse(tarn__place_url *out, const char *url,
                                            tarn_error *err);
void tarn__remote_parse_reset(tarn__place_url *place);

/* The folds of the files of a place, which are listed if the URL does not name them. */
TARN_CHECKED tarn_status tarn__remote_group(tarn__place_url *place, tarn_folds **out,
                                            tarn_error *err);

/* tarn_folds_list for a URL of a remote scheme. */
TARN_CHECKED tarn_status tarn__remote_folds_list(const char *url, tarn_folds **out,
                                                 tarn_error *err);

/* The length of a URL without its query. */
size_t tarn__remote_bare(const char *url);

/* The name of a shard in an index: the end of its path or URL, decoded. The caller frees
 * it. NULL if out of memory. */
char *tarn__remote_name(const char *url);

#endif
