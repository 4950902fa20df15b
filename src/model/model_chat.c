/* model_chat.c - the chat template of a checkpoint, or the form that its family is used with. */
#include "model/model_impl.h"
