/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Mutations of JSON inputs, for libFuzzer: bytes that change at random are seldom JSON any more
 *
 * One value of the input becomes another one: of another type, at a limit, one that is elsewhere in the input, or a text
 * that libFuzzer has changed; or a member or an item goes, or is there twice. A text that is JSON itself, as in an
 * annotation, is mutated in the same way. An input that is no JSON, and one of four others, is left to libFuzzer.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/merge-patch.h"

#define VALUES_MAX 1024
#define TEXT_MAX 256

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

/* A value, and where it is. */
typedef struct Place {
        json_object *parent; /* NULL: it is the whole input */
        const char *key;     /* NULL: it is an item */
        size_t index;
        json_object *value;
} Place;

typedef struct Places {
        Place items[VALUES_MAX];
        size_t n_items;
        uint32_t state;
} Places;

static uint32_t draw(Places *places, uint32_t n) {
        places->state = places->state * 1664525 + 1013904223;
        return (places->state >> 8) % n;
}

static void gather(Places *places, Place place) {
        if (places->n_items == VALUES_MAX)
                return;
        places->items[places->n_items++] = place;
        if (json_object_is_type(place.value, json_type_object)) {
                json_object_object_foreach(place.value, key, value)
                        gather(places, (Place){ place.value, key, 0, value });
        } else if (json_object_is_type(place.value, json_type_array)) {
                for (size_t i = 0; i < json_object_array_length(place.value); i++)
                        gather(places, (Place){ place.value, NULL, i,
                                                json_object_array_get_idx(place.value, i) });
        }
}

static json_object *changed_text(const Place *place) {
        const char *text = json_object_is_type(place->value, json_type_string)
                                   ? json_object_get_string(place->value)
                                   : "";
        size_t size = strnlen(text, TEXT_MAX);
        char buffer[TEXT_MAX];

        memcpy(buffer, text, size);
        size = LLVMFuzzerMutate((uint8_t *) buffer, size, sizeof(buffer));
        return json_object_new_string_len(buffer, (int) size);
}

static json_object *another_value(Places *places, const Place *place) {
        static const int64_t numbers[] = { 0, 1, -1, INT32_MAX, INT64_MAX, INT64_MIN, 1769904000 };

        switch (draw(places, 8)) {
        case 0: return NULL;
        case 1: return json_object_new_boolean(draw(places, 2) == 0);
        case 2: return json_object_new_int64(numbers[draw(places, 7)]);
        case 3: return json_object_new_object();
        case 4: return json_object_new_array();
        case 5: return changed_text(place);
        default: return copy_json(places->items[draw(places, (uint32_t) places->n_items)].value);
        }
}

static bool change_values(json_object *input, uint32_t seed);

/* NULL unless the value is a text with a JSON object in which values can change. */
static json_object *changed_document(Places *places, json_object *value) {
        cleanup(json_object_put_p) json_object *document = NULL;
        const char *text = json_object_get_string(value);

        if (!json_object_is_type(value, json_type_string) || text[0] != '{' ||
            json_parse(text, strlen(text), &document, NULL) < 0)
                return NULL;

        return change_values(document, draw(places, UINT32_MAX))
                       ? json_object_new_string(json_to_text(document))
                       : NULL;
}

static void replace(const Place *place, json_object *value) {
        if (json_object_is_type(place->parent, json_type_array))
                (void) json_object_array_put_idx(place->parent, place->index, value);
        else
                (void) json_object_object_add(place->parent, place->key, value);
}

static void change(Places *places, const Place *place) {
        bool is_item = json_object_is_type(place->parent, json_type_array);
        uint32_t choice = draw(places, 8);
        json_object *document = choice < 2 ? NULL : changed_document(places, place->value);

        if (choice == 0 && is_item)
                (void) json_object_array_del_idx(place->parent, place->index, 1);
        else if (choice == 0)
                json_object_object_del(place->parent, place->key);
        else if (choice == 1 && is_item)
                (void) json_object_array_add(place->parent, copy_json(place->value));
        else
                replace(place, document ?: another_value(places, place));
}

/* Changes one to three values. False: there is none below the input itself. */
static bool change_values(json_object *input, uint32_t seed) {
        Places places = { .n_items = 0, .state = seed };

        gather(&places, (Place){ .value = input });
        if (places.n_items < 2)
                return false;

        for (uint32_t n = 1 + draw(&places, 3); n > 0 && places.n_items >= 2; n--) {
                const Place place = places.items[1 + draw(&places, (uint32_t) places.n_items - 1)];

                change(&places, &place);
                places.n_items = 0;
                gather(&places, (Place){ .value = input });
        }
        return true;
}

/* Returns the size of the new input; 0: it is no JSON, or would be too large. */
static size_t mutate(uint8_t *data, size_t size, size_t size_max, unsigned seed) {
        cleanup(json_object_put_p) json_object *input = NULL;
        const char *text;
        size_t new_size;

        if (json_parse((const char *) data, size, &input, NULL) < 0 || !change_values(input, seed))
                return 0;

        text = json_to_text(input);
        new_size = text ? strlen(text) : 0;
        if (new_size > size_max)
                return 0;
        if (new_size > 0)
                memcpy(data, text, new_size);
        return new_size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed) {
        size_t new_size = seed % 4 == 0 ? 0 : mutate(data, size, size_max, seed);

        return new_size > 0 ? new_size : LLVMFuzzerMutate(data, size, size_max);
}
