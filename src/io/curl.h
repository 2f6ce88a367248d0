/* libcurl, loaded when the first URL needs it. It depends on some thirty other libraries;
 * linking it would make every program start five times slower. */
#ifndef TARN_IO_CURL_H
#define TARN_IO_CURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <tarn/base.h>

#define TARN__CURL_FUNCTIONS(X)                                                          \
    X(global_init)                                                                       \
    X(easy_init)                                                                         \
    X(easy_cleanup)                                                                      \
    X(easy_reset)                                                                        \
    X(easy_setopt)                                                                       \
    X(easy_pause)                                                                        \
    X(easy_getinfo)                                                                      \
    X(easy_strerror)                                                                     \
    X(getdate)                                                                           \
    X(multi_init)                                                                        \
    X(multi_cleanup)                                                                     \
    X(multi_add_handle)                                                                  \
    X(multi_remove_handle)                                                               \
    X(multi_perform)                                                                     \
    X(multi_poll)                                                                        \
    X(multi_setopt)                                                                      \
    X(multi_socket_action)                                                               \
    X(share_cleanup)                                                                     \
    X(share_init)                                                                        \
    X(share_setopt)                                                                      \
    X(multi_info_read)                                                                   \
    X(slist_append)                                                                      \
    X(slist_free_all)

/* curl_NAME is curl->NAME. */
typedef struct tarn__curl {
#define TARN__CURL_MEMBER(name) __typeof__(curl_##name) *name;
    TARN__CURL_FUNCTIONS(TARN__CURL_MEMBER)
#undef TARN__CURL_MEMBER
} tarn__curl;

/* Returns the same pointer to all callers; it stays valid. May be called from any
 * thread. */
TARN_CHECKED tarn_status tarn__curl_get(const tarn__curl **out, tarn_error *err);

#endif
