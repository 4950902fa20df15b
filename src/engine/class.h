/* class.h - what an engine computes on: the router's rule goes by it (route.h). */
#ifndef PH_ENGINE_CLASS_H
#define PH_ENGINE_CLASS_H

typedef enum ph_engine_class {
    PH_ENGINE_CPU,
    PH_ENGINE_GPU,
    PH_ENGINE_NPU,
    PH_N_ENGINE_CLASSES
} ph_engine_class;

/* An engine's name, with a device's behind it: "ort:NvTensorRTRTXExecutionProvider:gpu"; with the zero. */
enum { PH_ENGINE_NAME = 80 };

const char *ph_engine_class_name(ph_engine_class c); /* "cpu", "gpu", "npu" */

#endif
