/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/text.h"

#define PROGRESS_STEP 10 /* progress in percent that causes another line */

typedef struct ChangesLine {
        char *key;
        char *text;
        int progress;
        bool is_noted; /* since others were forgotten */
} ChangesLine;

static void line_free(ChangesLine *line) {
        free(line->key);
        free(line->text);
        free(line);
}

static int compare_key(const void *item, const void *key) {
        return strcmp(((const ChangesLine *) item)->key, key);
}

static int find_or_add(Changes *changes, const char *key, ChangesLine **ret) {
        ChangesLine *line;
        size_t at;

        if (!sorted_find(changes->lines, changes->n_lines, compare_key, key, &at)) {
                line = calloc(1, sizeof(*line));
                if (!line || text_copy(key, &line->key) < 0 ||
                    sorted_insert(&changes->lines, &changes->n_lines, at, line) < 0) {
                        if (line)
                                line_free(line);
                        return -ENOMEM;
                }
        }

        *ret = changes->lines[at];
        return 0;
}

int changes_note(Changes *changes, const char *key, const char *text, int progress) {
        ChangesLine *line;
        int r;

        r = find_or_add(changes, key, &line);
        if (r < 0)
                return r;

        line->is_noted = true;
        if (text_equal(line->text, text) && abs(progress - line->progress) < PROGRESS_STEP)
                return 0;

        line->progress = progress;
        r = text_set(&line->text, text);
        return r < 0 ? r : 1;
}

const char *changes_key(const Changes *changes, size_t i) {
        return changes->lines[i]->key;
}

bool changes_forget(Changes *changes, const char *key) {
        size_t at;

        if (!sorted_find(changes->lines, changes->n_lines, compare_key, key, &at))
                return false;

        line_free(changes->lines[at]);
        sorted_remove(changes->lines, &changes->n_lines, at);
        return true;
}

void changes_forget_others(Changes *changes) {
        size_t n_left = 0;

        for (size_t i = 0; i < changes->n_lines; i++) {
                ChangesLine *line = changes->lines[i];

                if (!line->is_noted) {
                        line_free(line);
                        continue;
                }
                line->is_noted = false;
                changes->lines[n_left++] = line;
        }
        changes->n_lines = n_left;
}

void changes_done(Changes *changes) {
        for (size_t i = 0; i < changes->n_lines; i++)
                line_free(changes->lines[i]);
        free(changes->lines);
}
