/* Roles: temporary credentials from Amazon's token service, for other credentials or for
 * a web identity. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/xml.h"
#include "io/aws.h"
#include "io/url.h"

enum { MAX_FORM = 64 << 10, MAX_IDENTITY = 20000, RETRIES = 2 };

const char *tarn__aws_domain(const char *region)
{
    if (strncmp(region, "cn-", 3) == 0) return "amazonaws.com.cn";
    if (strncmp(region, "us-iso-", 7) == 0) return "c2s.ic.gov";
    if (strncmp(region, "us-isob-", 8) == 0) return "sc2s.sgov.gov";
    return "amazonaws.com";
}

static tarn_status add_pair(tarn__buf *form, const char *name, const char *value,
                            size_t len, tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(form, err, "%s%s=", form->size ? "&" : "", name));
    return tarn__url_encode(form, value, len, false, err);
}

static tarn_status add_text(tarn__buf *form, const char *name, const char *value,
                            tarn_error *err)
{
    return value ? add_pair(form, name, value, strlen(value), err) : TARN_OK;
}

static tarn_status add_identity(tarn__buf *form, const char *path, tarn_error *err)
{
    tarn__buf text;
    TARN_TRY(tarn__cred_read_file(&text, path, MAX_IDENTITY, err));
    while (text.size && (unsigned char)text.data[text.size - 1] <= ' ')
        text.size--;
    tarn_status status =
        text.size ? add_pair(form, "WebIdentityToken", text.data, text.size, err)
                  : tarn__fail_at(err, TARN_ERR_FORMAT, path, TARN_NO_OFFSET,
                                  "the file with the web identity token is empty");
    if (text.data) explicit_bzero(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}

static tarn_status make_form(tarn__buf *form, const tarn__aws_role *role, tarn_error *err)
{
    char session[64];
    snprintf(session, sizeof session, "tarn-%lld-%ld", (long long)tarn__cred_clock(),
             (long)getpid());
    TARN_TRY(add_text(form, "Action",
                      role->source ? "AssumeRole" : "AssumeRoleWithWebIdentity", err));
    TARN_TRY(add_text(form, "Version", "2011-06-15", err));
    TARN_TRY(add_text(form, "RoleArn", role->arn, err));
    TARN_TRY(
        add_text(form, "RoleSessionName", role->session ? role->session : session, err));
    TARN_TRY(add_text(form, "ExternalId", role->external_id, err));
    TARN_TRY(add_text(form, "DurationSeconds", role->seconds, err));
    if (role->token_file) TARN_TRY(add_identity(form, role->token_file, err));
    return tarn__buf_add(form, "", 1, err);
}

/* --- The answer -------------------------------------------------------------------- */

typedef struct answer {
    tarn__cred_value *out;
    char expires[64];
} answer;

static tarn_status take_element(void *context, const char *path, const char *text,
                                size_t len, tarn_error *err)
{
    answer *a = context;
    const struct {
        const char *name;
        char *out;
        size_t size;
    } wanted[] = {
        {"AccessKeyId", a->out->access, sizeof a->out->access},
        {"SecretAccessKey", a->out->secret, sizeof a->out->secret},
        {"SessionToken", a->out->token, sizeof a->out->token},
        {"Expiration", a->expires, sizeof a->expires},
    };
    const char *name = strrchr(path, '/');
    const char *parent = strstr(path, "/Credentials/");
    if (!parent || strchr(parent + 13, '/')) return TARN_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strcmp(name + 1, wanted[i].name) == 0)
            return tarn__cred_set(wanted[i].out, wanted[i].size, text, len,
                                  wanted[i].name, err);
    return TARN_OK;
}

static tarn_status take_answer(const tarn__http_reply *reply, tarn__cred_value *out,
                               tarn_error *err)
{
    answer a = {.out = out};
    TARN_TRY(tarn__xml_read(reply->body, reply->size, take_element, NULL, &a, err));
    if (out->access[0] && out->secret[0] && out->token[0] &&
        tarn__cred_time(a.expires, &out->expires))
        return TARN_OK;
    out->access[0] = '\0';
    return tarn__fail(
        err, TARN_ERR_FORMAT,
        "the answer of the token service lacks a key, the token or the time "
        "when they expire");
}

/* --- The request ------------------------------------------------------------------- */

static tarn_status choose_url(const tarn__aws *aws, char *out, size_t size,
                              tarn_error *err)
{
    const char *given = tarn__aws_endpoint(aws, "sts");
    int n;
    if (given) {
        size_t len = strlen(given);
        while (len && given[len - 1] == '/')
            len--;
        n = snprintf(out, size, "%.*s/", (int)len, given);
    } else if (aws->region[0]) {
        n = snprintf(out, size, "https://sts.%s.%s/", aws->region,
                     tarn__aws_domain(aws->region));
    } else {
        n = snprintf(out, size, "https://sts.amazonaws.com/");
    }
    if (n > 0 && (size_t)n < size) return TARN_OK;
    return tarn__fail(err, TARN_ERR_USAGE, "the URL of the token service is too long");
}

static tarn_status send_form(const tarn__aws *aws, const tarn__aws_role *role,
                             const char *form, tarn__cred_answer *reply,
                             tarn__cred_value *out, tarn_error *err)
{
    char url[1100];
    static const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded; charset=utf-8", NULL};
    tarn__aws_signer signer = {.keys = role->source, .service = "sts"};
    TARN_TRY(choose_url(aws, url, sizeof url, err));
    TARN_TRY(tarn__aws_signer_host(&signer, url, err));
    snprintf(signer.region, sizeof signer.region, "%s",
             aws->region[0] ? aws->region : "us-east-1");
    tarn__cred_ask ask = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .body = form,
        .retries = RETRIES,
        .sign = role->source ? tarn__aws_sign : NULL,
        .signer = &signer,
    };
    TARN_TRY(tarn__cred_ask_ok(&ask, reply, err));
    tarn_status status = take_answer(&reply->reply, out, err);
    if (status != TARN_OK) tarn__error_place(err, url, TARN_NO_OFFSET);
    return status;
}

tarn_status tarn__aws_assume(const tarn__aws *aws, const tarn__aws_role *role,
                             tarn__cred_value *out, tarn_error *err)
{
    tarn__cred_answer *reply = calloc(1, sizeof *reply);
    tarn__buf form;
    tarn__buf_init(&form, MAX_FORM);
    tarn_status status = reply ? make_form(&form, role, err) : tarn__fail_memory(err);
    if (status == TARN_OK) status = send_form(aws, role, form.data, reply, out, err);
    if (form.data) explicit_bzero(form.data, form.size);
    tarn__buf_reset(&form);
    if (reply) explicit_bzero(reply, sizeof *reply);
    free(reply);
    if (status == TARN_OK) return TARN_OK;
    return tarn__cred_explain(err, status, "the role is %s",
                              TARN__SHOW(role->arn, strlen(role->arn)));
}
