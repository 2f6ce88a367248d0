/* The order in which Amazon's credentials are looked for: that of botocore. A provider
 * that is not configured is skipped; one that is configured and fails is an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "io/aws.h"

enum { MAX_CHAIN = 8 }; /* profiles that name each other as source_profile */

static const char *get(const tarn__aws *aws, const char *profile, const char *key)
{
    return tarn__aws_get(&aws->files, "profile", profile, key);
}

/* The two keys belong together: one alone is a mistake. */
static tarn_status take_keys(tarn__cred_value *out, const char *access,
                             const char *secret, const char *token, tarn_error *err)
{
    TARN_TRY(tarn__cred_set(out->access, sizeof out->access, access, strlen(access),
                            "the access key", err));
    TARN_TRY(tarn__cred_set(out->secret, sizeof out->secret, secret, strlen(secret),
                            "the secret key", err));
    if (!token) token = "";
    return tarn__cred_set(out->token, sizeof out->token, token, strlen(token),
                          "the session token", err);
}

static tarn_status from_environment(const tarn__aws *aws, tarn__cred_value *out,
                                    tarn_error *err)
{
    const char *access = tarn__env_get(aws->env, "AWS_ACCESS_KEY_ID");
    const char *secret = tarn__env_get(aws->env, "AWS_SECRET_ACCESS_KEY");
    const char *token = tarn__env_get(aws->env, "AWS_SESSION_TOKEN");
    if (!token) token = tarn__env_get(aws->env, "AWS_SECURITY_TOKEN");
    if (!access && !secret) return TARN_OK;
    if (!access || !secret)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                          "is set; set both or none");
    return take_keys(out, access, secret, token, err);
}

static bool has_keys(const tarn__aws *aws, const char *profile)
{
    return get(aws, profile, "aws_access_key_id") ||
           get(aws, profile, "aws_secret_access_key");
}

static tarn_status from_keys(const tarn__aws *aws, const char *profile,
                             tarn__cred_value *out, tarn_error *err)
{
    const char *access = get(aws, profile, "aws_access_key_id");
    const char *secret = get(aws, profile, "aws_secret_access_key");
    const char *token = get(aws, profile, "aws_session_token");
    if (!access && !secret) return TARN_OK;
    if (!access || !secret)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the profile %s has only one of aws_access_key_id and "
                          "aws_secret_access_key",
                          TARN__SHOW(profile, strlen(profile)));
    return take_keys(out, access, secret, token, err);
}

/* --- Roles ------------------------------------------------------------------------ */

static tarn_status from_web_identity(const tarn__aws *aws, const char *profile,
                                     bool use_env, tarn__cred_value *out, tarn_error *err)
{
    const char *keys[] = {"web_identity_token_file", "role_arn", "role_session_name"};
    const char *names[] = {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
                           "AWS_ROLE_SESSION_NAME"};
    const char *values[3];
    for (int i = 0; i < 3; i++) {
        values[i] = use_env ? tarn__env_get(aws->env, names[i]) : NULL;
        if (!values[i]) values[i] = get(aws, profile, keys[i]);
    }
    if (!values[0]) return TARN_OK;
    if (!values[1])
        return tarn__fail(err, TARN_ERR_USAGE,
                          "a web identity token is configured, but no role; set "
                          "AWS_ROLE_ARN, or role_arn in the profile %s",
                          TARN__SHOW(profile, strlen(profile)));
    tarn__aws_role role = {
        .arn = values[1], .session = values[2], .token_file = values[0]};
    return tarn__aws_assume(aws, &role, out, err);
}

static bool has_role(const tarn__aws *aws, const char *profile)
{
    return get(aws, profile, "role_arn") && !get(aws, profile, "web_identity_token_file");
}

/* What a profile gives without AssumeRole. */
static tarn_status from_profile(const tarn__aws *aws, const char *profile, bool use_env,
                                tarn__cred_value *out, tarn_error *err)
{
    TARN_TRY(from_web_identity(aws, profile, use_env, out, err));
    if (!out->access[0]) TARN_TRY(tarn__aws_sso(aws, profile, out, err));
    if (!out->access[0]) TARN_TRY(from_keys(aws, profile, out, err));
    if (!out->access[0]) TARN_TRY(tarn__aws_process(aws, profile, out, err));
    return TARN_OK;
}

static tarn_status from_named_source(const tarn__aws *aws, const char *source,
                                     const char *profile, tarn__cred_value *out,
                                     tarn_error *err)
{
    if (strcmp(source, "Environment") == 0)
        TARN_TRY(from_environment(aws, out, err));
    else if (strcmp(source, "EcsContainer") == 0)
        TARN_TRY(tarn__aws_container(aws, profile, out, err));
    else if (strcmp(source, "Ec2InstanceMetadata") == 0)
        TARN_TRY(tarn__aws_instance(aws, profile, out, err));
    else
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the profile %s has an unknown credential_source; expected "
                          "Environment, EcsContainer or Ec2InstanceMetadata",
                          TARN__SHOW(profile, strlen(profile)));
    if (out->access[0]) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NOT_FOUND,
                      "the profile %s names the credential_source %s, which has no "
                      "credentials",
                      TARN__SHOW(profile, strlen(profile)), source);
}

static tarn_status from_role(const tarn__aws *aws, const char *profile, unsigned depth,
                             tarn__cred_value *out, tarn_error *err);

static tarn_status from_source_profile(const tarn__aws *aws, const char *source,
                                       const char *profile, unsigned depth,
                                       tarn__cred_value *out, tarn_error *err)
{
    const char *shown = TARN__SHOW(source, strlen(source));
    if (!tarn__aws_has(&aws->files, "profile", source))
        return tarn__fail(err, TARN_ERR_NOT_FOUND,
                          "the profile %s, which is the source_profile of %s, does not "
                          "exist",
                          shown, TARN__SHOW(profile, strlen(profile)));
    if (has_keys(aws, source))
        TARN_TRY(from_keys(aws, source, out, err));
    else if (has_role(aws, source))
        TARN_TRY(from_role(aws, source, depth + 1, out, err));
    else
        TARN_TRY(from_profile(aws, source, false, out, err));
    if (out->access[0]) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NOT_FOUND,
                      "the profile %s, which is the source_profile of %s, has no "
                      "credentials",
                      shown, TARN__SHOW(profile, strlen(profile)));
}

static tarn_status find_source(const tarn__aws *aws, const char *profile, unsigned depth,
                               tarn__cred_value *out, tarn_error *err)
{
    const char *shown = TARN__SHOW(profile, strlen(profile));
    const char *source = get(aws, profile, "source_profile");
    const char *named = get(aws, profile, "credential_source");
    if (!source == !named)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the profile %s has a role_arn and %s source_profile %s "
                          "credential_source; it needs one of them",
                          shown, source ? "both" : "neither", source ? "and" : "nor");
    if (depth >= MAX_CHAIN)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "profiles name each other as source_profile in a circle, or "
                          "more than %d times (at %s)",
                          MAX_CHAIN, shown);
    if (get(aws, profile, "mfa_serial"))
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "the profile %s needs a code for mfa_serial, which tarn does "
                          "not ask for; use aws configure export-credentials --format "
                          "env, or a profile without it",
                          shown);
    if (named) return from_named_source(aws, named, profile, out, err);
    return from_source_profile(aws, source, profile, depth, out, err);
}

static tarn_status from_role(const tarn__aws *aws, const char *profile, unsigned depth,
                             tarn__cred_value *out, tarn_error *err)
{
    tarn__cred_value *source = calloc(1, sizeof *source);
    if (!source) return tarn__fail_memory(err);
    tarn_status status = find_source(aws, profile, depth, source, err);
    tarn__aws_role role = {
        .arn = get(aws, profile, "role_arn"),
        .session = get(aws, profile, "role_session_name"),
        .external_id = get(aws, profile, "external_id"),
        .seconds = get(aws, profile, "duration_seconds"),
        .source = source,
    };
    if (status == TARN_OK) status = tarn__aws_assume(aws, &role, out, err);
    explicit_bzero(source, sizeof *source);
    free(source);
    return status;
}

/* --- The chain -------------------------------------------------------------------- */

static tarn_status find_keys(const tarn__aws *aws, tarn__cred_value *out, tarn_error *err)
{
    TARN_TRY(from_environment(aws, out, err));
    if (!out->access[0] && has_role(aws, aws->profile))
        TARN_TRY(from_role(aws, aws->profile, 0, out, err));
    if (!out->access[0]) TARN_TRY(from_profile(aws, aws->profile, true, out, err));
    if (!out->access[0]) TARN_TRY(tarn__aws_container(aws, NULL, out, err));
    if (!out->access[0]) TARN_TRY(tarn__aws_instance(aws, NULL, out, err));
    return TARN_OK;
}

static tarn_status choose_profile(tarn__aws *aws, tarn_error *err)
{
    const char *chosen = tarn__env_get(aws->env, "AWS_PROFILE");
    if (!chosen) chosen = tarn__env_get(aws->env, "AWS_DEFAULT_PROFILE");
    aws->profile = chosen ? chosen : "default";
    if (!chosen || tarn__aws_has(&aws->files, "profile", chosen)) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NOT_FOUND,
                      "the profile named by AWS_PROFILE does not exist");
}

static tarn_status choose_region(tarn__aws *aws, tarn_error *err)
{
    const char *region = tarn__env_get(aws->env, "AWS_REGION");
    if (!region) region = tarn__env_get(aws->env, "AWS_DEFAULT_REGION");
    if (!region) region = get(aws, aws->profile, "region");
    if (!region) return TARN_OK;
    size_t n = strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-_");
    if (region[n])
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the region name contains an invalid character");
    return tarn__cred_set(aws->region, sizeof aws->region, region, n, "the region", err);
}

static tarn_status choose_endpoint(const tarn__aws *aws, tarn__cred_value *out,
                                   tarn_error *err)
{
    const char *endpoint = tarn__aws_endpoint(aws, "s3");
    size_t len = endpoint ? strlen(endpoint) : 0;
    while (len && endpoint[len - 1] == '/')
        len--;
    return tarn__cred_set(out->endpoint, sizeof out->endpoint, endpoint ? endpoint : "",
                          len, "the endpoint", err);
}

/* A region that the provider knows is used if none is configured. */
static tarn_status find_all(tarn__aws *aws, tarn__cred_value *out, tarn_error *err)
{
    TARN_TRY(choose_profile(aws, err));
    TARN_TRY(choose_region(aws, err));
    TARN_TRY(choose_endpoint(aws, out, err));
    const char *unsigned_requests = tarn__env_get(aws->env, "AWS_NO_SIGN_REQUEST");
    bool anonymous = unsigned_requests && (strcasecmp(unsigned_requests, "true") == 0 ||
                                           strcasecmp(unsigned_requests, "yes") == 0 ||
                                           strcmp(unsigned_requests, "1") == 0);
    if (!anonymous) TARN_TRY(find_keys(aws, out, err));
    const char *region = aws->region[0]   ? aws->region
                         : out->region[0] ? out->region
                                          : "us-east-1";
    memmove(out->region, region, strlen(region) + 1);
    return TARN_OK;
}

tarn_status tarn__aws_find(const tarn__env *env, tarn__cred_value *out, tarn_error *err)
{
    tarn__aws *aws = calloc(1, sizeof *aws);
    if (!aws) return tarn__fail_memory(err);
    aws->env = env;
    tarn_status status = tarn__aws_files_load(&aws->files, env, err);
    if (status == TARN_OK) status = find_all(aws, out, err);
    tarn__aws_files_reset(&aws->files);
    free(aws);
    return status;
}
