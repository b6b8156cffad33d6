/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "did you mean ...?"
 *
 * The known word that is nearest to a mistyped one, by the number of letters that were changed, added,
 * left out or swapped with their neighbour (the optimal string alignment distance). A word that needs
 * more than two of these, or as many as it has letters, is no suggestion.
 */

typedef struct Suggestion {
        const char *typed; /* borrowed, as is the next one */
        const char *word;  /* the best one so far; NULL: none */
        unsigned distance;
} Suggestion;

#define SUGGEST_DISTANCE_MAX 2

static inline Suggestion suggest_for(const char *typed) {
        return (Suggestion){ .typed = typed, .distance = SUGGEST_DISTANCE_MAX + 1 };
}

/* The first of several equally near words stays. */
void suggest(Suggestion *suggestion, const char *word);
