/* lanes.h - the kernels of every vector set, written once over a small vocabulary.
 *
 * A set's one .c file defines the words below for its registers and includes this
 * file last; each kernel then comes out in that set's instructions.  A set that
 * knows something better for one kernel overwrites the slot after install().
 *
 *   W, TILE_ROWS, TILE_COLS   lanes of a vf; shape of the product's register tile
 *   vf vm vd                  W floats; a mask of W; W doubles' worth of running sum
 *   v_load v_store            W floats at any address;  _n: the first n < W, the rest 0 / untouched
 *   v_load_f16 v_load_bf16 v_load_i8, v_load_field(p, shift, mask)
 *                             W narrow numbers, widened; field: (byte >> shift) & mask
 *   v_fma(a, b, c)            a b + c, rounded once
 *   v_like(a, s)              a >= 0 with the sign of s
 *   v_atleast(c, a) v_atmost  clamp a; a NaN in a stays
 *   v_maxnum(a, most)         the larger; a NaN in a is ignored
 *   v_round, v_ldexp(a, n)    to nearest even; a 2^n for -151 <= n <= 128, rounded once
 *   v_rms(a[W], n, eps)       lane i: 1 / sqrt(vd_sum(a[i]) / n + eps), in double
 *   v_sum                     all lanes, in an order fixed for the set
 *   v_sums(a[W])              lane i: v_sum(a[i]), the same bits
 *   v_transpose(a[W])         in place: lane i of a[j] to lane j of a[i]
 *   v_once                    a, in a register: the compiler may not load it again for each use
 *   v_twice(p) v_swap         p0 p0 p1 p1 ...; neighbours exchanged
 *
 * Why the results do not depend on the split: a product is one vector of sums per
 * output, walked along k in steps of W, in every tile shape; an elementwise tail
 * runs through the same vector function as the body.
 */
#ifndef PH_KERNELS_LANES_LANES_H
#define PH_KERNELS_LANES_LANES_H

#include "base/asan.h"
#include "base/cpu.h"
#include "kernels/inline.h"

#include <float.h>
#include <math.h>

#include "kernels/lanes/lanes_act.h"
#include "kernels/lanes/lanes_attend.h"
#include "kernels/lanes/lanes_block.h"
#include "kernels/lanes/lanes_linear.h"
#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_move.h"
#include "kernels/lanes/lanes_norm.h"

static void install(ph_kernels *k) {
    k->linear_F32 = linear_F32, k->linear_F16 = linear_F16, k->linear_BF16 = linear_BF16;
    k->linear_Q8_0 = linear_Q8_0, k->linear_Q4_0 = linear_Q4_0, k->linear_Q4_1 = linear_Q4_1;
    k->linear_Q4_K = linear_Q4_K, k->linear_Q6_K = linear_Q6_K;
    k->attend_F32 = attend_F32, k->attend_F16 = attend_F16, k->attend_BF16 = attend_BF16;
    k->attend_Q8_0 = attend_Q8_0, k->attend_Q4_1 = attend_Q4_1, k->attend_rows = attend_rows;
    k->rmsnorm = rmsnorm, k->layernorm = layernorm, k->softmax = softmax, k->gate = gate_pick;
    k->silu = act_silu, k->gelu = act_gelu, k->gelu_tanh = act_gelu_tanh, k->gelu_quick = act_gelu_quick;
    k->relu = act_relu, k->sigmoid = act_sigmoid, k->tanh = act_tanh;
    k->add = add, k->mul = mul, k->add_row = add_row, k->scale = scale;
    k->rope = rope, k->rmsnorm_rope = rmsnorm_rope, k->argmax = argmax, k->f16_of = f16_of,
    k->f32_of_f16 = f32_of_f16;
}

#endif
