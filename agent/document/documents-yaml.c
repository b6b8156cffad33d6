/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Builds json-c objects from libyaml's events. A container belongs to its parent, or to the
 * documents, from its start; the frames only remember where the next value goes. An alias shares
 * the object of its anchor, but counts as if it were a copy, because whoever walks the result sees
 * one.
 */

#include "agent/document/documents-read.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/yaml-scalar.h"

#define ANCHORS_MAX 256 /* per document; they are searched one by one */

/* How much there is of something, with everything inside it. */
typedef struct Extent {
        size_t n_values;
        size_t n_bytes;
        size_t height;
} Extent;

typedef struct Anchor {
        char *name;
        struct json_object *value; /* one reference */
        Extent extent;
} Anchor;

/* A mapping or sequence that has begun and not ended. */
typedef struct Frame {
        struct json_object *container;
        char *key;    /* of the value that comes next; NULL in a sequence, and before a key */
        char *anchor; /* may be NULL */
        Extent before;
        size_t height;
} Frame;

typedef struct Builder {
        Documents documents;
        Frame frames[DOCUMENTS_DEPTH_MAX];
        size_t n_frames;
        Anchor anchors[ANCHORS_MAX];
        size_t n_anchors;
        Extent total; /* of the whole text; its height is not used */
        Error *reterr;
} Builder;

#define refuse(builder, mark, format, ...)                                           \
        error_set((builder)->reterr, ERROR_INVALID, "line %zu, column %zu: " format, \
                  (mark)->line + 1, (mark)->column + 1, ##__VA_ARGS__)

static void builder_forget_anchors(Builder *builder) {
        while (builder->n_anchors > 0) {
                Anchor *anchor = &builder->anchors[--builder->n_anchors];

                free(anchor->name);
                json_object_put(anchor->value);
        }
}

static void builder_free(Builder *builder) {
        while (builder->n_frames > 0) {
                Frame *frame = &builder->frames[--builder->n_frames];

                free(frame->key);
                free(frame->anchor);
        }

        builder_forget_anchors(builder);
        documents_done(&builder->documents);
        free(builder);
}

DEFINE_CLEANUP(Builder *, builder_free)

static Frame *builder_top(Builder *builder) {
        return builder->n_frames > 0 ? &builder->frames[builder->n_frames - 1] : NULL;
}

static bool wants_key(const Frame *frame) {
        return frame && !frame->key && json_object_is_type(frame->container, json_type_object);
}

static int builder_count(Builder *builder, size_t n_values, size_t n_bytes,
                         const yaml_mark_t *mark) {
        builder->total.n_values += n_values;
        builder->total.n_bytes += n_bytes;

        if (builder->total.n_values > DOCUMENTS_VALUES_MAX)
                return refuse(builder, mark, "more than %d values", DOCUMENTS_VALUES_MAX);
        if (builder->total.n_bytes > DOCUMENTS_SIZE_MAX)
                return refuse(builder, mark, "more than %zu MiB of text", DOCUMENTS_SIZE_MAX >> 20);
        return 0;
}

/* Puts a value, which it takes over also when it fails, where the next one belongs. */
static int builder_put(Builder *builder, struct json_object *value, const yaml_mark_t *mark) {
        Frame *frame = builder_top(builder);
        int r;

        if (wants_key(frame)) {
                json_object_put(value);
                return refuse(builder, mark, "a key has to be a scalar");
        }

        if (!frame)
                return value ? documents_take(&builder->documents, value) : 0;

        if (json_object_is_type(frame->container, json_type_array))
                r = json_object_array_add(frame->container, value);
        else {
                cleanup(free_p) char *key = take_ptr(frame->key);

                r = json_object_object_add_ex(frame->container, key, value,
                                              JSON_C_OBJECT_ADD_KEY_IS_NEW);
        }
        if (r < 0) {
                json_object_put(value);
                return -ENOMEM;
        }

        return 0;
}

static int builder_anchor(Builder *builder, const char *name, struct json_object *value,
                          Extent extent, const yaml_mark_t *mark) {
        Anchor *anchor;

        if (builder->n_anchors == ANCHORS_MAX)
                return refuse(builder, mark, "more than %d anchors", ANCHORS_MAX);

        anchor = &builder->anchors[builder->n_anchors];
        *anchor = (Anchor){ .name = strdup(name), .extent = extent };
        if (!anchor->name)
                return -ENOMEM;

        anchor->value = json_object_get(value);
        builder->n_anchors++;
        return 0;
}

static int on_alias(Builder *builder, const yaml_event_t *event) {
        const char *name = (const char *) event->data.alias.anchor;
        Frame *frame = builder_top(builder);
        Anchor *anchor = NULL;
        int r;

        for (size_t i = builder->n_anchors; i > 0 && !anchor; i--)
                if (strcmp(builder->anchors[i - 1].name, name) == 0)
                        anchor = &builder->anchors[i - 1];
        if (!anchor)
                return refuse(builder, &event->start_mark,
                              "there is no anchor %s before this alias",
                              quote(name, (char[QUOTE_SIZE]){ 0 }));

        r = builder_count(builder, anchor->extent.n_values, anchor->extent.n_bytes,
                          &event->start_mark);
        if (r < 0)
                return r;

        if (builder->n_frames + anchor->extent.height > DOCUMENTS_DEPTH_MAX)
                return refuse(builder, &event->start_mark, "more than %d levels deep",
                              DOCUMENTS_DEPTH_MAX);
        if (frame && frame->height < anchor->extent.height)
                frame->height = anchor->extent.height;

        return builder_put(builder, json_object_get(anchor->value), &event->start_mark);
}

static int on_key(Builder *builder, const yaml_event_t *event) {
        const char *key = (const char *) event->data.scalar.value;
        Frame *frame = builder_top(builder);

        if (event->data.scalar.anchor)
                return refuse(builder, &event->start_mark, "a key cannot have an anchor");
        if (event->data.scalar.plain_implicit && strcmp(key, "<<") == 0)
                return refuse(builder, &event->start_mark, "merge keys (<<) are not supported");
        if (json_object_object_get_ex(frame->container, key, NULL))
                return refuse(builder, &event->start_mark, "the key %s is given twice",
                              quote(key, (char[QUOTE_SIZE]){ 0 }));

        frame->key = strdup(key);
        if (!frame->key)
                return -ENOMEM;

        return builder_count(builder, 0, event->data.scalar.length, &event->start_mark);
}

/* What the scalar is, unless its tag says something that it cannot be. */
static int resolve_scalar(Builder *builder, const yaml_event_t *event, YamlType *ret) {
        const char *tag = (const char *) event->data.scalar.tag;
        const char *text = (const char *) event->data.scalar.value;
        YamlType type = yaml_scalar_type(text);

        if (!tag) {
                *ret = event->data.scalar.plain_implicit ? type : YAML_TYPE_STRING;
                return 0;
        }

        *ret = yaml_scalar_tag_type(tag);
        if (*ret == _YAML_TYPE_MAX)
                return refuse(builder, &event->start_mark, "the tag %s is not supported",
                              quote(tag, (char[QUOTE_SIZE]){ 0 }));
        if (*ret != type && *ret != YAML_TYPE_STRING &&
            !(*ret == YAML_TYPE_FLOAT && type == YAML_TYPE_INTEGER))
                return refuse(builder, &event->start_mark, "%s is not what its tag says",
                              quote(text, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int on_scalar(Builder *builder, const yaml_event_t *event) {
        const char *text = (const char *) event->data.scalar.value;
        const char *anchor = (const char *) event->data.scalar.anchor;
        size_t size = event->data.scalar.length;
        struct json_object *value;
        YamlType type;
        int r;

        if (strlen(text) != size)
                return refuse(builder, &event->start_mark, "a string cannot have a NUL in it");
        if (wants_key(builder_top(builder)))
                return on_key(builder, event);

        r = resolve_scalar(builder, event, &type);
        if (r < 0)
                return r;

        r = builder_count(builder, 1, size, &event->start_mark);
        if (r < 0)
                return r;

        value = yaml_scalar_new(type, text, size);
        if (!value && type != YAML_TYPE_NULL)
                return -ENOMEM;

        if (anchor) {
                r = builder_anchor(builder, anchor, value, (Extent){ 1, size, 0 },
                                   &event->start_mark);
                if (r < 0) {
                        json_object_put(value);
                        return r;
                }
        }

        return builder_put(builder, value, &event->start_mark);
}

/* Begins a mapping or sequence, which it takes over also when it fails. */
static int builder_begin(Builder *builder, struct json_object *container, const char *anchor,
                         const yaml_mark_t *mark) {
        Frame frame = { .container = container, .before = builder->total };
        int r;

        if (!container)
                return -ENOMEM;

        r = builder_put(builder, container, mark);
        if (r < 0)
                return r;
        if (builder->n_frames == DOCUMENTS_DEPTH_MAX)
                return refuse(builder, mark, "more than %d levels deep", DOCUMENTS_DEPTH_MAX);

        if (anchor) {
                frame.anchor = strdup(anchor);
                if (!frame.anchor)
                        return -ENOMEM;
        }

        builder->frames[builder->n_frames++] = frame;
        return builder_count(builder, 1, 0, mark);
}

static bool is_tag_supported(const yaml_char_t *tag, const char *supported) {
        return !tag || strcmp((const char *) tag, "!") == 0 ||
               strcmp((const char *) tag, supported) == 0;
}

static int on_start(Builder *builder, const yaml_event_t *event) {
        bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
        const yaml_char_t *tag, *anchor;

        tag = is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
        anchor = is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;

        if (!is_tag_supported(tag, is_mapping ? YAML_MAP_TAG : YAML_SEQ_TAG))
                return refuse(builder, &event->start_mark, "the tag %s is not supported",
                              quote((const char *) tag, (char[QUOTE_SIZE]){ 0 }));

        return builder_begin(builder,
                             is_mapping ? json_object_new_object() : json_object_new_array(),
                             (const char *) anchor, &event->start_mark);
}

/* Only now can the anchor be referred to, so nothing can ever contain itself. */
static int on_end(Builder *builder, const yaml_event_t *event) {
        Frame *frame = builder_top(builder), *parent;
        cleanup(free_p) char *anchor = take_ptr(frame->anchor);
        Extent extent = {
                .n_values = builder->total.n_values - frame->before.n_values,
                .n_bytes = builder->total.n_bytes - frame->before.n_bytes,
                .height = frame->height + 1,
        };

        builder->n_frames--;
        parent = builder_top(builder);
        if (parent && parent->height < extent.height)
                parent->height = extent.height;

        if (!anchor)
                return 0;
        return builder_anchor(builder, anchor, frame->container, extent, &event->start_mark);
}

static int builder_handle(Builder *builder, const yaml_event_t *event) {
        switch (event->type) {
        case YAML_ALIAS_EVENT: return on_alias(builder, event);
        case YAML_SCALAR_EVENT: return on_scalar(builder, event);
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT: return on_start(builder, event);
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT: return on_end(builder, event);
        case YAML_DOCUMENT_END_EVENT: builder_forget_anchors(builder); return 0;
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_START_EVENT: return 0;
        }

        abort();
}

static int refuse_syntax(const yaml_parser_t *parser, const char *text, Error *reterr) {
        const char *problem = parser->problem ?: "this is not YAML";

        if (parser->error == YAML_MEMORY_ERROR)
                return -ENOMEM;
        if (parser->error == YAML_READER_ERROR)
                return documents_refuse_at(text, parser->problem_offset, problem, reterr);

        return error_set(reterr, ERROR_INVALID, "line %zu, column %zu: %s",
                         parser->problem_mark.line + 1, parser->problem_mark.column + 1, problem);
}

static int read_events(Builder *builder, yaml_parser_t *parser, const char *text) {
        bool is_end = false;
        int r = 0;

        while (r >= 0 && !is_end) {
                yaml_event_t event;

                if (!yaml_parser_parse(parser, &event))
                        return refuse_syntax(parser, text, builder->reterr);

                r = builder_handle(builder, &event);
                is_end = event.type == YAML_STREAM_END_EVENT;
                yaml_event_delete(&event);
        }

        return r;
}

int documents_read_yaml(const char *text, size_t size, Documents *ret, Error *reterr) {
        cleanup(builder_free_p) Builder *builder = NULL;
        yaml_parser_t parser;
        int r;

        builder = calloc(1, sizeof(*builder));
        if (!builder)
                return -ENOMEM;
        builder->reterr = reterr;

        if (!yaml_parser_initialize(&parser))
                return -ENOMEM;
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, (const unsigned char *) text, size);
        r = read_events(builder, &parser, text);
        yaml_parser_delete(&parser);
        if (r < 0)
                return r;

        *ret = builder->documents;
        builder->documents = DOCUMENTS_INIT;
        return 0;
}
