/* options.c - command lines by table: parsing, and the option part of --help. */
#include "cli/command.h"

#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ph_option help_row = {"--help", 'h', NULL, "print this help and leave", PH_OPTION_FLAG, NULL};

/* Other spellings that are taken for a row's name; help shows the row's. */
static const struct { const char *given, *row; } spellings[] = {{"--output", "--out"}};

static const char *spelled(const char *name, size_t *n) {
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (strlen(spellings[i].given) == *n && !strncmp(spellings[i].given, name, *n)) {
            *n = strlen(spellings[i].row);
            return spellings[i].row;
        }
    return name;
}

static const ph_option *find(const ph_options *o, const char *name, size_t n) {
    name = spelled(name, &n);
    if (n == 6 && !strncmp(name, "--help", 6)) return &help_row;
    for (size_t g = 0; g < o->n_groups; g++)
        for (const ph_option *r = o->group[g]; r->name; r++)
            if (strlen(r->name) == n && !strncmp(r->name, name, n)) return r;
    return NULL;
}

static const ph_option *find_letter(const ph_options *o, char letter) {
    if (letter == 'h') return &help_row;
    for (size_t g = 0; g < o->n_groups; g++)
        for (const ph_option *r = o->group[g]; r->name; r++)
            if (r->letter == letter) return r;
    return NULL;
}

/* Levenshtein distance, for "did you mean"; names are short. */
static size_t distance(const char *a, const char *b) {
    size_t row[64], n = strlen(b);
    if (n >= 64) return n;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = corner + (a[i - 1] != b[j - 1]), drop = row[j] + 1, add = row[j - 1] + 1;
            corner = row[j];
            row[j] = change < drop ? change : drop;
            if (add < row[j]) row[j] = add;
        }
    }
    return row[n];
}

/* "--memory" of "--memory-budget": whole words of a name, and no few letters. */
static int is_begin(const char *begin, const char *name) {
    size_t n = strlen(begin);
    return n >= 6 && !strncmp(begin, name, n) && name[n] == '-';
}

/* A name is near when one begins with the other, or less than half of it would have to change, and no more
 * than three letters. */
static ph_rc unknown(const ph_options *o, const char *given, ph_err *err) {
    char        name[64];
    const char *nearest = NULL;
    size_t      best = 4;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    size_t n = strlen(name + strspn(name, "-"));
    for (size_t g = 0; g < o->n_groups; g++)
        for (const ph_option *r = o->group[g]; r->name; r++) {
            size_t d = is_begin(name, r->name) || is_begin(r->name, name) ? 2 : distance(name, r->name);
            if (d < best && 2 * d < n) best = d, nearest = r->name;
        }
    return nearest ? PH_FAIL(err, PH_EUSAGE, "no option '%s'; did you mean %s?", given, nearest)
                   : PH_FAIL(err, PH_EUSAGE, "no option '%s'; --help lists them", given);
}

static ph_rc bad(const ph_option *r, const char *value, const char *wanted, ph_err *err) {
    return PH_FAIL(err, PH_EUSAGE, "%s takes %s, not '%s'", r->name, wanted, value);
}

static ph_rc set_whole(const ph_option *r, const char *value, ph_err *err) {
    const ph_option_takes *t = &r->takes;
    char                  *end;
    errno = 0;
    unsigned long long x = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno || x < t->least || x > t->most)
        return PH_FAIL(err, PH_EUSAGE, "%s takes a whole number from %llu to %llu, not '%s'", r->name,
                       (unsigned long long)t->least, (unsigned long long)t->most, value);
    if (t->kind == PH_TAKES_INT)
        *(int *)r->to = (int)x;
    else
        *(uint64_t *)r->to = x;
    return PH_OK;
}

int ph_real_parse(const char *value, double *out) {
    char *end;
    errno = 0;
    double x = strtod(value, &end);
    if (isspace((unsigned char)*value) || end == value || *end || errno)
        return 0; /* blanks may hide a sign */
    *out = x;
    return 1;
}

static ph_rc set_real(const ph_option *r, const char *value, ph_err *err) {
    return ph_real_parse(value, r->to) ? PH_OK : bad(r, value, "a number", err);
}

/* Blanks at an end are no part of a size, and tell a script that went wrong. */
static int is_padded(const char *s) {
    size_t n = strlen(s);
    return n && (isspace((unsigned char)s[0]) || isspace((unsigned char)s[n - 1]));
}

static ph_rc set(const ph_option *r, const char *value, ph_err *err) {
    ph_texts *list = r->to;
    switch (r->takes.kind) {
    case PH_TAKES_NONE:
        *(int *)r->to = 1;
        return PH_OK;
    case PH_TAKES_TEXT:
        *(const char **)r->to = value;
        return PH_OK;
    case PH_TAKES_TEXTS:
        if (list->n >= PH_TEXTS_MAX)
            return PH_FAIL(err, PH_EUSAGE, "%s was given more than %d times", r->name, PH_TEXTS_MAX);
        list->at[list->n++] = value;
        return PH_OK;
    case PH_TAKES_SIZE:
        if (is_padded(value) || !ph_size_parse(value, r->to))
            return bad(r, value, "a size such as 1.8GB, 512MiB or 4096", err);
        return PH_OK;
    case PH_TAKES_REAL:
        return set_real(r, value, err);
    case PH_TAKES_INT:
    case PH_TAKES_U64:
        break;
    }
    return set_whole(r, value, err);
}

int ph_option_is_given(const ph_option *r) {
    switch (r->takes.kind) {
    case PH_TAKES_TEXT:
        return *(const char *const *)r->to != NULL;
    case PH_TAKES_TEXTS:
        return ((const ph_texts *)r->to)->n > 0;
    case PH_TAKES_REAL:
        return fabs(*(const double *)r->to) > 0;
    case PH_TAKES_SIZE:
    case PH_TAKES_U64:
        return *(const uint64_t *)r->to != 0;
    case PH_TAKES_NONE:
    case PH_TAKES_INT:
        break;
    }
    return *(const int *)r->to != 0;
}

/* One option at argv[*i]; moves *i past its argument. */
static ph_rc parse_one(ph_options *o, int argc, char **argv, int *i, ph_err *err) {
    const char      *a = argv[*i], *value = NULL;
    size_t           n = strcspn(a, "=");
    const ph_option *r = a[1] == '-' ? find(o, a, n) : find_letter(o, a[1]);
    if (!r) return unknown(o, a, err);
    if (r == &help_row) {
        o->wants_help = 1;
        return PH_OK;
    }
    if (a[1] == '-' && a[n]) value = a + n + 1;
    if (a[1] != '-' && a[2]) value = a + 2;
    if (!r->arg) {
        if (value) return PH_FAIL(err, PH_EUSAGE, "%s takes no argument", r->name);
        return set(r, NULL, err);
    }
    if (!value) {
        if (*i + 1 >= argc) return PH_FAIL(err, PH_EUSAGE, "%s wants an argument: %s", r->name, r->arg);
        value = argv[++*i];
    }
    return set(r, value, err);
}

ph_rc ph_options_parse(ph_options *o, int argc, char **argv, ph_err *err) {
    int only_rest = 0;
    for (int i = 0; i < argc; i++) {
        if (!only_rest && !strcmp(argv[i], "--")) {
            only_rest = 1;
        } else if (!only_rest && argv[i][0] == '-' && argv[i][1]) {
            PH_TRY(parse_one(o, argc, argv, &i, err));
        } else {
            if (o->rest.n >= PH_TEXTS_MAX)
                return PH_FAIL(err, PH_EUSAGE, "more than %d arguments", PH_TEXTS_MAX);
            o->rest.at[o->rest.n++] = argv[i];
        }
    }
    return PH_OK;
}

enum { HELP_AT = 35, HELP_WIDTH = 116 }; /* columns: where what an option means begins, and the last */

static void print_row(const ph_option *r) {
    char head[64];
    snprintf(head, sizeof head, "  %c%c%s%s%s%s", r->letter ? '-' : ' ', r->letter ? r->letter : ' ',
             r->letter ? ", " : "  ", r->name, r->arg ? " " : "", r->arg ? r->arg : "");
    int at = printf("%-*s", HELP_AT - 1, head);
    for (const char *word = r->help; *word;) {
        size_t n = strcspn(word, " ");
        if (at > HELP_AT && at + 1 + (int)n > HELP_WIDTH) at = printf("\n%*s", HELP_AT - 1, "") - 1;
        at += printf(" %.*s", (int)n, word);
        word += n + (word[n] == ' ');
    }
    printf("\n");
}

void ph_options_print(const ph_options *o) {
    for (size_t g = 0; g < o->n_groups; g++)
        for (const ph_option *r = o->group[g]; r->name; r++) print_row(r);
    print_row(&help_row);
}
