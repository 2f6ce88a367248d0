/* Loads libjxl. It stays loaded until the process ends, because other code may use it
 * too. */
#include "codec/jxl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tarn__jxl_library functions;
static char failure[512]; /* "" on success */

static bool find_function(void *library, const char *name, void *out)
{
    void *function = dlsym(library, name);
    memcpy(out, &function, sizeof function);
    if (!function) snprintf(failure, sizeof failure, "it lacks the function %s", name);
    return function != NULL;
}

/* The library of Debian's newest release first. */
static void *open_library(void)
{
    static const char *const names[] = {"libjxl.so.0.11", "libjxl.so.0.10",
                                        "libjxl.so.0.9", "libjxl.so.0.8",
                                        "libjxl.so.0.7"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) return library;
    }
    const char *why = dlerror();
    snprintf(failure, sizeof failure, "%s", why ? why : "no reason given");
    return NULL;
}

static void load_libjxl(void)
{
    void *library = open_library();
    if (!library) return;
#define FIND(name)                                                                       \
    if (!find_function(library, "Jxl" #name, &functions.name)) return;
    TARN__JXL_FUNCTIONS(FIND)
#undef FIND
}

tarn_status tarn__jxl_get(const tarn__jxl_library **out, tarn_error *err)
{
    pthread_once(&once, load_libjxl);
    if (failure[0])
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "JPEG XL needs libjxl 0.7 to 0.11, which cannot be used: %s; "
                          "install it (Debian 12: libjxl0.7, Debian 13: libjxl0.11)",
                          failure);
    *out = &functions;
    return TARN_OK;
}
