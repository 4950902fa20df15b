/* openvino_engine.h - inside the engine "openvino": graphs of ours as compiled models of OpenVINO.
 *
 *     graph ─► ONNX bytes, weights by address ─► compiled ─► inputs and outputs over the plan's memory ─► run
 *
 * A model runs as one step.  OpenVINO copies each weight, and packs most of them beside the copy; what a run
 * works in it keeps for the next one.  Both are measured, and estimates before.  Only engine/openvino/ and
 * its tests include this.
 */
#ifndef PH_ENGINE_OPENVINO_OPENVINO_ENGINE_H
#define PH_ENGINE_OPENVINO_OPENVINO_ENGINE_H

#include "engine/guest.h"
#include "engine/openvino/openvino_model.h"

typedef struct ph_openvino_engine { /* a ph_engine */
    ph_engine    base;
    ph_openvino *openvino;
} ph_openvino_engine;

typedef struct ph_openvino_program { /* a ph_guest */
    ph_guest           guest;
    ph_openvino_model *model; /* NULL: only planned */
    ph_onnx_exported   exported;
    int                has_run;
    ph_onnx_memory     given; /* the weights that were made for it, where OpenVINO may read them later */
} ph_openvino_program;

/* openvino_engine.c: more pages of the library were touched, by opening a model or by its first run. */
void ph_openvino_note_code(size_t bytes);

/* openvino_compile.c */
ph_rc ph_openvino_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out,
                          ph_err *err);
void  ph_openvino_close_program(ph_program *p);

/* openvino_step.c */
ph_rc ph_openvino_step(ph_program *p, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                       ph_err *err);

#endif
