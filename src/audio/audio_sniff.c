/* audio_sniff.c - names for recordings (and other files) that are not read, so that a refusal can say what it
 * was given.  First bytes only; nothing is parsed. */
#include "audio/audio.h"

#include <string.h>

static const struct {
    size_t      at; /* of the mark */
    const char *mark;
    size_t      n;
    const char *name;
} known[] = {
    {0, "ID3", 3, "MP3 (or another file behind an ID3 tag)"},
    {0, "OggS", 4, "Ogg (Vorbis, Opus or Ogg FLAC)"},
    {4, "ftyp", 4, "MP4 or M4A"},
    {0, "FORM", 4, "AIFF"},
    {0, ".snd", 4, "AU"},
    {0, "caff", 4, "CAF"},
    {0, "RF64", 4, "RF64 (WAV above 4 GB)"},
    {0, "RIFX", 4, "RIFX (WAV with the bytes the other way round)"},
    {0, "riff\x2e\x91\xcf\x11", 8, "Wave64"},
    {8, "AVI ", 4, "AVI"},
    {8, "WEBP", 4, "a WebP picture"},
    {0, "#!AMR", 5, "AMR"},
    {0, "wvpk", 4, "WavPack"},
    {0, "MAC ", 4, "Monkey's Audio"},
    {0, "MThd", 4, "MIDI"},
    {0, "\x1a\x45\xdf\xa3", 4, "Matroska or WebM"},
    {0, "\x30\x26\xb2\x75", 4, "WMA or ASF"},
    {0, "\x89PNG", 4, "a PNG picture"},
    {0, "\xff\xd8\xff", 3, "a JPEG picture"},
    {0, "GIF8", 4, "a GIF picture"},
    {0, "%PDF", 4, "PDF"},
    {0, "PK\x03\x04", 4, "ZIP"},
    {0, "\x1f\x8b", 2, "gzip"},
};

const char *ph_audio_sniff(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= known[i].at + known[i].n && !memcmp(bytes + known[i].at, known[i].mark, known[i].n))
            return known[i].name;
    /* A frame of MPEG audio (11 set bits; layer 0 is ADTS) has no mark but its first bytes. */
    if (n >= 2 && bytes[0] == 0xff && (bytes[1] & 0xe0) == 0xe0) return (bytes[1] & 0x06) ? "MP3" : "AAC";
    return NULL;
}
