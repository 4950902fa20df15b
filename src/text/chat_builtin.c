/* chat_builtin.c - plain templates for models that bring none, chosen by name.
 * Written here from the formats that the models' cards describe; images are "<image>" in strings. */
#include "text/chat.h"

#include <string.h>

#define EACH     "{% for m in messages %}"
#define END      "{% endfor %}"
#define REPLY(s) "{% if add_generation_prompt %}{{ '" s "' }}{% endif %}"

static const struct {
    const char *name, *source;
} table[] = {
    {"blip2", EACH "{% if m.role == 'assistant' %}{{ ' ' ~ m.content|trim ~ '. ' }}{% else %}"
                   "{{ 'Question: ' ~ m.content|trim ~ ' Answer:' }}{% endif %}" END},
    {"chatml", EACH "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}" END REPLY(
                   "<|im_start|>assistant\\n")},
    {"gemma", "{{ bos_token }}{% set ns = namespace(lead='') %}" EACH
              "{% if m.role == 'system' %}{% set ns.lead = m.content ~ '\\n\\n' %}{% else %}"
              "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' ~ ns.lead ~ "
              "m.content|trim ~ '<end_of_turn>\\n' }}"
              "{% set ns.lead = '' %}{% endif %}" END REPLY("<start_of_turn>model\\n")},
    {"idefics",
     "{{ bos_token }}" EACH "{{ m.role|capitalize ~ ':' }}{% set ns = namespace(last=false) %}"
     "{% for c in m.content %}{% if c.type == 'image' %}"
     "{{ ('' if ns.last else '<fake_token_around_image>') ~ '<image><fake_token_around_image>' }}"
     "{% set ns.last = true %}{% else %}{{ c.text }}{% set ns.last = false %}{% endif %}{% endfor %}"
     "{{ '\\n' }}" END REPLY("Assistant:")},
    {"llama2", "{% set ns = namespace(sys='') %}" EACH
               "{% if m.role == 'system' %}{% set ns.sys = '<<SYS>>\\n' ~ m.content ~ '\\n<</SYS>>\\n\\n' %}"
               "{% elif m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ ns.sys ~ m.content|trim ~ ' [/INST]' "
               "}}{% set ns.sys = '' %}"
               "{% else %}{{ ' ' ~ m.content|trim ~ ' ' ~ eos_token }}{% endif %}" END},
    {"llama3",
     "{{ bos_token }}" EACH
     "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ m.content|trim ~ '<|eot_id|>' }}" END
         REPLY("<|start_header_id|>assistant<|end_header_id|>\\n\\n")},
    {"phi3", EACH "{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}" END REPLY("<|assistant|>\\n")},
    {"raw", EACH "{{ m.content }}" END},
    {"vicuna",
     "{{ bos_token }}" EACH "{% if m.role == 'system' %}{{ m.content|trim ~ ' ' }}{% elif m.role == 'user' "
     "%}{{ 'USER: ' ~ m.content|trim ~ ' ' }}"
     "{% else %}{{ 'ASSISTANT: ' ~ m.content|trim ~ eos_token }}{% endif %}" END REPLY("ASSISTANT:")},
    {"whisper", EACH "{{ '<|startofprev|> ' ~ m.content }}" END
                     "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"},
    {"zephyr",
     EACH "{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}" END REPLY("<|assistant|>\\n")},
};

const char *ph_chat_builtin(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].source;
    return NULL;
}

const char *ph_chat_builtin_name(size_t i) {
    return i < sizeof table / sizeof *table ? table[i].name : NULL;
}
