/* memory_peak.c - a plan's kinds by phase, as numbers, DOT and SVG.  See memory_peak.h. */
#include "measure/memory_peak.h"

#include "base/file.h"
#include "base/locale.h"
#include "base/mem.h"
#include "formats/produce.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The six, then what stands beside them. */
static const struct {
    const char *kind, *what;
    size_t      at; /* within ph_memory */
    const char *colour;
} kinds[] = {
#define PH_MEMORY_PEAK(kind, what) {#kind, what, offsetof(ph_memory, kind), NULL},
#include "measure/memory_peak.def"
#undef PH_MEMORY_PEAK
    {"kv", "keys and values of the context", offsetof(ph_memory, kv), "#8c8c8c"},
    {"tokenizer", "its tables", offsetof(ph_memory, tokenizer), "#b4b4b4"},
    {"base", "the process itself", offsetof(ph_memory, base), "#d9d9d9"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Okabe and Ito's, which people who see colours otherwise can tell apart too. */
static const char *colour(size_t kind) {
    static const char *const six[] = {"#56b4e9", "#e69f00", "#0072b2", "#d55e00", "#f0e442", "#009e73"};
    return kinds[kind].colour ? kinds[kind].colour : six[kind % (sizeof six / sizeof *six)];
}

static size_t bytes_of(const ph_memory *m, size_t kind) {
    return *(const size_t *)(const void *)((const char *)m + kinds[kind].at);
}

static ph_memory_peak peak_of(const ph_plan *p, size_t kind) {
    ph_memory_peak peak = {.kind = kinds[kind].kind, .what = kinds[kind].what};
    for (int i = 0; i < PH_N_PHASES; i++) {
        size_t n = bytes_of(&p->phase[i], kind);
        if (n <= peak.bytes) continue;
        peak.bytes = n;
        peak.phase = (ph_phase)i;
    }
    return peak;
}

void ph_memory_peaks(const ph_plan *p, ph_memory_peak out[PH_N_MEMORY_PEAKS]) {
    for (size_t k = 0; k < PH_N_MEMORY_PEAKS; k++) out[k] = peak_of(p, k);
}

void ph_memory_beside(const ph_plan *p, ph_memory_peak out[PH_N_MEMORY_BESIDE]) {
    for (size_t k = PH_N_MEMORY_PEAKS; k < N_KINDS; k++) out[k - PH_N_MEMORY_PEAKS] = peak_of(p, k);
    out[PH_N_MEMORY_BESIDE - 1] = (ph_memory_peak){
        .kind = "total", .what = "all of that phase", .bytes = p->peak.total, .phase = p->peak_phase};
}
_Static_assert(PH_N_MEMORY_BESIDE == N_KINDS - PH_N_MEMORY_PEAKS + 1,
               "those that stand beside, and the total");

/* ---- writing ---- */

typedef struct pen {
    ph_write_fn *write;
    void        *arg;
} pen;

static void put(const pen *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const pen *to, const char *fmt, ...) {
    char    text[512];
    va_list more;
    va_start(more, fmt);
    int n = ph_plain_vprint(text, sizeof text, fmt, more);
    va_end(more);
    if (n > 0) to->write(to->arg, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static int is_peak(const ph_memory_peak *peaks, size_t kind, int phase) {
    return kind < PH_N_MEMORY_PEAKS && peaks[kind].bytes && (int)peaks[kind].phase == phase;
}

void ph_memory_dot(const ph_plan *p, ph_write_fn *write, void *arg) {
    const pen      to = {write, arg};
    ph_memory_peak peaks[PH_N_MEMORY_PEAKS];
    char           size[32];
    ph_memory_peaks(p, peaks);
    put(&to, "digraph memory {\n  rankdir=LR;\n  node [shape=plain, fontname=\"sans-serif\"];\n");
    for (int i = 0; i < PH_N_PHASES; i++) {
        ph_size_print(size, sizeof size, p->phase[i].total);
        put(&to,
            "  %s [label=<<TABLE CELLBORDER=\"0\" BORDER=\"%d\"><TR><TD ALIGN=\"LEFT\">%s</TD><TD "
            "ALIGN=\"RIGHT\">%s</TD></TR>\n",
            ph_phase_name[i], (ph_phase)i == p->peak_phase ? 3 : 1, ph_phase_name[i], size);
        for (size_t k = 0; k < N_KINDS; k++) {
            int bold = is_peak(peaks, k, i);
            ph_size_print(size, sizeof size, bytes_of(&p->phase[i], k));
            put(&to, "    <TR><TD ALIGN=\"LEFT\">%s</TD><TD ALIGN=\"RIGHT\">%s%s%s</TD></TR>\n",
                kinds[k].kind, bold ? "<B>" : "", size, bold ? "</B>" : "");
        }
        put(&to, "  </TABLE>>];\n");
    }
    for (int i = 0; i + 1 < PH_N_PHASES; i++)
        put(&to, "  %s -> %s;\n", ph_phase_name[i], ph_phase_name[i + 1]);
    put(&to, "}\n");
}

/* ---- a picture ---- */

enum { LEFT = 70, TOP = 24, BAR = 26, GAP = 14, WIDE = 560, LINE = 18 };

static void bar(const pen *to, const ph_plan *p, int phase, double scale) {
    const ph_memory *m = &p->phase[phase];
    double           x = LEFT;
    int              y = TOP + phase * (BAR + GAP);
    char             size[32];
    put(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + BAR - 8,
        ph_phase_name[phase]);
    for (size_t k = 0; k < N_KINDS; k++) {
        double wide = (double)bytes_of(m, k) * scale;
        if (wide <= 0) continue;
        ph_size_print(size, sizeof size, bytes_of(m, k));
        put(to,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s, %s: "
            "%s</title></rect>\n",
            x, y, wide, BAR, colour(k), ph_phase_name[phase], kinds[k].kind, size);
        x += wide;
    }
    ph_size_print(size, sizeof size, m->total);
    put(to, "<text x=\"%.2f\" y=\"%d\"%s>%s</text>\n", x + 6, y + BAR - 8,
        (ph_phase)phase == p->peak_phase ? " font-weight=\"bold\"" : "", size);
}

static void legend(const pen *to, const ph_memory_peak *peaks, size_t kind, int y) {
    char size[32];
    put(to, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", LEFT, y - 10, colour(kind));
    if (kind >= PH_N_MEMORY_PEAKS) {
        put(to, "<text x=\"%d\" y=\"%d\">%s: %s</text>\n", LEFT + 18, y, kinds[kind].kind, kinds[kind].what);
        return;
    }
    ph_size_print(size, sizeof size, peaks[kind].bytes);
    put(to, "<text x=\"%d\" y=\"%d\">%s: at most %s, in %s (%s)</text>\n", LEFT + 18, y, kinds[kind].kind,
        size, ph_phase_name[peaks[kind].phase], kinds[kind].what);
}

void ph_memory_svg(const ph_plan *p, ph_write_fn *write, void *arg) {
    const pen      to = {write, arg};
    ph_memory_peak peaks[PH_N_MEMORY_PEAKS];
    size_t         most = 1;
    int            under = TOP + PH_N_PHASES * (BAR + GAP) + LINE, high = under + N_KINDS * LINE + 8;
    ph_memory_peaks(p, peaks);
    for (int i = 0; i < PH_N_PHASES; i++)
        if (p->phase[i].total > most) most = p->phase[i].total;
    put(&to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        LEFT + WIDE + 100, high);
    for (int i = 0; i < PH_N_PHASES; i++) bar(&to, p, i, (double)WIDE / (double)most);
    for (size_t k = 0; k < N_KINDS; k++) legend(&to, peaks, k, under + (int)k * LINE);
    put(&to, "</svg>\n");
}

/* ---- a file ---- */

ph_rc ph_memory_may_draw(const char *path, ph_err *err) {
    if (ph_name_ends_with(path, ".dot") || ph_name_ends_with(path, ".svg")) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "a picture of memory is a .dot or a .svg file, not '%.200s'", path);
}

static void to_file(void *arg, const char *text, size_t n) {
    fwrite(text, 1, n, arg);
}

ph_rc ph_memory_draw(const ph_plan *p, const char *path, ph_err *err) {
    ph_part_file f;
    PH_TRY(ph_memory_may_draw(path, err));
    PH_TRY(ph_part_open_through(&f, path, err));
    if (ph_name_ends_with(path, ".dot"))
        ph_memory_dot(p, to_file, f.to);
    else
        ph_memory_svg(p, to_file, f.to);
    ph_rc rc = ferror(f.to) ? PH_FAIL(err, PH_EIO, "%s cannot be written: %s", path, strerror(errno)) : PH_OK;
    return ph_part_close(&f, rc, err);
}
