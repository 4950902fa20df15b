/* speak.h - an answer as it is spoken: ids in, UTF-8 pieces out.
 *
 *     id ─► decoder ─► stop strings ─► sink(piece)
 *
 * No piece ends inside a character, and the pieces together are exactly what ph_tokenizer_decode gives for
 * the ids together (up to a stop string, if one was met).  What may still become part of a stop string,
 * or still change its meaning, is kept back until it cannot.  After open nothing is allocated.
 */
#ifndef PH_TEXT_SPEAK_H
#define PH_TEXT_SPEAK_H

#include "text/tokenizer.h"

enum { PH_SPEAK_STOPS_MAX = 16, PH_SPEAK_STOP_BYTES_MAX = 1024 };

typedef struct ph_speaker ph_speaker;

/* piece[n], n >= 1, not terminated; borrowed for the call.  Not 0: the listener is gone, the answer ends. */
typedef int ph_speak_sink(void *arg, const char *piece, size_t n);

/* stops[n_stops] are copied.  Errors: PH_ELIMIT too many or too long stop strings, PH_EUSAGE an empty one,
 * PH_ENOMEM. */
ph_rc ph_speaker_open(ph_speaker **s, const ph_tokenizer *t, int skip_special, const char *const *stops,
                      size_t n_stops, ph_speak_sink *sink, void *arg, ph_err *err);
void  ph_speaker_close(ph_speaker *s); /* accepts NULL */
void  ph_speaker_begin(ph_speaker *s); /* the next id begins a new answer */
/* Say one id.  *is_over becomes 1 once a stop string was met or the listener has gone; later ids say nothing.
 * Errors: PH_ECANCEL is not an error here: see is_over. */
ph_rc ph_speaker_push(ph_speaker *s, int32_t id, int *is_over, ph_err *err);
ph_rc ph_speaker_end(ph_speaker *s, int *is_over, ph_err *err); /* say what was kept back */
/* The stop string that ended the answer, or NULL. */
const char *ph_speaker_stopped_by(const ph_speaker *s);

#endif
