/* speak.c - streaming, see speak.h.
 *
 * The decoder's output gathers in a window.  After each id the window is said as far as it cannot be the
 * beginning of a stop string; when it fills up earlier, likewise.  Bytes compared: stop length times window.
 */
#include "text/speak.h"

#include "text/decode.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4096 + PH_SPEAK_STOP_BYTES_MAX, HOLD_MAX = 4096 };

struct ph_speaker {
    ph_decoder     decoder;
    ph_speak_sink *sink;
    void          *arg;
    size_t         n_stops;
    char           stop[PH_SPEAK_STOPS_MAX][PH_SPEAK_STOP_BYTES_MAX + 1];
    size_t         stop_n[PH_SPEAK_STOPS_MAX];
    uint8_t        window[WINDOW];
    size_t         n;
    int            is_over;
    const char    *stopped_by;
};

static void say(ph_speaker *s, size_t n) {
    if (n && s->sink(s->arg, (const char *)s->window, n)) s->is_over = 1;
    memmove(s->window, s->window + n, s->n - n);
    s->n -= n;
}

/* Bytes of stop k that the window's end, from `at`, spells; -1 when it spells something else. */
static int spells(const ph_speaker *s, size_t at, size_t k) {
    size_t left = s->n - at, n = left < s->stop_n[k] ? left : s->stop_n[k];
    return memcmp(s->window + at, s->stop[k], n) ? -1 : (int)n;
}

/* Say the window up to the first place where a stop string stands, or may come to stand. */
static void flush(ph_speaker *s, int is_end) {
    size_t at = 0;
    if (s->is_over) {
        s->n = 0;
        return;
    }
    for (; at < s->n; at++) {
        int waits = 0;
        for (size_t k = 0; k < s->n_stops && s->n_stops; k++) {
            int n = spells(s, at, k);
            if (n < 0) continue;
            if ((size_t)n == s->stop_n[k]) {
                say(s, at);
                s->stopped_by = s->stop[k];
                s->is_over = 1;
                s->n = 0;
                return;
            }
            waits = 1;
        }
        if (waits && !is_end) break;
    }
    say(s, at);
}

static ph_rc hear(void *arg, const uint8_t *bytes, size_t n, ph_err *err) {
    ph_speaker *s = arg;
    (void)err;
    for (size_t i = 0; i < n && !s->is_over; i += 0) {
        size_t room = WINDOW - s->n, take = n - i < room ? n - i : room;
        if (take < n - i) /* a slice: end it between characters */
            while (take && (bytes[i + take] & 0xC0) == 0x80) take--;
        memcpy(s->window + s->n, bytes + i, take);
        s->n += take;
        i += take;
        if (i < n) flush(s, 0); /* leaves at most a stop string's length, less than the window */
    }
    return PH_OK;
}

ph_rc ph_speaker_open(ph_speaker **out, const ph_tokenizer *t, int skip_special, const char *const *stops,
                      size_t n_stops, ph_speak_sink *sink, void *arg, ph_err *err) {
    *out = NULL;
    if (n_stops > PH_SPEAK_STOPS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%zu stop strings (at most %d)", n_stops, PH_SPEAK_STOPS_MAX);
    for (size_t i = 0; i < n_stops; i++) {
        if (!stops[i][0]) return PH_FAIL(err, PH_EUSAGE, "stop string %zu is empty: leave it out", i + 1);
        if (strlen(stops[i]) > PH_SPEAK_STOP_BYTES_MAX)
            return PH_FAIL(err, PH_ELIMIT, "stop string %zu has %zu bytes (at most %d)", i + 1,
                           strlen(stops[i]), PH_SPEAK_STOP_BYTES_MAX);
    }
    ph_speaker *s = calloc(1, sizeof *s);
    if (!s) return PH_FAIL(err, PH_ENOMEM, "a speaker of %zu bytes", sizeof *s);
    s->sink = sink;
    s->arg = arg;
    s->n_stops = n_stops;
    for (size_t i = 0; i < n_stops; i++) {
        s->stop_n[i] = strlen(stops[i]);
        memcpy(s->stop[i], stops[i], s->stop_n[i]);
    }
    ph_rc rc = ph_decoder_open(&s->decoder, t, skip_special, t->clean_up, HOLD_MAX, hear, s, err);
    if (rc)
        ph_speaker_close(s);
    else
        *out = s;
    return rc;
}

void ph_speaker_close(ph_speaker *s) {
    if (!s) return;
    ph_decoder_close(&s->decoder);
    free(s);
}

void ph_speaker_begin(ph_speaker *s) {
    ph_decoder_begin(&s->decoder);
    s->n = 0;
    s->is_over = 0;
    s->stopped_by = NULL;
}

ph_rc ph_speaker_push(ph_speaker *s, int32_t id, int *is_over, ph_err *err) {
    ph_rc rc = s->is_over ? PH_OK : ph_decoder_push(&s->decoder, id, err);
    if (!rc) flush(s, 0);
    *is_over = s->is_over;
    return rc;
}

ph_rc ph_speaker_end(ph_speaker *s, int *is_over, ph_err *err) {
    ph_rc rc = s->is_over ? PH_OK : ph_decoder_end(&s->decoder, err);
    if (!rc) flush(s, 1);
    *is_over = s->is_over;
    return rc;
}

const char *ph_speaker_stopped_by(const ph_speaker *s) {
    return s->stopped_by;
}
