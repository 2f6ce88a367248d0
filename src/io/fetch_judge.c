/* Judges responses. Everything in a head is the server's word, and checked. */
#include "io/fetch_judge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

static const tarn__judgement refused = {.verdict = TARN__REFUSED};

static const char *number(char out[24], uint64_t value)
{
    snprintf(out, 24, "%llu", (unsigned long long)value);
    return value == UINT64_MAX ? "unknown" : out;
}

#define NUMBER(value) number((char[24]){0}, value)

static tarn__judgement refuse_changed(const tarn__asked *asked,
                                      const tarn__object_id *now, tarn_error *err)
{
    const tarn__object_id *id = asked->id;
    const char *why = "the object changed while it was used";
    const char *next = "open it again, and index it again if it has an index";
    if (!now)
        tarn__error_set(err, TARN_ERR_STALE, asked->shown, TARN_NO_OFFSET,
                        "%s (it no longer has the ETag %s); %s", why,
                        TARN__SHOW(id->etag, strlen(id->etag)), next);
    else if (id->size != now->size && id->size != UINT64_MAX && now->size != UINT64_MAX)
        tarn__error_set(err, TARN_ERR_STALE, asked->shown, TARN_NO_OFFSET,
                        "%s (found %s bytes, expected %s); %s", why, NUMBER(now->size),
                        NUMBER(id->size), next);
    else if (id->etag[0] && now->etag[0] && strcmp(id->etag, now->etag) != 0)
        tarn__error_set(err, TARN_ERR_STALE, asked->shown, TARN_NO_OFFSET,
                        "%s (found the ETag %s, expected %s); %s", why,
                        TARN__SHOW(now->etag, strlen(now->etag)),
                        TARN__SHOW(id->etag, strlen(id->etag)), next);
    else
        tarn__error_set(err, TARN_ERR_STALE, asked->shown, TARN_NO_OFFSET,
                        "%s (last modified %s, expected %s); %s", why,
                        TARN__SHOW(now->modified, strlen(now->modified)),
                        TARN__SHOW(id->modified, strlen(id->modified)), next);
    return refused;
}

static tarn__judgement accept_part(const tarn__http_head *head, const tarn__asked *asked,
                                   uint64_t size, uint64_t skip, tarn_error *err)
{
    tarn__judgement j = {.verdict = TARN__ACCEPTED, .skip = skip};
    j.id.size = size;
    memcpy(j.id.etag, head->etag, sizeof j.id.etag);
    memcpy(j.id.modified, head->modified, sizeof j.id.modified);
    if (!tarn__object_agrees(asked->id, &j.id)) return refuse_changed(asked, &j.id, err);
    if (!asked->identify || size != UINT64_MAX) return j;
    tarn__error_set(err, TARN_ERR_UNSUPPORTED, asked->shown, TARN_NO_OFFSET,
                    "the server does not send the size of the object, which is needed to "
                    "read parts of it");
    return refused;
}

static tarn__judgement judge_part(const tarn__http_head *head, const tarn__asked *asked,
                                  tarn_error *err)
{
    uint64_t last = asked->first + asked->size - 1;
    if (!head->has_range)
        tarn__error_set(err, TARN_ERR_FORMAT, asked->shown, TARN_NO_OFFSET,
                        "the server responded with status 206, but without a valid "
                        "Content-Range");
    else if (head->range_first != asked->first || head->range_last != last)
        tarn__error_set(err, TARN_ERR_FORMAT, asked->shown, TARN_NO_OFFSET,
                        "the server sent other bytes than were requested (found %s-%s, "
                        "expected %s-%s)",
                        NUMBER(head->range_first), NUMBER(head->range_last),
                        NUMBER(asked->first), NUMBER(last));
    else if (head->has_length && head->length != asked->size)
        tarn__error_set(err, TARN_ERR_FORMAT, asked->shown, TARN_NO_OFFSET,
                        "the length of the response does not match its range (found %s, "
                        "expected %s)",
                        NUMBER(head->length), NUMBER(asked->size));
    else if (head->range_total <= last)
        tarn__error_set(err, TARN_ERR_FORMAT, asked->shown, TARN_NO_OFFSET,
                        "the server sent bytes %s-%s of an object of %s bytes",
                        NUMBER(asked->first), NUMBER(last), NUMBER(head->range_total));
    else
        return accept_part(head, asked, head->range_total, 0, err);
    return refused;
}

/* The object has no such bytes. So it is empty, if its first byte was asked for. */
static tarn__judgement judge_missing(const tarn__http_head *head,
                                     const tarn__asked *asked, tarn_error *err)
{
    if (asked->identify) return accept_part(head, asked, 0, 0, err);
    tarn__error_set(err, TARN_ERR_STALE, asked->shown, TARN_NO_OFFSET,
                    "the object has no such bytes: it changed, or its index belongs to "
                    "another object (it should have %s bytes)",
                    NUMBER(asked->id->size));
    return refused;
}

/* The server does not support ranges: what is not needed must be discarded. */
static tarn__judgement judge_whole(const tarn__http_head *head, const tarn__asked *asked,
                                   tarn_error *err)
{
    uint64_t size = head->has_length ? head->length : UINT64_MAX;
    tarn__judgement j = accept_part(head, asked, size, asked->first, err);
    if (j.verdict == TARN__REFUSED || asked->identify) return j;
    if (size < asked->first + asked->size) return judge_missing(head, asked, err);
    if (size == UINT64_MAX || size - asked->size > TARN__FETCH_WASTE) {
        tarn__error_set(err, TARN_ERR_UNSUPPORTED, asked->shown, TARN_NO_OFFSET,
                        "the server does not support range requests (it sent the whole "
                        "object); use another server, or copy the object");
        return refused;
    }
    return j;
}

static bool is_plain(const char *encoding)
{
    return !encoding[0] || strcasecmp(encoding, "identity") == 0 ||
           strcasecmp(encoding, "aws-chunked") ==
               0; /* of the upload, not of the object */
}

tarn__judgement tarn__fetch_judge(const tarn__http_head *head, const tarn__asked *asked,
                                  tarn_error *err)
{
    if ((head->status == 200 || head->status == 206) && !is_plain(head->encoding)) {
        tarn__error_set(err, TARN_ERR_UNSUPPORTED, asked->shown, TARN_NO_OFFSET,
                        "the server or a proxy sent the bytes compressed "
                        "(Content-Encoding: %s); only the stored bytes can be used",
                        head->encoding);
        return refused;
    }
    switch (head->status) {
    case 206:
        return judge_part(head, asked, err);
    case 200:
        return judge_whole(head, asked, err);
    case 416:
        return judge_missing(head, asked, err);
    case 412:
        return refuse_changed(asked, NULL, err);
    default:
        return (tarn__judgement){.verdict = TARN__BAD_STATUS};
    }
}
