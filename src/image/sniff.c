/* sniff.c - names for pictures (and other files) that pinhole does not read.
 *
 * A refusal that says "this is HEIC" can be acted on; "bad image" cannot.  Only
 * names are told here: nothing is decoded, and nothing read is listed here.
 */
#include "image/image.h"

#include <string.h>

typedef struct mark {
    const char *name;
    size_t      at; /* bytes from the start */
    const char *bytes;
    size_t      n;
} mark;

#define MARK(name, at, bytes)                                                                                \
    { name, at, bytes, sizeof(bytes) - 1 }

/* Longer and more special marks first. */
static const mark marks[] = {
    MARK("TIFF", 0, "II*\0"),
    MARK("TIFF", 0, "MM\0*"),
    MARK("BigTIFF", 0, "II+\0"),
    MARK("BigTIFF", 0, "MM\0+"),
    MARK("AVIF", 4, "ftypavif"),
    MARK("AVIF", 4, "ftypavis"),
    MARK("HEIC", 4, "ftypheic"),
    MARK("HEIC", 4, "ftypheix"),
    MARK("HEIC", 4, "ftyphevc"),
    MARK("HEIC", 4, "ftyphevx"),
    MARK("HEIF", 4, "ftypmif1"),
    MARK("HEIF", 4, "ftypmsf1"),
    MARK("Canon raw (CR3)", 4, "ftypcrx "),
    MARK("QuickTime video", 4, "ftypqt  "),
    MARK("MP4 video", 4, "ftyp"),
    MARK("JPEG XL", 0, "\xff\x0a"),
    MARK("JPEG XL", 0, "\0\0\0\x0cJXL \r\n\x87\n"),
    MARK("JPEG 2000", 0, "\0\0\0\x0cjP  \r\n\x87\n"),
    MARK("JPEG 2000", 0, "\xff\x4f\xff\x51"),
    MARK("JPEG-LS", 0, "\xff\xd8\xff\xf7"),
    MARK("JPEG XR", 0, "II\xbc\x01"),
    MARK("Photoshop", 0, "8BPS"),
    MARK("Windows icon", 0, "\0\0\1\0"),
    MARK("Windows cursor", 0, "\0\0\2\0"),
    MARK("OpenEXR", 0, "\x76\x2f\x31\x01"),
    MARK("Radiance HDR", 0, "#?RADIANCE"),
    MARK("Radiance HDR", 0, "#?RGBE"),
    MARK("DDS", 0, "DDS "),
    MARK("KTX", 0, "\xabKTX "),
    MARK("QOI", 0, "qoif"),
    MARK("FLIF", 0, "FLIF"),
    MARK("BPG", 0, "BPG\xfb"),
    MARK("farbfeld", 0, "farbfeld"),
    MARK("Apple icon", 0, "icns"),
    MARK("MNG", 0, "\x8aMNG"),
    MARK("XCF (GIMP)", 0, "gimp xcf"),
    MARK("DICOM", 128, "DICM"),
    MARK("PDF", 0, "%PDF-"),
    MARK("PostScript", 0, "%!PS"),
    MARK("AVI video", 8, "AVI "),
    MARK("WAV audio", 8, "WAVE"),
    MARK("WebM or Matroska video", 0, "\x1a\x45\xdf\xa3"),
    MARK("Ogg", 0, "OggS"),
    MARK("MP3 audio", 0, "ID3"),
    MARK("FLAC audio", 0, "fLaC"),
    MARK("zip archive", 0, "PK\3\4"),
    MARK("gzip archive", 0, "\x1f\x8b"),
    MARK("xz archive", 0,
         "\xfd"
         "7zXZ"),
    MARK("zstd archive", 0, "\x28\xb5\x2f\xfd"),
    MARK("7-zip archive", 0, "7z\xbc\xaf"),
    MARK("ELF program", 0,
         "\x7f"
         "ELF"),
    MARK("GGUF model", 0, "GGUF"),
};

static int is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Is the text word within the first limit bytes, case aside? */
static int has_word(const uint8_t *bytes, size_t n, size_t limit, const char *word) {
    size_t len = strlen(word);
    if (n > limit) n = limit;
    for (size_t i = 0; i + len <= n; i++) {
        size_t j = 0;
        while (j < len && (bytes[i + j] | 32) == (uint8_t)(word[j] | 32)) j++;
        if (j == len) return 1;
    }
    return 0;
}

/* "P6\n..." and its kin: the letter, then white space or a comment. */
static const char *netpbm(const uint8_t *bytes, size_t n) {
    static const char *const names[] = {"PBM", "PGM", "PPM", "PBM", "PGM", "PPM", "PAM"};
    if (n < 3 || bytes[0] != 'P' || !(is_space(bytes[2]) || bytes[2] == '#')) return NULL;
    if (bytes[1] == 'F' || bytes[1] == 'f') return "PFM";
    return bytes[1] >= '1' && bytes[1] <= '7' ? names[bytes[1] - '1'] : NULL;
}

static const char *text(const uint8_t *bytes, size_t n) {
    size_t i = n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < n && is_space(bytes[i])) i++;
    if (i < n && bytes[i] == '<') {
        if (has_word(bytes, n, 1024, "<svg")) return "SVG";
        if (has_word(bytes, n, 1024, "<html") || has_word(bytes, n, 1024, "<!doctype")) return "HTML";
        return "XML";
    }
    if (n > 512) n = 512;
    for (i = 0; i < n; i++)
        if (bytes[i] < 32 && !is_space(bytes[i])) return NULL;
    return "plain text";
}

const char *ph_image_sniff(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const mark *m = &marks[i];
        if (n >= m->at + m->n && !memcmp(bytes + m->at, m->bytes, m->n)) return m->name;
    }
    const char *name = netpbm(bytes, n);
    return name ? name : n ? text(bytes, n) : NULL;
}
