/* cmd_inspect.c - what is in a model, what it would hold, and whether that fits: before anything is loaded.
 */
#include "cli/command.h"

#include "base/mem.h"
#include "base/printable.h"
#include "cli/list.h"
#include "flow/bundle_plan.h"
#include "flow/session.h"
#include "graph/op.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct job {
    ph_cli         cli;
    uint64_t       budget;
    const char    *dot, *graph, *size, *axes, *pipeline;
    int            is_graph, is_svg, shows_tensors, is_known, is_engines;
    ph_plan        plan;
    ph_route       route;
    ph_bundle_plan kept, now; /* of a bundle: the plan in it, and the same made here */
    int            has_kept, is_same;
    char           differs[160];
    int            image_tokens; /* of the planned picture; 0: it takes none */
    ph_cli_plugins plugins;
    ph_option      shared[2][PH_CLI_ROWS_MAX]; /* of a model, and of a session */
} job;

static void bytes(char out[32], size_t n) {
    ph_size_print(out, 32, n);
}

static void print_memory(const job *j) {
    const ph_plan   *p = &j->plan;
    const ph_memory *m = &p->peak;
    const ph_load   *l = &p->load;
    char             decoder[32];
    printf("\nmemory for %d token%s of context, %d sequence%s, %d image%s a prompt, chunks of %d, %d "
           "thread%s:\n",
           l->context, l->context == 1 ? "" : "s", l->sequences, l->sequences == 1 ? "" : "s", l->images,
           l->images == 1 ? "" : "s", l->chunk, l->threads, l->threads == 1 ? "" : "s");
    if (j->image_tokens) printf("  a picture takes %d tokens of it\n", j->image_tokens);
    if (l->beside)
        printf("  a picture is seen while the answer before is said: both sides' scratch, features of %d "
               "questions\n",
               l->beside);
    if (l->ahead) printf("  and the pictures of the next one are decoded meanwhile\n");
    ph_cli_print_size("input", m->input, "pictures, tiles, ids, rows; padding");
    ph_cli_print_size("activations", m->activations, "values between steps");
    ph_cli_print_size("weights", m->weights, "pages of the files that are read");
    ph_cli_print_size("engine", m->engine, "workers' scratch, programs, widened norms");
    ph_cli_print_size("reserve", m->reserve, "rest of the cache's pages, for lengths that vary");
    ph_cli_print_size("pools", m->pools, "visual tokens, sampling, a turn's tables");
    ph_cli_print_size("kv", m->kv, "keys and values of the context");
    ph_cli_print_size("tokenizer", m->tokenizer, "its tables");
    ph_cli_print_size("base", m->base, "the process itself");
    ph_cli_print_size("total", m->total,
                      p->is_estimate ? "an estimate: what an engine's library takes is measured when it runs"
                                     : "");
    printf("  the peak is the phase '%s'\n", ph_phase_name[p->peak_phase]);
    if (!j->cli.opened->video_recipe.kind) return;
    bytes(decoder, PH_VIDEO_MEMORY);
    printf("  not in it: a video's decoder, a process that ends before answering, of at most %s beside its "
           "libraries\n",
           decoder);
}

/* What a bundle says of itself, which need not be true here: it may have been made elsewhere. */
static void print_kept(const job *j) {
    const ph_memory *m = &j->kept.memory;
    const ph_load   *l = &j->kept.load;
    const struct {
        const char *name;
        size_t      n;
    } rows[] = {{"input", m->input},   {"activations", m->activations}, {"weights", m->weights},
                {"engine", m->engine}, {"reserve", m->reserve},         {"pools", m->pools},
                {"kv", m->kv}};
    if (!j->has_kept) return;
    printf("\nplan in the bundle, for %d tokens of context, %d sequence%s, %d image%s a prompt, chunks of "
           "%d, %d thread%s, %s:\n ",
           l->context, l->sequences, l->sequences == 1 ? "" : "s", l->images, l->images == 1 ? "" : "s",
           l->chunk, l->threads, l->threads == 1 ? "" : "s", j->kept.isa);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        bytes(text, rows[i].n);
        printf(" %s %s%s", rows[i].name, text, i + 1 < sizeof rows / sizeof *rows ? "," : "\n");
    }
    if (j->is_same)
        puts("  this program plans the same for that load");
    else
        printf("  this program plans otherwise for that load: %s\n", j->differs);
}

static size_t weight_bytes(const ph_weights *w) {
    size_t sum = 0;
    for (size_t i = 0; i < w->n; i++) sum += w->at[i].n_bytes;
    return sum;
}

static void print_model(const ph_model *m) {
    const ph_decoder *d = &m->spec.text;
    const ph_weights *w = ph_source_weights(&m->source);
    char              size[32];
    bytes(size,
          weight_bytes(w) + (m->source.has_mmproj ? weight_bytes(ph_source_vision_weights(&m->source)) : 0));
    printf("%s\n  family       %s (%s)\n  container    %s, %zu tensors, %s\n", m->source.path,
           m->family->name, m->family->source,
           m->source.bundle.version && m->source.is_gguf ? "bundle of GGUF files"
           : m->source.bundle.version                    ? "bundle with Hugging Face names"
           : m->source.is_gguf                           ? "GGUF"
           : m->source.hf.carrier                        ? "GGUF with Hugging Face names"
                                                         : "safetensors",
           w->n, size);
    printf("  language     %s: %d layers, d %d, %d heads (%d kv) of %d, ff %d, vocabulary %d%s, made for %d "
           "tokens\n",
           m->text_family->name, d->n_layers, d->d_model, d->n_heads, d->n_kv_heads, d->d_head, d->d_ff,
           d->vocab, d->is_tied ? " (tied)" : "", d->context);
    if (ph_tokenizer_mapped(m->tokenizer)) {
        bytes(size, ph_tokenizer_mapped(m->tokenizer));
        printf("  tokenizer    ready-made in the bundle, %s\n", size);
    } else if (m->source.bundle.version) {
        puts("  tokenizer    made of its plain files at each opening");
    }
    if (!m->vision) return;
    const ph_tower  *t = &m->spec.tower;
    const ph_packed *p = &m->spec.packed;
    if (m->cross)
        printf("  cross        %d layers of %d look at what was seen or heard, beside the rows\n",
               m->spec.cross.n_layers, d->n_layers);
    if (m->spec.n_mels) {
        const ph_audio_recipe *r = &m->audio_recipe;
        printf("  hearing      %d layers, d %d, %d heads; %d tokens for %g s\n", t->n_layers, t->d,
               t->n_heads, m->spec.bridge.tokens_per_tile, (double)r->chunk_samples / r->rate);
        printf("  sound        as %s prepares it, %d numbers a frame\n", r->processor, r->n_mels);
        return;
    }
    if (p->merge) {
        printf(
            "  vision       %d layers, d %d, %d heads, packed patches of %d pixels; %d x %d of them a token",
            t->n_layers, t->d, t->n_heads, t->patch, p->merge, p->merge);
        if (p->window) printf(", windows of %d x %d tokens", p->window, p->window);
        printf("\n  pictures     as %s prepares them%s\n", m->recipe.processor,
               m->video_recipe.kind ? ", and videos" : "");
        return;
    }
    printf("  vision       %d of %d layers, d %d, %d heads, patches of %d in tiles of %d pixels; %d tokens a "
           "tile\n",
           t->n_used, t->n_layers, t->d, t->n_heads, t->patch, t->image, m->spec.bridge.tokens_per_tile);
    printf("  pictures     as %s prepares them\n", m->recipe.processor);
}

static void print_tensors(const ph_weights *w) {
    char text[96], name[256];
    for (size_t i = 0; i < w->n; i++) {
        ph_weight_describe(&w->at[i], text, sizeof text);
        ph_printable(name, sizeof name, w->at[i].name, strlen(w->at[i].name));
        printf("  %-64s %s\n", name, text);
    }
}

/* ---- the graph ---- */

static ph_rc print_graph(const job *j, ph_err *err) {
    const ph_model *m = j->cli.opened;
    const ph_graph *all[] = {m->language, m->vision, m->bridge, m->cross};
    const char     *name = j->graph ? j->graph : "language";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i] || strcmp(all[i]->name, name)) continue;
        if (j->is_svg) return ph_cli_draw(all[i], err);
        ph_graph_dot(all[i], ph_cli_write, stdout);
        return PH_OK;
    }
    return PH_FAIL(err, PH_EUSAGE, "this model has no graph '%s'; it has language%s", name,
                   m->cross    ? ", vision, bridge and cross"
                   : m->vision ? ", vision and bridge"
                               : "");
}

/* ---- what it comes to ---- */

static json_t *phases_json(const ph_plan *p) {
    json_t *o = json_object();
    for (int i = 0; i < PH_N_PHASES; i++)
        json_object_set_new(o, ph_phase_name[i], json_integer((json_int_t)p->phase[i].total));
    return o;
}

static json_t *kept_json(const job *j) {
    const ph_load *l = &j->kept.load;
    json_t *o = json_pack("{sI}", "version", (json_int_t)j->cli.opened->source.bundle.version), *memory;
    json_object_set_new(o, "tokenizer",
                        json_string(ph_tokenizer_mapped(j->cli.opened->tokenizer) ? "ready-made" : "plain"));
    if (!j->has_kept) return o;
    memory = ph_cli_memory_json(&j->kept.memory);
    json_object_del(memory, "tokenizer"); /* no part of it */
    json_object_del(memory, "base");
    json_object_set_new(o, "plan", memory);
    json_object_set_new(o, "load",
                        json_pack("{si si si si si si ss}", "context", l->context, "sequences", l->sequences,
                                  "images", l->images, "tiles", l->tiles, "chunk", l->chunk, "threads",
                                  l->threads, "isa", j->kept.isa));
    json_object_set_new(o, "same", json_boolean(j->is_same));
    if (!j->is_same) json_object_set_new(o, "differs", json_string(j->differs));
    return o;
}

static void print_json(const job *j, int fits) {
    const ph_model *m = j->cli.opened;
    const ph_load  *l = &j->plan.load;
    json_t *o = json_pack("{ss ss ss so so s{si si si si si si}}", "family", m->family->name, "language",
                          m->text_family->name, "container", ph_source_container(&m->source), "memory",
                          ph_cli_memory_json(&j->plan.peak), "phases", phases_json(&j->plan), "load",
                          "context", l->context, "sequences", l->sequences, "images", l->images, "tiles",
                          l->tiles, "chunk", l->chunk, "threads", l->threads);
    json_object_set_new(json_object_get(o, "load"), "image_tokens", json_integer(j->image_tokens));
    if (j->route.n_parts) json_object_set_new(o, "route", ph_cli_route_json(&j->route));
    json_object_set_new(json_object_get(o, "load"), "beside", json_integer(l->beside));
    json_object_set_new(json_object_get(o, "load"), "ahead", json_integer(l->ahead));
    json_object_set_new(o, "estimate", json_boolean(j->plan.is_estimate));
    if (m->source.bundle.version) json_object_set_new(o, "bundle", kept_json(j));
    if (m->video_recipe.kind) json_object_set_new(o, "video_decoder", ph_cli_decoder_json(&j->cli));
    json_object_set_new(o, "fits", j->budget ? json_boolean(fits) : json_null());
    if (j->budget) json_object_set_new(o, "budget", json_integer((json_int_t)j->budget));
    ph_cli_print_json(o);
}

static ph_rc judge(const job *j, ph_err *err) {
    size_t total = j->plan.peak.total;
    if (j->cli.is_json) print_json(j, !j->budget || total <= j->budget);
    return ph_cli_judge_size(total, j->budget, j->cli.is_json, err);
}

/* Tokens of the picture that the plan is for, within the budget. */
static ph_rc count_tokens(job *j, ph_err *err) {
    const ph_session_options *s = &j->cli.session;
    const ph_model           *m = j->cli.opened;
    int                       w = s->image_width, h = s->image_height;
    ph_recipe                 recipe;
    ph_tile_layout            layout;
    if (!m->vision || !m->recipe.kind) return PH_OK;
    PH_TRY(ph_model_budget(m, s->image_min_tokens, s->image_max_tokens, &recipe, err));
    PH_TRY(ph_recipe_layout(&layout, &recipe, w ? w : 1024, h ? h : 768, err));
    j->image_tokens = ph_spec_tokens(&m->spec, &layout);
    return PH_OK;
}

/* The first option given that nothing comes of where the model is an ONNX file; or NULL. */
static const char *of_other_models(const job *j) {
    static const char *const  taken[] = {"--model", "--json", "--quiet", "--threads"};
    const ph_session_options *s = &j->cli.session;
    for (size_t g = 0; g < sizeof j->shared / sizeof *j->shared; g++)
        for (const ph_option *r = j->shared[g]; r->name; r++) {
            size_t k = 0;
            while (k < sizeof taken / sizeof *taken && strcmp(taken[k], r->name)) k++;
            if (k == sizeof taken / sizeof *taken && ph_option_is_given(r)) return r->name;
        }
    return s->images      ? "--images"
           : j->size      ? "--image-size"
           : s->sequences ? "--sequences"
           : j->pipeline  ? "--pipeline"
                          : NULL;
}

static ph_rc inspect_onnx(job *j, ph_err *err) {
    ph_cli_onnx how = {.path = j->cli.model,
                       .axes = j->axes,
                       .budget = j->budget,
                       .is_json = j->cli.is_json,
                       .is_graph = j->is_graph,
                       .threads = j->cli.session.threads};
    const char *other = of_other_models(j);
    if (other)
        return PH_FAIL(err, PH_EUSAGE,
                       "an ONNX file is one graph, planned for the native engine: %s is for other models",
                       other);
    if (j->is_svg || j->graph || j->shows_tensors)
        return PH_FAIL(err, PH_EUSAGE,
                       "of an ONNX file there is one graph, with --dot; --svg, --graph and --tensors are for "
                       "other models");
    PH_TRY(ph_cli_plugins_open(&j->plugins, err));
    how.user = j->plugins.opened.ops;
    return ph_cli_inspect_onnx(&how, err);
}

/* A graph is printed alone, in one form. */
static ph_rc check_forms(const job *j, ph_err *err) {
    int is_graph = j->is_graph || j->is_svg || j->graph;
    if (j->is_graph && j->is_svg)
        return PH_FAIL(err, PH_EUSAGE, "--dot and --svg exclude each other: text, or a picture of it");
    if (is_graph && (j->cli.is_json || j->shows_tensors))
        return PH_FAIL(err, PH_EUSAGE,
                       "--dot, --svg and --graph print a graph and nothing else: leave out %s",
                       j->cli.is_json ? "--json" : "--tensors");
    return PH_OK;
}

/* The plan in a bundle beside one made here, for the same load, whatever the options say. */
static ph_rc compare_kept(job *j, ph_err *err) {
    const ph_model *m = j->cli.opened;
    if (!m->source.bundle.version) return PH_OK;
    PH_TRY(ph_bundle_plan_read(&j->kept, &m->source.bundle.own, &j->has_kept, err));
    if (!j->has_kept) return PH_OK;
    PH_TRY(ph_bundle_plan_make(&j->now, m, j->kept.load.threads, j->cli.session.isa, err));
    /* With --no-mmap and --mlock the weights are the whole files. */
    if (m->whole_bytes) j->now.memory.weights = j->kept.memory.weights;
    j->is_same = ph_bundle_plan_same(&j->kept, &j->now, j->differs, sizeof j->differs);
    return PH_OK;
}

static ph_rc read_pipeline(job *j, ph_err *err) {
    ph_overlap how = PH_OVERLAP_SERIAL;
    if (j->pipeline) PH_TRY(ph_cli_pipeline(j->pipeline, &how, err));
    j->cli.session.beside = how == PH_OVERLAP_SERIAL ? 0 : PH_PIPELINE_SLOTS;
    j->cli.session.ahead = how == PH_OVERLAP_DEEP;
    return PH_OK;
}

static ph_rc work(job *j, ph_err *err) {
    PH_TRY(check_forms(j, err));
    if (j->size)
        PH_TRY(ph_cli_read_image_size(j->size, INT_MAX, &j->cli.session.image_width,
                                      &j->cli.session.image_height, err));
    j->cli.is_judged = 1;
    j->cli.session.memory_max = j->budget;
    PH_TRY(read_pipeline(j, err));
    PH_TRY(ph_cli_settle(&j->cli, err));
    if (ph_cli_is_onnx(j->cli.model)) return inspect_onnx(j, err);
    if (j->axes || j->plugins.path.n)
        return PH_FAIL(err, PH_EUSAGE, "%s is for ONNX files", j->axes ? "--axis" : "--plugin");
    j->cli.is_shown_only = 1;
    PH_TRY(ph_cli_open_model(&j->cli, err));
    if (j->is_graph || j->is_svg || j->graph) return print_graph(j, err);
    PH_TRY(count_tokens(j, err));
    PH_TRY(ph_session_plan_route(j->cli.opened, &j->cli.session, &j->plan, &j->route, err));
    PH_TRY(compare_kept(j, err));
    if (!j->cli.is_json) {
        print_model(j->cli.opened);
        if (j->shows_tensors) print_tensors(ph_source_weights(&j->cli.opened->source));
        if (j->shows_tensors && j->cli.opened->source.has_mmproj)
            print_tensors(ph_source_vision_weights(&j->cli.opened->source));
        print_memory(j);
        if (j->route.n_parts) putchar('\n');
        ph_cli_print_route(stdout, &j->route);
        print_kept(j);
    }
    return judge(j, err);
}

static ph_rc list_engines(job *j, ph_err *err) {
    PH_TRY(ph_cli_plugins_open(&j->plugins, err));
    ph_rc rc = ph_cli_engines(j->cli.is_json, &j->plugins.opened, err);
    ph_cli_plugins_close(&j->plugins);
    return rc;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       plugin[2], *model = j.shared[0], *session = j.shared[1];
    const ph_option own[] = {
        {"--memory", 0, "SIZE", "say whether it fits: 1.8GB, 512MiB; exit 1 if not", PH_OPTION_SIZE,
         &j.budget},
        {"--pipeline", 0, "HOW",
         "the plan is for a list answered so (pinhole run --list): serial (default), double, deep, or auto, "
         "which may become double",
         PH_OPTION_TEXT, &j.pipeline},
        {"--images", 0, "N", "pictures a prompt that the plan is for (1)", PH_OPTION_INT(0, PH_PICTURES_MAX),
         &j.cli.session.images},
        {"--image-size", 0, "WxH", "their size in pixels (1024x768)", PH_OPTION_TEXT, &j.size},
        {"--sequences", 0, "N", "conversations at once (1)", PH_OPTION_INT(0, PH_TURNS_MAX),
         &j.cli.session.sequences},
        {"--axis", 0, "NAME=N", "of an ONNX file: sizes of dynamic axes, with commas between (1)",
         PH_OPTION_TEXT, &j.axes},
        {"--known", 0, NULL, "no model: what this program knows (families, block types, tokenizers ...)",
         PH_OPTION_FLAG, &j.is_known},
        {"--engines", 0, NULL,
         "no model: engines, execution providers and --plugin's, which are here, and why others are not",
         PH_OPTION_FLAG, &j.is_engines},
        {"--tensors", 0, NULL, "list the tensors", PH_OPTION_FLAG, &j.shows_tensors},
        {"--dot", 0, NULL, "print a graph for Graphviz instead: pipe it to `dot -Tsvg`", PH_OPTION_FLAG,
         &j.is_graph},
        {"--svg", 0, NULL, "the same as a picture, drawn by Graphviz", PH_OPTION_FLAG, &j.is_svg},
        {"--graph", 0, "NAME", "which graph: language (default), vision, bridge or cross; implies --dot",
         PH_OPTION_TEXT, &j.graph},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_cli_leave_out(session, "--memory-budget"); /* --memory is */
    ph_cli_plugin_option(&j.plugins, plugin);
    ph_options o = {.group = {own, plugin, model, session}, .n_groups = 4};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if ((j.is_known || j.is_engines) && (o.rest.n || j.cli.model))
        return PH_FAIL(err, PH_EUSAGE, "%s is about the program: give no model with it",
                       j.is_known ? "--known" : "--engines");
    if (j.is_known && j.is_engines)
        return PH_FAIL(err, PH_EUSAGE, "--known and --engines are two lists: one at a time");
    if (j.is_engines) return list_engines(&j, err);
    if (j.is_known && j.plugins.path.n)
        return PH_FAIL(err, PH_EUSAGE, "--plugin goes with --engines, or an ONNX file, not with --known");
    if (j.is_known) return ph_cli_known(j.cli.is_json, err);
    if (o.rest.n > 1 || (o.rest.n && j.cli.model))
        return PH_FAIL(err, PH_EUSAGE, "one model is inspected at a time");
    if (o.rest.n) j.cli.model = o.rest.at[0];
    ph_rc rc = work(&j, err);
    ph_cli_close(&j.cli);
    ph_cli_plugins_close(&j.plugins);
    return rc;
}

const ph_command ph_command_inspect = {
    .name = "inspect",
    .summary = "what is in a model, which memory it needs, will it fit",
    .usage = "[MODEL] [--memory SIZE] [--plugin FILE] | --known | --engines [--plugin FILE]",
    .about = "Opens a model's tables, builds and checks its graphs against the weights, and adds up what "
             "answering would\n"
             "hold at its peak, by kind. No weight is read, but of a bundle without --trust. The load that "
             "the figure "
             "is for\n"
             "stands beside it.\n\n"
             "  pinhole inspect SmolVLM-256M/ --memory 1.8GB -c 2048\n"
             "  pinhole inspect vision.onnx --axis batch=4\n"
             "  pinhole inspect own.onnx --plugin ./acme.so\n"
             "  pinhole inspect --graph vision --svg > vision.svg",
    .run = run,
};
