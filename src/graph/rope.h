/* rope.h - the frequencies and angles of rotary positions, for RopeAngles and for the engines that lower it.
 *
 *     node attributes -> ph_rope -> inv_freq [dim/2], factor -> cos, sin [R, dim/2]
 *
 * All arithmetic is f32 where the reference's is, so that angles agree to the last bit or two.
 * Source: transformers 4.57, modeling_rope_utils.py; YaRN arXiv:2309.00071; M-RoPE arXiv:2409.12191 §2.1.
 */
#ifndef PH_GRAPH_ROPE_H
#define PH_GRAPH_ROPE_H

#include "graph/graph.h"
#include "graph/kv.h"

/* Attributes of pinhole.RopeAngles, by kind ("scaling"):
 *   all      dim (int, even: rotated elements of a head), theta (float),
 *            mrope (ints: t, h, w sections that sum to dim/2; missing: one position),
 *            restart (int: 1: each section counts its frequencies from 0, over twice its own length: the
 *            2-D rope of vision towers), attention_factor (float; missing or 0: the kind's own)
 *   none     -
 *   linear   factor
 *   llama3   factor, low_freq_factor, high_freq_factor, original_context (int)
 *   yarn     factor, original_context, beta_fast (32), beta_slow (1), mscale, mscale_all_dim,
 *            truncate (int, 1)
 *   factors  freq_factors (floats [dim/2]): each wavelength is stretched by its own (longrope; GGUF's
 *            rope_freqs)
 */
typedef enum ph_rope_kind {
    PH_ROPE_NONE,
    PH_ROPE_LINEAR,
    PH_ROPE_LLAMA3,
    PH_ROPE_YARN,
    PH_ROPE_FACTORS,
    PH_N_ROPE_KINDS
} ph_rope_kind;
extern const char *const ph_rope_kind_name[PH_N_ROPE_KINDS];

typedef struct ph_rope {
    int           dim;
    double        theta;
    ph_rope_kind  kind;
    double        factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
    double        attention_factor; /* 0: the kind's own */
    int64_t       original_context;
    int           is_truncated;
    const double *freq_factors; /* [dim/2], borrowed from the node */
    int           section[3];   /* M-RoPE; all 0: PH_ROW_POS_T for every frequency */
    int           is_restarted; /* sections have frequencies of their own */
} ph_rope;

/* Errors: PH_EUNSUP an unknown kind (lists the known); PH_EMISMATCH a parameter that makes no sense. */
ph_rc ph_rope_of_node(ph_rope *rope, const ph_node *n, ph_err *err);
/* inv_freq: [dim/2].  Returns what cos and sin are multiplied with (1 but for yarn and attention_factor). */
float ph_rope_frequencies(const ph_rope *rope, float *inv_freq);
/* One row of the rows input to its cos, sin [dim/2]. */
void ph_rope_row(const ph_rope *rope, const float *inv_freq, float factor, const int32_t *row, float *cos_out,
                 float *sin_out);

#endif
