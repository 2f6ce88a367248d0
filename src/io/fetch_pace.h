/* How many transfers from one server run at once: more while that brings more bytes per
 * second, and half as many when the server asks for fewer. Only arithmetic: the caller
 * has the clock. */
#ifndef TARN_IO_FETCH_PACE_H
#define TARN_IO_FETCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TARN__PACE_START = 16,
    TARN__PACE_FAR = 64,    /* if no byte arrives ... */
    TARN__PACE_NEAR_MS = 10 /* ... within this time */
};

typedef struct tarn__pace {
    unsigned limit; /* transfers at once */
    unsigned most;  /* the limit never grows beyond this */
    /* private: */
    bool fresh; /* no byte has arrived */
    int64_t
        waits_ms;    /* since when the limit keeps jobs waiting; INT64_MIN: it does not */
    unsigned before; /* the limit before the step that is being tried; 0: none is */
    double rate;     /* bytes per millisecond with that limit */
    unsigned rest;   /* windows until the next step is tried */
    bool settling;   /* the window began with another limit */
    bool full;       /* since the last note, the limit was what kept jobs waiting */
    int64_t noted_ms, cut_ms;
    int64_t window_ms; /* the time during which the limit was reached ... */
    uint64_t bytes;    /* ... and what arrived in it */
    unsigned ended;
} tarn__pace;

void tarn__pace_init(tarn__pace *pace, unsigned most);

/* To be called often, with what arrived and how many transfers ended since the last call.
 * full: jobs wait, and only because of the limit. */
void tarn__pace_note(tarn__pace *pace, int64_t now_ms, uint64_t bytes, unsigned ended,
                     bool full);

/* When tarn__pace_note should be called although nothing arrived; INT64_MAX: never. */
int64_t tarn__pace_due(const tarn__pace *pace);

/* The server asked for fewer requests in response to one that began at began_ms. Returns
 * whether that was news: a request that began before the last cut does not count. */
bool tarn__pace_slow(tarn__pace *pace, int64_t now_ms, int64_t began_ms);

#endif
