/* JSON web tokens, signed with RSA and SHA-256. OpenSSL's libcrypto signs. It is loaded
 * when a service account is used, for the reasons given in curl.h. */
#include <dlfcn.h>
#include <nettle/base64.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "io/gcloud.h"

enum {
    MIN_SIGNATURE = 256,
    MAX_SIGNATURE = 2048
}; /* bytes: keys of 2048 bits and more */

/* The same in versions 1.1 and 3. */
static struct {
    void *(*BIO_new_mem_buf)(const void *data, int len);
    int (*BIO_free)(void *bio);
    void *(*PEM_read_bio_PrivateKey)(void *bio, void **key, void *callback,
                                     void *password);
    void (*EVP_PKEY_free)(void *key);
    void *(*EVP_MD_CTX_new)(void);
    void (*EVP_MD_CTX_free)(void *context);
    const void *(*EVP_sha256)(void);
    int (*EVP_DigestSignInit)(void *context, void **out, const void *digest, void *engine,
                              void *key);
    int (*EVP_DigestSign)(void *context, unsigned char *out, size_t *out_len,
                          const unsigned char *data, size_t len);
    void (*ERR_clear_error)(void);
} crypto;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

static bool find_function(void *library, const char *name, void *out)
{
    void *function = dlsym(library, name);
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static void load_crypto(void)
{
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        library = dlopen("libcrypto.so.1.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
#define FIND(name) find_function(library, #name, &crypto.name)
    loaded = library && FIND(BIO_new_mem_buf) && FIND(BIO_free) &&
             FIND(PEM_read_bio_PrivateKey) && FIND(EVP_PKEY_free) &&
             FIND(EVP_MD_CTX_new) && FIND(EVP_MD_CTX_free) && FIND(EVP_sha256) &&
             FIND(EVP_DigestSignInit) && FIND(EVP_DigestSign) && FIND(ERR_clear_error);
#undef FIND
}

/* With a password OpenSSL does not ask for one at the terminal. */
static void *read_key(const char *pem)
{
    char none[] = "";
    void *bio = crypto.BIO_new_mem_buf(pem, -1), *key = NULL;
    if (bio) key = crypto.PEM_read_bio_PrivateKey(bio, NULL, NULL, none);
    if (bio) crypto.BIO_free(bio);
    return key;
}

/* 0 if the key is not usable. */
static size_t make_signature(const char *pem, const char *text, size_t len,
                             unsigned char out[MAX_SIGNATURE])
{
    size_t made = MAX_SIGNATURE;
    void *key = read_key(pem), *context = crypto.EVP_MD_CTX_new();
    bool good =
        key && context &&
        crypto.EVP_DigestSignInit(context, NULL, crypto.EVP_sha256(), NULL, key) == 1 &&
        crypto.EVP_DigestSign(context, NULL, &made, (const unsigned char *)text, len) ==
            1 &&
        made >= MIN_SIGNATURE && made <= MAX_SIGNATURE &&
        crypto.EVP_DigestSign(context, out, &made, (const unsigned char *)text, len) == 1;
    if (context) crypto.EVP_MD_CTX_free(context);
    if (key) crypto.EVP_PKEY_free(key);
    crypto.ERR_clear_error();
    return good ? made : 0;
}

static tarn_status add_base64url(tarn__buf *out, const void *data, size_t len,
                                 tarn_error *err)
{
    struct base64_encode_ctx context;
    TARN_TRY(tarn__buf_reserve(
        out, BASE64_ENCODE_LENGTH(len) + BASE64_ENCODE_FINAL_LENGTH, err));
    base64url_encode_init(&context);
    out->size += base64_encode_update(&context, out->data + out->size, len, data);
    out->size += base64_encode_final(&context, out->data + out->size);
    while (out->size && out->data[out->size - 1] == '=')
        out->size--;
    return TARN_OK;
}

tarn_status tarn__gcloud_sign_jwt(tarn__buf *out, const char *header, const char *claims,
                                  const char *pem, tarn_error *err)
{
    unsigned char signature[MAX_SIGNATURE];
    size_t from = out->size;
    pthread_once(&once, load_crypto);
    if (!loaded)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "service accounts need OpenSSL's libcrypto (libcrypto.so.3), "
                          "which cannot be loaded");
    TARN_TRY(add_base64url(out, header, strlen(header), err));
    TARN_TRY(tarn__buf_add(out, ".", 1, err));
    TARN_TRY(add_base64url(out, claims, strlen(claims), err));
    size_t len = make_signature(pem, out->data + from, out->size - from, signature);
    if (!len)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "private_key is not an RSA key of at least 2048 bits in PEM");
    TARN_TRY(tarn__buf_add(out, ".", 1, err));
    return add_base64url(out, signature, len, err);
}
