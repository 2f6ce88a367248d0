/* Loads libcurl. It stays loaded until the process ends, because other code may use it
 * too. */
#include "io/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__curl functions;
static char failure[512]; /* "" on success */

static bool find_function(void *library, const char *name, void *out)
{
    void *function = dlsym(library, name);
    memcpy(out, &function, sizeof function);
    if (!function) snprintf(failure, sizeof failure, "it lacks the function %s", name);
    return function != NULL;
}

static void load_libcurl(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        snprintf(failure, sizeof failure, "%s", why ? why : "no reason given");
        return;
    }
#define FIND(name)                                                                       \
    if (!find_function(library, "curl_" #name, &functions.name)) return;
    TARN__CURL_FUNCTIONS(FIND)
#undef FIND
    CURLcode code = functions.global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK)
        snprintf(failure, sizeof failure, "%s", functions.easy_strerror(code));
}

tarn_status tarn__curl_get(const tarn__curl **out, tarn_error *err)
{
    pthread_once(&once, load_libcurl);
    if (failure[0])
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "http and S3 need libcurl, which cannot be used: %s", failure);
    *out = &functions;
    return TARN_OK;
}
