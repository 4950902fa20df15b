/* tokenizer_help.h - what the tokenizer tests share. */
#ifndef PH_TESTS_TOKENIZER_HELP_H
#define PH_TESTS_TOKENIZER_HELP_H

#include "base/file.h"
#include "tests/unit/unit.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

#endif
