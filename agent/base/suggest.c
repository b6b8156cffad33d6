/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/suggest.h"

#include <string.h>

#define WORD_SIZE_MAX 40 /* longer ones are compared with nothing */

static unsigned min(unsigned a, unsigned b) {
        return a < b ? a : b;
}

/* rows[i % 3][j]: the distance of the first i letters of a from the first j of b. */
static unsigned get_distance(const char *a, size_t a_size, const char *b, size_t b_size) {
        unsigned rows[3][WORD_SIZE_MAX + 1];

        for (size_t i = 0; i <= a_size; i++)
                for (size_t j = 0; j <= b_size; j++) {
                        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3];

                        if (i == 0 || j == 0) {
                                row[j] = (unsigned) (i + j);
                                continue;
                        }
                        row[j] = min(above[j - 1] + (a[i - 1] != b[j - 1]),
                                     min(above[j], row[j - 1]) + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                row[j] = min(row[j], rows[(i + 1) % 3][j - 2] + 1);
                }

        return rows[a_size % 3][b_size];
}

void suggest(Suggestion *suggestion, const char *word) {
        size_t typed_size = strlen(suggestion->typed), size = strlen(word);
        unsigned distance;

        if (typed_size > WORD_SIZE_MAX || size > WORD_SIZE_MAX)
                return;

        distance = get_distance(suggestion->typed, typed_size, word, size);
        if (distance < suggestion->distance && distance < typed_size && distance < size) {
                suggestion->word = word;
                suggestion->distance = distance;
        }
}
