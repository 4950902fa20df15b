/* audio.h - bytes in, one channel of samples out.
 *
 *     bytes[n]          --measure---> rate, channels, frames      (headers only)
 *     bytes[n]          --decode----> sound [n] f32, mono, at the file's rate
 *     sound at one rate --resample--> sound at another
 *
 * The channels of a frame are averaged, as trainers' loaders do.  Whole numbers
 * become -1 .. 1 (16 bits are divided by 32768); floats stay as they are.
 *
 * Everything here reads untrusted input.  Declared lengths are held against the
 * limits and against the bytes that are there before anything of that size exists.
 */
#ifndef PH_AUDIO_AUDIO_H
#define PH_AUDIO_AUDIO_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    PH_AUDIO_SAMPLES_MAX = 64 << 20, /* default limit: 23 minutes at 48 kHz mono, 256 MiB of floats */
    PH_AUDIO_CHANNELS_MAX = 32,
    PH_AUDIO_RATE_MIN = 1000,
    PH_AUDIO_RATE_MAX = 768000,
};

/* Zeroed: the defaults. */
typedef struct ph_audio_options {
    uint64_t samples_max; /* frames x channels above this are refused; 0: PH_AUDIO_SAMPLES_MAX */
} ph_audio_options;

typedef struct ph_audio_info {
    const char *format; /* "WAV", "FLAC"; static, as are both */
    const char *coding; /* "16-bit PCM" */
    int         rate;   /* frames a second */
    int         channels;
    size_t      frames;     /* 1 .. */
    size_t      heap_bytes; /* upper estimate of what the decoder library takes and gives back */
} ph_audio_info;

typedef struct ph_sound {
    size_t       n;       /* samples, 1 .. */
    int          rate;    /* samples a second */
    const float *samples; /* [n]; NULL on a ruler */
} ph_sound;

/* Read the headers alone: no sample is decoded, no memory kept.
 * Errors: PH_EFORMAT empty, malformed, cut short, without samples; PH_EUNSUP a format or coding
 * that is not read (named); PH_ELIMIT more samples, channels or a rate than allowed, with both numbers. */
ph_rc ph_audio_measure(ph_audio_info *out, const uint8_t *bytes, size_t n, const ph_audio_options *options,
                       ph_err *err);

/* Decode bytes[n] of a WAV or FLAC file.
 *
 *   out      filled on PH_OK, zeroed otherwise; lives as long as arena
 *   bytes    borrowed for the call
 *   options  NULL: the defaults
 *   arena    gets 4 * frames bytes; with a ruler only the headers are read
 *
 * Errors: as ph_audio_measure; PH_EFORMAT also for data that ends early, is damaged, or holds a
 * number that is no sample (never half a recording); PH_ENOMEM. */
ph_rc ph_audio_decode(ph_sound *out, const uint8_t *bytes, size_t n, const ph_audio_options *options,
                      ph_arena *arena, ph_err *err);

/* Samples that n samples at rate `from` become at rate `to`: n * to / from, rounded up.  Rates within the
 * limits above, n up to SIZE_MAX / PH_AUDIO_RATE_MAX. */
size_t ph_audio_resampled(size_t n, int from, int to);

/* The same sound at another rate: band-limited by libsoxr at its quality HQ, which is what librosa's
 * default gives.
 *   out    lives as long as arena, or as in when the rate is the same: nothing is copied then
 *   arena  gets 4 * ph_audio_resampled() bytes
 * Errors: PH_ELIMIT a rate outside the limits; PH_ENOMEM. */
ph_rc ph_audio_resample(ph_sound *out, const ph_sound *in, int rate, ph_arena *arena, ph_err *err);

/* Upper estimate of the heap that resampling takes and gives back. */
size_t ph_audio_resample_bytes(int from, int to);

const char *ph_audio_format_at(size_t i); /* what is read: "WAV", "FLAC"; NULL past the last */

/* A name for what bytes seem to be, if it is not read: "MP3", "Ogg"; NULL: unknown. */
const char *ph_audio_sniff(const uint8_t *bytes, size_t n);

#endif
