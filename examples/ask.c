/* ask.c - ask about a picture with libpinhole, the answer printed as it comes.
 *
 *     make install                         (as root)
 *     cc -o ask examples/ask.c $(pkg-config --cflags --libs pinhole)
 *     ./ask models/panel-vlm examples/panel1.png "what is on the display?"
 *
 * Without root: make install PREFIX=$HOME/.local, and before the other two lines
 *
 *     export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig LD_LIBRARY_PATH=$HOME/.local/lib
 *
 * The model is a Hugging Face directory, or a .gguf file; the vision part of a .gguf goes into
 * pinhole_model_options.mmproj.  Every call that can fail gives a code, and fills `error` with what is wrong,
 * where, and what to do; its exit_code is the one that the pinhole command ends with.
 */
#include <pinhole.h>
#include <stdio.h>
#include <stdlib.h>

static int print_piece(void *arg, const char *bytes, size_t n) {
    fwrite(bytes, 1, n, arg);
    return fflush(arg) != 0; /* nobody reads any more: end the answer */
}

static unsigned char *read_file(const char *path, size_t *n) {
    FILE          *f = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long           size;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET))
        bytes = malloc((size_t)size);
    *n = bytes ? fread(bytes, 1, (size_t)size, f) : 0;
    fclose(f);
    return bytes;
}

static int complain(const pinhole_error *error) {
    fprintf(stderr, "ask: %s\n", error->message);
    for (int i = 0; i < error->n_notes; i++) fprintf(stderr, "  %s\n", error->note[i]);
    return error->exit_code;
}

int main(int argc, char **argv) {
    pinhole_model          *model = NULL;
    pinhole_session        *session = NULL;
    pinhole_conversation   *talk = NULL;
    const pinhole_answer   *answer;
    pinhole_error           error = {0};
    pinhole_session_options room = {.size = sizeof room};
    pinhole_plan            plan = {.size = sizeof plan};
    pinhole_asking          how = {.size = sizeof how, .answer_max = 200, .sink = print_piece, .arg = stdout};
    size_t                  n_picture = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: ask MODEL PICTURE QUESTION\n");
        return 2;
    }
    unsigned char *picture = read_file(argv[2], &n_picture);
    if (!picture) {
        fprintf(stderr, "ask: %s cannot be read, or is empty\n", argv[2]);
        return 3;
    }
    const pinhole_part parts[] = {{PINHOLE_PICTURE, picture, n_picture, argv[2]},
                                  {PINHOLE_TEXT, argv[3], PINHOLE_WHOLE, NULL}};

    /* The plan comes first: nothing is loaded yet, and it says what answering will hold. */
    int rc = pinhole_model_open(&model, argv[1], NULL, &error);
    if (!rc) rc = pinhole_plan_memory(model, &room, &plan, &error);
    if (!rc) fprintf(stderr, "will hold %.1f MB at its peak\n", (double)plan.peak.total / 1e6);
    if (!rc) rc = pinhole_session_open(&session, model, &room, &error);
    if (!rc) rc = pinhole_conversation_open(&talk, session, &error);
    if (!rc) rc = pinhole_ask(talk, parts, 2, &how, &answer, &error);
    if (!rc) {
        print_piece(stdout, "\n", 1);
        fprintf(stderr, "%d tokens of prompt, %d of them for the picture; held %.1f MB\n",
                answer->prompt_tokens, answer->image_tokens, (double)answer->measured_peak / 1e6);
    }
    int status = rc ? complain(&error) : 0;
    pinhole_conversation_close(talk);
    pinhole_session_close(session);
    pinhole_model_close(model);
    free(picture);
    return status;
}
