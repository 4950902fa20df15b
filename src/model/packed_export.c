/* packed_export.c - what conversion writes of a tower over packed patches: names, keys, config.
 *
 * What one family of them has besides, it writes itself.
 */
#include "model/export.h"

/* Two frames of a patch are what GGUF files have: no key says another number. */
const ph_name_row ph_packed_names[PH_N_PACKED_NAMES] = {
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_WIDE | PH_NAME_FRAMES | 2 * PH_NAME_PARTS, "patch_embed.proj",
     NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "blocks.#.norm1", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_THIRDS | 3 * PH_NAME_PARTS, "blocks.#.attn.qkv",
     NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "blocks.#.attn.proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "blocks.#.norm2", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_GATED, "blocks.#.mlp.gate_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_GATED, "blocks.#.mlp.up_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_GATED, "blocks.#.mlp.down_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_UNGATED, "blocks.#.mlp.fc1", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_UNGATED, "blocks.#.mlp.fc2", NULL},
};

const ph_name_row ph_packed_bridge_names[PH_N_PACKED_BRIDGE_NAMES] = {
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "merger.ln_q", NULL},
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "merger.mlp.0", NULL},
    {PH_NAMES_BRIDGE, PH_NAME_WEIGHT | PH_NAME_BIAS, "merger.mlp.2", NULL},
};

int ph_packed_period(const ph_spec *spec) {
    const uint8_t *is_full = spec->packed.is_full;
    int            layers = spec->tower.n_layers, n = 1;
    while (n <= layers && !is_full[n - 1]) n++;
    for (int i = 0; i < layers; i++)
        if (!is_full[i] != ((i + 1) % n != 0)) return 0;
    return n;
}

void ph_packed_export_keys(ph_gguf_meta *to, const ph_model *m) {
    ph_export_put_int(to, "clip.vision.spatial_merge_size", m->spec.packed.merge);
    ph_export_put_int(to, "clip.vision.image_min_pixels", m->recipe.size.shortest_edge);
    ph_export_put_int(to, "clip.vision.image_max_pixels", m->recipe.size.longest_edge);
}

/* Towers over packed patches have words of their own. */
void ph_packed_export_config(json_t *config, json_t *vision, const ph_model *m) {
    const ph_tower *t = &m->spec.tower;
    ph_export_set_mark(config, m, "vision_start_token_id", "<|vision_start|>");
    ph_export_set_mark(config, m, "vision_end_token_id", "<|vision_end|>");
    ph_export_set_int(vision, "depth", t->n_layers);
    ph_export_set_int(vision, "num_heads", t->n_heads);
    ph_export_set_int(vision, "in_channels", 3);
    ph_export_set_int(vision, "spatial_patch_size", t->patch);
    ph_export_set_int(vision, "spatial_merge_size", m->spec.packed.merge);
    ph_export_set_int(vision, "temporal_patch_size", m->spec.packed.temporal);
}
