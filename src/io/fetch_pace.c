/* The rate is measured in windows, of which only the time counts in which the limit was
 * reached: otherwise the rate is that of the callers. A window is at least as long as it
 * takes to end as many transfers as run at once. The window after each change of the
 * limit is not used, because it has transfers of both limits.
 *
 * A measurement takes many round trips, and a first batch should take few. So a server
 * whose first byte takes long gets a larger limit at once. */
#include "io/fetch_pace.h"

enum {
    WINDOW_MS = 250,
    REST = 20,    /* windows after a step that did not help */
    CUT_REST = 8, /* and after a cut */
    LEAST = 4     /* a busy server is also spared by the pauses between attempts */
};

/* A step multiplies the limit by 1.5. If latency was what limited the rate, the rate
 * grows as much; a fifth of that is more than the usual noise. */
#define GAIN 0.2

void tarn__pace_init(tarn__pace *pace, unsigned most)
{
    if (most < 1) most = 1;
    *pace = (tarn__pace){
        .limit = most < TARN__PACE_START ? most : TARN__PACE_START,
        .most = most,
        .settling = true,
        .cut_ms = INT64_MIN,
        .fresh = true,
        .waits_ms = INT64_MIN,
    };
}

static void begin_window(tarn__pace *pace)
{
    pace->window_ms = 0;
    pace->bytes = 0;
    pace->ended = 0;
}

static void change_limit(tarn__pace *pace, unsigned limit)
{
    pace->limit = limit;
    pace->settling = true;
    begin_window(pace);
}

static void step_up(tarn__pace *pace, double rate)
{
    unsigned next = pace->limit + (pace->limit + 1) / 2;
    if (next > pace->most) next = pace->most;
    pace->rate = rate;
    pace->before = next > pace->limit ? pace->limit : 0;
    if (pace->before)
        change_limit(pace, next);
    else
        pace->rest = REST;
}

static bool step_helped(const tarn__pace *pace, double rate)
{
    double growth = (double)pace->limit / pace->before - 1;
    return rate >= pace->rate * (1 + GAIN * growth);
}

static void end_window(tarn__pace *pace)
{
    double rate = (double)pace->bytes / (double)pace->window_ms;
    bool settling = pace->settling;
    pace->settling = false;
    begin_window(pace);
    if (settling) return;
    if (pace->before && !step_helped(pace, rate)) {
        unsigned before = pace->before;
        pace->before = 0;
        pace->rest = REST;
        change_limit(pace, before);
    } else if (pace->rest) {
        pace->rest--;
    } else {
        step_up(pace, rate);
    }
}

int64_t tarn__pace_due(const tarn__pace *pace)
{
    bool waits = pace->fresh && pace->waits_ms != INT64_MIN;
    return waits ? pace->waits_ms + TARN__PACE_NEAR_MS : INT64_MAX;
}

static void note_first(tarn__pace *pace, int64_t now_ms, uint64_t bytes, bool full)
{
    if (bytes || pace->limit != TARN__PACE_START) pace->fresh = false;
    if (!pace->fresh) return;
    if (pace->waits_ms == INT64_MIN && full) pace->waits_ms = now_ms;
    if (now_ms < tarn__pace_due(pace)) return;
    pace->fresh = false;
    change_limit(pace, pace->most < TARN__PACE_FAR ? pace->most : TARN__PACE_FAR);
}

void tarn__pace_note(tarn__pace *pace, int64_t now_ms, uint64_t bytes, unsigned ended,
                     bool full)
{
    note_first(pace, now_ms, bytes, full);
    if (pace->full) {
        pace->window_ms += now_ms - pace->noted_ms;
        pace->bytes += bytes;
        pace->ended += ended;
        if (pace->window_ms >= WINDOW_MS && pace->ended >= pace->limit) end_window(pace);
    }
    pace->noted_ms = now_ms;
    pace->full = full;
}

bool tarn__pace_slow(tarn__pace *pace, int64_t now_ms, int64_t began_ms)
{
    if (began_ms < pace->cut_ms) return false;
    pace->cut_ms = now_ms;
    pace->before = 0;
    pace->rest = CUT_REST;
    unsigned half = pace->limit / 2, least = pace->most < LEAST ? pace->most : LEAST;
    change_limit(pace, half > least ? half : least);
    return true;
}
