/* audio_recipe.h - how a checkpoint's trainer made sound into model input, as data.
 *
 *     preprocessor_config.json --init--> ph_audio_recipe
 *     (samples, rate) ----------layout-> how many stretches, of how many frames
 *     ph_sound -----------------run----> ph_mels  f32 [n_chunks, n_mels, n_frames]
 *
 * A recipe equals transformers' WhisperFeatureExtractor (its numpy path): log10 of
 * a mel spectrum, cut 8 decades below its maximum, (x + 4) / 4.  A stretch is
 * chunk_length seconds, the last one filled up with silence; where the reference
 * drops what is longer than one stretch, here the next one begins, prepared as the
 * reference would prepare it alone.  The layout follows from the length alone, so
 * that tokens and bytes are known before a sample is decoded.
 *
 * Source: transformers 4.57 feature_extraction_whisper.py; arXiv:2212.04356 §2.2.
 */
#ifndef PH_AUDIO_AUDIO_RECIPE_H
#define PH_AUDIO_AUDIO_RECIPE_H

#include "audio/audio.h"
#include "formats/json.h"

enum {
    PH_AUDIO_MELS_MAX = 1024,
    PH_AUDIO_FEATURES_MAX = 64 << 20, /* floats of all stretches of one recording */
};

typedef struct ph_audio_recipe {
    const char *processor;     /* class, static: "WhisperFeatureExtractor"; NULL: no recipe */
    int         n_mels;        /* feature_size */
    int         rate;          /* sampling_rate */
    int         hop, n_fft;    /* samples: hop_length, n_fft */
    int         chunk_samples; /* chunk_length * sampling_rate */
    int         n_frames;      /* of a stretch */
    float       padding_value;
} ph_audio_recipe;

typedef struct ph_mel_layout {
    size_t n_samples; /* at the recipe's rate */
    int    n_chunks;  /* stretches, 1 .. */
    int    n_mels, n_frames;
} ph_mel_layout;

typedef struct ph_mels {
    ph_mel_layout layout;
    float        *features; /* [n_chunks, n_mels, n_frames]; NULL on a ruler */
} ph_mels;

const char *ph_audio_recipe_processor(void); /* the class that is known */

/* Read the recipe from a model's configs.  Absent documents: a zeroed ph_json.
 *   preprocessor  preprocessor_config.json
 *   processor     processor_config.json: "feature_extractor" in it serves when preprocessor is absent
 * n_samples, nb_max_frames and mel_filters follow from the other keys and are not read, as in the reference.
 * Errors: PH_EUNSUP a class that is not known, dither, or a window whose transform is not computed;
 * PH_EFORMAT wrong types or values; PH_ELIMIT numbers that together ask for too much. */
ph_rc ph_audio_recipe_init(ph_audio_recipe *out, const ph_json *preprocessor, const ph_json *processor,
                           ph_err *err);

/* The stretches of n samples at `rate`.
 * Errors: PH_EFORMAT no samples; PH_ELIMIT a rate, or more features, than the limits. */
ph_rc ph_audio_recipe_layout(ph_mel_layout *out, const ph_audio_recipe *recipe, size_t n, int rate,
                             ph_err *err);

/* Exactly the arena bytes that ph_audio_recipe_run will take for this length. Errors: those of layout. */
ph_rc ph_audio_recipe_bytes(size_t *out, const ph_audio_recipe *recipe, size_t n, int rate, ph_err *err);

/* Prepare one recording, resampled first where its rate is another.
 *   out    lives as long as arena
 *   in     borrowed; with a ruler its samples may be NULL
 * Errors: those of layout; PH_ENOMEM. */
ph_rc ph_audio_recipe_run(ph_mels *out, const ph_audio_recipe *recipe, const ph_sound *in, ph_arena *arena,
                          ph_err *err);

#endif
