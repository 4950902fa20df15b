/* case.h - kinds of reference cases, and how one reports what it found.  Only measure/ includes this.
 *
 *     if (ph_case_begin(r, "%s", name))          0: filtered out
 *         ph_case_end(r, check(r, ..., &err), &err);
 *
 *     check() calls ph_figure() for each number that it compares, or ph_case_skip() once.
 */
#ifndef PH_MEASURE_CASE_H
#define PH_MEASURE_CASE_H

#include "base/arena.h"
#include "engine/ort/ort.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "measure/verify.h"
#include "model/model.h"

typedef struct ph_report     ph_report;
typedef struct ph_onnx_guest ph_onnx_guest; /* onnx_guest.h */

typedef struct ph_case_kind {
    const char *name;
    const char *what; /* one line: what is compared */
    /* 1 when this folder holds cases of this kind: decided by the files in it. */
    int (*claims)(const char *dir);
    /* Run them all.  Whatever goes wrong is a failed case, never the end of the run. */
    void (*run)(ph_report *r, const char *dir);
    int has_engines; /* its cases run on the engine asked for, and on two to compare them */
    int has_parts;   /* 1: its cases run parts of models on engines; 2: on two, to compare them, too */
} ph_case_kind;

#define PH_CASE(name) extern const ph_case_kind ph_case_##name;
#include "measure/case.def"
#undef PH_CASE

/* ---- the report ---- */
struct ph_report {
    const ph_verify_options *how;
    ph_verify_sink          *sink;
    void                    *arg;
    ph_verify_sum            sum;
    size_t                   left_out; /* by the filter: cases, or models with all of theirs */
    const ph_case_kind      *kind;
    const char              *folder;  /* for messages */
    const ph_onnx_guest     *guest;   /* a library of others that was asked for; NULL: none */
    void                    *library; /* its handle */
    ph_ort_ep                ep[PH_VERIFY_EPS_MAX];
    size_t                   n_eps;
    /* The case that is being run. */
    char       name[160];
    ph_verdict verdict;
    char       reason[600], notes[400], worst[96];
    int        n_figures;
    double     value, tolerance, share; /* of the worst figure; share: value / tolerance */
};

int  ph_case_begin(ph_report *r, const char *name, ...) __attribute__((format(printf, 2, 3)));
void ph_case_end(ph_report *r, ph_rc rc, const ph_err *err); /* rc: what the check returned */
void ph_case_skip(ph_report *r, const char *why, ...) __attribute__((format(printf, 2, 3)));
void ph_case_fail(ph_report *r, const char *why, ...) __attribute__((format(printf, 2, 3)));
void ph_case_note(ph_report *r, const char *what, ...) __attribute__((format(printf, 2, 3)));

/* value is within tolerance, or the case has failed; NaN is not within anything. */
void ph_figure(ph_report *r, double value, double tolerance, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- reference files ---- */

/* dir/name into out[size].  Errors: PH_EFORMAT a name that leads elsewhere; PH_ELIMIT too long. */
ph_rc ph_golden_path(char *out, size_t size, const char *dir, const char *name, ph_err *err);
ph_rc ph_golden_json(ph_json_doc *doc, const char *dir, const char *name, ph_err *err);
int   ph_golden_has(const char *dir, const char *name); /* a file */
/* The JSON file dir/name is there and its root has this member. */
int ph_golden_json_has(const char *dir, const char *name, const char *key);

/* The model that lies in dir: dir itself if it has a config.json; else its one .gguf, with the one that is
 * called mmproj-*.gguf as its vision part; of a split file (-00001-of-00003.gguf) the first part counts.
 * Errors: PH_EPATH there is none; PH_EMISMATCH there are two, naming both; those of opening. */
int   ph_golden_has_model(const char *dir);
ph_rc ph_golden_open_model(ph_model **m, const char *dir, ph_err *err);

typedef struct ph_tensors {
    ph_arena       arena;
    ph_safetensors file;
} ph_tensors;
ph_rc ph_tensors_open(ph_tensors *t, const char *dir, const char *name, ph_err *err);
void  ph_tensors_close(ph_tensors *t); /* accepts a zeroed one */
/* Errors: PH_EMISMATCH no such tensor. */
ph_rc ph_tensors_get(const ph_tensors *t, const ph_weight **w, const char *name, ph_err *err);

size_t ph_ref_count(const ph_weight *w); /* elements */
/* Element i; integers of any width, booleans, or F32.  The bytes need not be aligned. */
double ph_ref_at(const ph_weight *w, size_t i);

/* The largest |ours - reference| over ours[n] against the elements from `first` on; largest |reference| too.
 * Equal infinities and two NaNs differ by 0, one NaN by infinity. */
typedef struct ph_gap {
    double diff, mean, scale; /* scale: max |reference| */
} ph_gap;
ph_gap ph_gap_floats(const float *ours, size_t n, const ph_weight *ref, size_t first);
ph_gap ph_gap_bytes(const uint8_t *ours, size_t n, const ph_weight *ref, size_t first);

/* ours[n] against a whole tensor; another count of elements is an error: PH_EMISMATCH with both. */
ph_rc ph_same_count(size_t n, const ph_weight *ref, ph_err *err);

/* Ids one by one: the figure is how many differ, lengths included; the first difference is the reason. */
void ph_figure_ids(ph_report *r, const int32_t *ours, size_t n, const int32_t *ref, size_t n_ref,
                   const char *what);
/* Bytes in the same way. */
void ph_figure_text(ph_report *r, const void *ours, size_t n, const void *ref, size_t n_ref,
                    const char *what);

/* The integers of a JSON array, or of a tensor, carved from arena. */
ph_rc ph_golden_ids(ph_arena *a, const ph_json *array, int32_t **ids, size_t *n, ph_err *err);
ph_rc ph_ref_ids(ph_arena *a, const ph_weight *w, int32_t **ids, size_t *n, ph_err *err);

/* A case of float planes resized (interpolate.c): item's input_tensor to its tensor, as `op` says. */
ph_rc ph_case_interpolate(ph_report *r, const ph_tensors *t, const ph_json *item, const char *op,
                          ph_arena *arena, ph_err *err);

#endif
