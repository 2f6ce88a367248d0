/* The addresses of S3 URLs and the signatures of requests, without a network. The
 * signatures are those of Amazon's documentation of version 4; tests/interop compares
 * many more with botocore's. */
#include "support.h"

#include "io/aws.h"
#include "io/object.h"

static tarn_error err;

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",  "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",   "AWS_PROFILE",
    "AWS_CONFIG_FILE",    "AWS_SHARED_CREDENTIALS_FILE",
};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("HOME", scratch(), 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    return 0;
}

static void assert_leads_to(const char *s3_url, const char *url, const char *host)
{
    tarn__object object;
    OK(tarn__object_init(&object, s3_url, &err));
    assert_string_equal(object.url, url);
    assert_string_equal(((tarn__aws_signer *)object.signer)->host, host);
    tarn__object_reset(&object);
}

static void amazon_has_the_bucket_in_the_host(void **state)
{
    (void)state;
    assert_leads_to("s3://bucket/a/b c.tar",
                    "https://bucket.s3.us-east-1.amazonaws.com/a/b%20c.tar",
                    "bucket.s3.us-east-1.amazonaws.com");
    setenv("AWS_REGION", "cn-north-1", 1);
    assert_leads_to("s3://bucket/x", "https://bucket.s3.cn-north-1.amazonaws.com.cn/x",
                    "bucket.s3.cn-north-1.amazonaws.com.cn");
    setenv("AWS_REGION", "eu-west-3", 1);
    assert_leads_to("s3://with.dots/x", "https://s3.eu-west-3.amazonaws.com/with.dots/x",
                    "s3.eu-west-3.amazonaws.com");
}

static void others_have_the_bucket_in_the_path(void **state)
{
    (void)state;
    setenv("AWS_ENDPOINT_URL", "http://Store.Example:9000/", 1);
    assert_leads_to("s3://bucket/x", "http://Store.Example:9000/bucket/x",
                    "store.example:9000");
    setenv("AWS_ENDPOINT_URL_S3", "https://store.example:443", 1);
    assert_leads_to("s3://bucket//x?y#%", "https://store.example:443/bucket//x%3Fy%23%25",
                    "store.example");
}

static const char *authorization(const tarn__http *http)
{
    static const char name[] = "Authorization: ";
    for (struct curl_slist *h = http->headers; h; h = h->next)
        if (strncmp(h->data, name, strlen(name)) == 0) return h->data + strlen(name);
    return NULL;
}

static void assert_signature(const char *url, const char *signature)
{
    static const tarn__cred_value keys = {
        .access = "AKIAIOSFODNN7EXAMPLE",
        .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    };
    static const tarn__aws_signer signer = {
        .service = "s3", .region = "us-east-1", .host = "examplebucket.s3.amazonaws.com"};
    tarn__http http;
    tarn__http_config config = {.shown = "test"};
    tarn__http_request request = {.method = "GET", .url = url};
    OK(tarn__http_init(&http, &config, &err));
    OK(tarn__aws_sign_at(&signer, &keys, &request, 1369353600, &http, &err));
    const char *line = authorization(&http);
    assert_non_null(line);
    assert_non_null(
        strstr(line, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"));
    assert_string_equal(strstr(line, "Signature=") + 10, signature);
    tarn__http_reset(&http);
}

static void signatures_are_those_of_the_documentation(void **state)
{
    (void)state;
    assert_signature("https://examplebucket.s3.amazonaws.com/?lifecycle=",
                     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    assert_signature("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
                     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void broken_settings_are_reported(void **state)
{
    (void)state;
    tarn__object object;
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    FAILS(TARN_ERR_USAGE, "set both or none",
          tarn__object_init(&object, "s3://b/x", &err));
    setenv("AWS_ACCESS_KEY_ID", "key\r\nX-Evil: 1", 1);
    FAILS(TARN_ERR_USAGE, "control", tarn__object_init(&object, "s3://b/x", &err));
    setenv("AWS_ACCESS_KEY_ID", "key", 1);
    setenv("AWS_REGION", "us/east", 1);
    FAILS(TARN_ERR_USAGE, "region", tarn__object_init(&object, "s3://b/x", &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(amazon_has_the_bucket_in_the_host, clear_environment),
        cmocka_unit_test_setup(others_have_the_bucket_in_the_path, clear_environment),
        cmocka_unit_test(signatures_are_those_of_the_documentation),
        cmocka_unit_test_setup(broken_settings_are_reported, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
