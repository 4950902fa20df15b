/* cmd_convert.h - what convert and quantize say alike. */
#ifndef PH_CLI_CMD_CONVERT_H
#define PH_CLI_CMD_CONVERT_H

#include "convert/convert.h"

/* Progress on standard error; arg: an int, not 0 for silence. */
void ph_cli_convert_progress(void *arg, size_t done, size_t n, const char *name);
void ph_cli_convert_report(const ph_convert *c, const ph_convert_report *r, int is_json);

#define PH_CLI_SHARD_BYTES 5000000000 /* as Hugging Face's own tools cut */
/* Where --shard-size was given for what is one file.  Errors: PH_EUSAGE. */
ph_rc ph_cli_convert_shards(const ph_convert *c, ph_err *err);
#define PH_CLI_NAMES_HELP                                                                                    \
    "whose names tensors get: gguf (other programs') or huggingface; default: gguf where all have one"
/* --names into c; NULL: the default.  Errors: PH_EUSAGE another word. */
ph_rc ph_cli_convert_names(ph_convert *c, const char *names, ph_err *err);

#endif
