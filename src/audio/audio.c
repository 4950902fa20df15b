/* audio.c - WAV and FLAC from memory, by libsndfile, brought to one channel.
 *
 *     claim  first bytes -> WAV or FLAC, else a refusal with a name
 *     walk   what the file declares about its own length, against the bytes that are there
 *     open   the library's view of the headers, against our limits
 *     read   blocks of frames on the stack; each frame's mean to the caller's samples
 *
 * libsndfile reads two dozen formats and mends what it can.  Only the two that are asked for reach it, with
 * plain codings, and a file that is shorter than it says is refused here: the library would give what is
 * left. Source: libsndfile api.html; RIFF/WAVE (Multimedia Programming Interface 1.0, 1991); RFC 9639 (FLAC).
 */
#include "audio/audio.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#include <sndfile.h>

enum {
    BLOCK = 4096, /* samples read at a time */
    HEAP_BASE = 1 << 18,
    WAV_UNKNOWN = -1, /* data size of a writer that could not seek back */
};
/* Float files may leave -1 .. 1; beyond this a number is damage, and its square would leave float's range. */
#define SAMPLE_MAX 1e9f

/* ---- what reaches the library ---- */

typedef struct source {
    const uint8_t *bytes; /* [n] borrowed */
    sf_count_t     n, at; /* 0 <= at <= n */
} source;

static sf_count_t source_size(void *user) {
    return ((source *)user)->n;
}
static sf_count_t source_tell(void *user) {
    return ((source *)user)->at;
}
static sf_count_t source_seek(sf_count_t offset, int whence, void *user) {
    source    *s = user;
    sf_count_t from = whence == SEEK_CUR ? s->at : whence == SEEK_END ? s->n : 0;
    if (offset < -from || offset > s->n - from) return -1;
    return s->at = from + offset;
}
static sf_count_t source_read(void *to, sf_count_t count, void *user) {
    source    *s = user;
    sf_count_t left = s->n - s->at;
    if (count > left) count = left;
    if (count <= 0) return 0;
    memcpy(to, s->bytes + s->at, (size_t)count);
    s->at += count;
    return count;
}
static sf_count_t source_write(const void *from, sf_count_t count, void *user) {
    (void)from, (void)count, (void)user;
    return 0;
}

static const struct {
    int         subtype;
    const char *name;
} codings[] = {
    {SF_FORMAT_PCM_16, "16-bit PCM"},   {SF_FORMAT_PCM_24, "24-bit PCM"}, {SF_FORMAT_PCM_32, "32-bit PCM"},
    {SF_FORMAT_PCM_U8, "8-bit PCM"},    {SF_FORMAT_PCM_S8, "8-bit PCM"},  {SF_FORMAT_FLOAT, "32-bit float"},
    {SF_FORMAT_DOUBLE, "64-bit float"}, {SF_FORMAT_ULAW, "mu-law"},       {SF_FORMAT_ALAW, "A-law"},
};

/* ---- what the file says of its own length ---- */

static uint32_t le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Every chunk up to the data must be there whole. */
static ph_rc walk_wav(const uint8_t *bytes, size_t n, ph_err *err) {
    size_t at = 12;
    while (n - at >= 8) {
        const uint8_t *chunk = bytes + at;
        size_t         size = le32(chunk + 4), left = n - at - 8;
        if (!memcmp(chunk, "data", 4) && size == UINT32_MAX) return PH_OK; /* a stream: up to the end */
        if (size > left)
            return PH_FAIL(
                err, PH_EFORMAT,
                "the WAV file is cut short: the chunk at byte %zu declares %zu bytes and %zu are left", at,
                size, left);
        if (!memcmp(chunk, "data", 4)) return PH_OK;
        size += size & 1; /* chunks are padded to even sizes */
        if (size > left) break;
        at += 8 + size;
    }
    return PH_FAIL(err, PH_EFORMAT,
                   "the WAV file has no data chunk in its %zu bytes: it is cut short or empty", n);
}

/* STREAMINFO comes first; its 36-bit count of frames may be 0: unknown. */
static ph_rc walk_flac(const uint8_t *bytes, size_t n, ph_err *err) {
    if (n < 42)
        return PH_FAIL(err, PH_EFORMAT, "the FLAC file is cut short: it has %zu bytes, its headers need 42",
                       n);
    if ((bytes[4] & 0x7f) != 0 || bytes[5] || bytes[6] || bytes[7] != 34)
        return PH_FAIL(err, PH_EFORMAT, "the FLAC file does not begin with its STREAMINFO block");
    if (!(bytes[21] & 0x0f) && !le32(bytes + 22))
        return PH_FAIL(
            err, PH_EUNSUP,
            "the FLAC file does not say how many samples it holds (a stream): write it again to a file");
    return PH_OK;
}

typedef struct form {
    const char *name;
    int         major;
    ph_rc (*walk)(const uint8_t *bytes, size_t n, ph_err *err);
} form;
static const form wav = {"WAV", SF_FORMAT_WAV, walk_wav}, flac = {"FLAC", SF_FORMAT_FLAC, walk_flac};

const char *ph_audio_format_at(size_t i) {
    const form *const all[] = {&wav, &flac};
    return i < sizeof all / sizeof *all ? all[i]->name : NULL;
}

static ph_rc claim(const form **out, const uint8_t *bytes, size_t n, ph_err *err) {
    if (!n) return PH_FAIL(err, PH_EFORMAT, "the audio file is empty (0 bytes)");
    if (n >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WAVE", 4)) return *out = &wav, PH_OK;
    if (n >= 4 && !memcmp(bytes, "fLaC", 4)) return *out = &flac, PH_OK;
    const char *name = ph_audio_sniff(bytes, n);
    if (name)
        return PH_FAIL(err, PH_EUNSUP, "this is %s, which is not read as audio: give WAV or FLAC", name);
    return PH_FAIL(err, PH_EUNSUP,
                   "the audio's format is not known (%zu bytes, the first 0x%02x): give WAV or FLAC", n,
                   bytes[0]);
}

/* ---- opening ---- */

static ph_rc check_coding(ph_audio_info *out, const form *f, const SF_INFO *sf, ph_err *err) {
    int subtype = sf->format & SF_FORMAT_SUBMASK, major = sf->format & SF_FORMAT_TYPEMASK;
    if (major != f->major && major != SF_FORMAT_WAVEX)
        return PH_FAIL(err, PH_EFORMAT, "the file begins like %s and is something else", f->name);
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++)
        if (codings[i].subtype == subtype) return out->coding = codings[i].name, PH_OK;
    SF_FORMAT_INFO info = {.format = subtype};
    if (sf_command(NULL, SFC_GET_FORMAT_INFO, &info, sizeof info) || !info.name) info.name = "another";
    return PH_FAIL(err, PH_EUNSUP, "%s with %s coding is not read: give PCM, float, mu-law or A-law", f->name,
                   info.name);
}

static ph_rc check_limits(const SF_INFO *sf, const ph_audio_options *options, ph_err *err) {
    uint64_t max = options && options->samples_max ? options->samples_max : PH_AUDIO_SAMPLES_MAX;
    if (sf->channels < 1 || sf->channels > PH_AUDIO_CHANNELS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "the audio has %d channels: the limit is %d", sf->channels,
                       PH_AUDIO_CHANNELS_MAX);
    if (sf->samplerate < PH_AUDIO_RATE_MIN || sf->samplerate > PH_AUDIO_RATE_MAX)
        return PH_FAIL(err, PH_ELIMIT, "the audio has %d samples a second: %d .. %d are read", sf->samplerate,
                       PH_AUDIO_RATE_MIN, PH_AUDIO_RATE_MAX);
    if (sf->frames < 1) return PH_FAIL(err, PH_EFORMAT, "the audio file holds no samples");
    if ((uint64_t)sf->frames > max / (uint64_t)sf->channels)
        return PH_FAIL(err, PH_ELIMIT,
                       "the audio has %lld samples in each of %d channels: the limit is %llu in all",
                       (long long)sf->frames, sf->channels, (unsigned long long)max);
    return PH_OK;
}

static ph_rc open_sound(SNDFILE **out, ph_audio_info *info, source *s, const ph_audio_options *options,
                        ph_err *err) {
    static SF_VIRTUAL_IO io = {source_size, source_seek, source_read, source_write, source_tell};
    const form          *f = NULL;
    SF_INFO              sf = {0};
    ph_rc                rc;
    *out = NULL;
    PH_TRY(claim(&f, s->bytes, (size_t)s->n, err));
    PH_TRY(f->walk(s->bytes, (size_t)s->n, err));
    SNDFILE *file = sf_open_virtual(&io, SFM_READ, &sf, s);
    if (!file)
        return PH_FAIL(err, PH_EFORMAT, "the %s headers are damaged: %.150s", f->name, sf_strerror(NULL));
    if ((rc = check_coding(info, f, &sf, err)) || (rc = check_limits(&sf, options, err))) goto out;
    info->format = f->name;
    info->rate = sf.samplerate;
    info->channels = sf.channels;
    info->frames = (size_t)sf.frames;
    /* FLAC: its largest block, decoded and as read, with a residual beside it; metadata, at most the file. */
    info->heap_bytes = HEAP_BASE;
    if (f == &flac) info->heap_bytes += 3 * sizeof(int32_t) * 65536 * (size_t)sf.channels + (size_t)s->n;
out:
    if (rc) {
        sf_close(file);
        return rc;
    }
    *out = file;
    return PH_OK;
}

ph_rc ph_audio_measure(ph_audio_info *out, const uint8_t *bytes, size_t n, const ph_audio_options *options,
                       ph_err *err) {
    source        s = {bytes, (sf_count_t)n, 0};
    SNDFILE      *file;
    ph_audio_info info = {0};
    *out = info;
    PH_TRY(open_sound(&file, &info, &s, options, err));
    sf_close(file);
    *out = info;
    return PH_OK;
}

/* ---- reading ---- */

/* The mean of each frame's channels; 0 when a number is no sample, and *at is its frame then. */
static int mix(float *to, const float *block, size_t frames, int channels, size_t *at) {
    for (size_t f = 0; f < frames; f++, block += channels) {
        double sum = 0;
        for (int c = 0; c < channels; c++) {
            if (!(fabsf(block[c]) <= SAMPLE_MAX)) return *at = f, 0;
            sum += (double)block[c];
        }
        to[f] = (float)(sum / channels);
    }
    return 1;
}

static ph_rc read_frames(float *to, SNDFILE *file, const ph_audio_info *info, ph_err *err) {
    float  block[BLOCK];
    size_t per_block = BLOCK / (size_t)info->channels, bad;
    for (size_t done = 0; done < info->frames;) {
        size_t     want = info->frames - done < per_block ? info->frames - done : per_block;
        sf_count_t got = sf_readf_float(file, block, (sf_count_t)want);
        if (sf_error(file))
            return PH_FAIL(err, PH_EFORMAT, "the %s data is damaged after sample %zu of %zu: %.120s",
                           info->format, done, info->frames, sf_strerror(file));
        if (got <= 0 || (size_t)got > want)
            return PH_FAIL(err, PH_EFORMAT, "the %s data ends early: %zu of %zu samples are there",
                           info->format, done, info->frames);
        if (!mix(to + done, block, (size_t)got, info->channels, &bad))
            return PH_FAIL(err, PH_EFORMAT,
                           "sample %zu of the %s data is no number within %.0e: the file is damaged",
                           done + bad, info->format, (double)SAMPLE_MAX);
        done += (size_t)got;
    }
    return PH_OK;
}

ph_rc ph_audio_decode(ph_sound *out, const uint8_t *bytes, size_t n, const ph_audio_options *options,
                      ph_arena *arena, ph_err *err) {
    source        s = {bytes, (sf_count_t)n, 0};
    SNDFILE      *file;
    ph_audio_info info = {0};
    void         *samples;
    *out = (ph_sound){0};
    PH_TRY(open_sound(&file, &info, &s, options, err));
    ph_rc rc = ph_arena_carve(arena, &samples, info.frames, sizeof(float), err);
    if (!rc && samples) rc = read_frames(samples, file, &info, err);
    sf_close(file);
    if (!rc) *out = (ph_sound){info.frames, info.rate, samples};
    return rc;
}
