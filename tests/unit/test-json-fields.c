/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables of fields
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"
#include "tests/unit/unit.h"

typedef struct Item {
        char *name;
        int64_t number;
} Item;

typedef struct Record {
        char *name, *text, *given, *secret;
        char **words, **pairs;
        size_t n_words;
        bool is_set;
        int64_t number, cut, time;
        int port;
        Item inner;
        Item *items;
        size_t n_items;
} Record;

/* The context is the only word that is taken. */
static int read_word(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        if (text && strcmp(text, context) != 0)
                return json_refuse(path, reterr, "is not %s", (const char *) context);
        return text_copy(text ?: "none", ret);
}

static int read_port(struct json_object *value, const JsonPath *path, void *ret,
                     const void *context, Error *reterr) {
        if (value && !json_object_is_type(value, json_type_int))
                return json_refuse_type(path, value, "a port", reterr);
        *(int *) ret = value ? json_object_get_int(value) : -1;
        return 0;
}

static int read_pair(struct json_object *item, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        return json_check_type(item, path, json_type_object, reterr)
                       ?: text_format(ret, "%s=", json_get_text(item, "key"));
}

/* clang-format off */
static const JsonField item_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(Item, name), .is_required = true },
        { "number", JSON_INTEGER, .offset = offsetof(Item, number) },
        { .kind = JSON_NO_OTHERS },
};

static const JsonField inner_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(Item, name) },
        { .key = NULL },
};

static const JsonField fields[] = {
        { "name", JSON_STRING, .offset = offsetof(Record, name), .empty = "is missing" },
        { "text", JSON_TEXT, .offset = offsetof(Record, text) },
        { "given", JSON_STRING, .offset = offsetof(Record, given), .on_text = read_word },
        { "secret", JSON_STRING, .offset = offsetof(Record, secret), .is_secret = true },
        { "words", JSON_TEXTS, .offset = offsetof(Record, words), .max = 3,
          .n_offset = offsetof(Record, n_words) },
        { "pairs", JSON_TEXTS, .offset = offsetof(Record, pairs), .on_value = read_pair, .is_secret = true },
        { "set", JSON_BOOLEAN, .offset = offsetof(Record, is_set) },
        { "number", JSON_INTEGER, .offset = offsetof(Record, number) },
        { "cut", JSON_INTEGER, .offset = offsetof(Record, cut), .min = 1, .max = 5 },
        { "time", JSON_TIME, .offset = offsetof(Record, time) },
        { "port", JSON_ANY, .offset = offsetof(Record, port), .on_value = read_port },
        { .key = "known" },
        { "inner", JSON_OBJECT, .offset = offsetof(Record, inner), .fields = inner_fields },
        { "items", JSON_LIST, .offset = offsetof(Record, items), .n_offset = offsetof(Record, n_items),
          .fields = item_fields, .item_size = sizeof(Item), .max = 2 },
        { .key = NULL },
};

static const struct CasesRow {
        const char *json;
        const char *summary; /* summary of the record, or the refusal */
} cases[] = {
        { "{'name':'n'}", "n - none - words: pairs: 0 7 7 port -1 inner - items:" },
        { "{'name':'n','text':'','given':'yes','words':[],'set':true,'number':-9,'cut':3,'port':80,'known':[],"
          "'other':1,'inner':{'name':'i','other':1},'items':[]}",
          "n - yes - words: pairs: 1 -9 3 port 80 inner i items:" },
        { "{'name':'n','text':'t','secret':'s','words':['a',''],'pairs':[{'key':'k'},{'key':'l'}],"
          "'items':[{'name':'a'},{'name':'b','number':2}]}",
          "n t none s words:a, , pairs:k= l= 0 7 7 port -1 inner - items: a/0 b/2" },
        { "{'name':'n','text':null,'set':null,'number':null,'port':null,'inner':null,'items':null,'words':null}",
          "n - none - words: pairs: 0 7 7 port -1 inner - items:" },
        { "{'name':'n','cut':0}", "n - none - words: pairs: 0 7 7 port -1 inner - items:" },
        { "{'name':'n','cut':99}", "n - none - words: pairs: 0 7 5 port -1 inner - items:" },

        { "{}",                                  "at.name: is missing" },
        { "{'name':''}",                         "at.name: is missing" },
        { "{'name':7}",                          "at.name: expected a string (in quotes), got 7" },
        { "{'name':'a\\u0000b'}",                "at.name: has a NUL in it" },
        { "{'name':'n','text':{}}",              "at.text: expected a string (in quotes), got an object" },
        { "{'name':'n','given':'no'}",           "at.given: is not yes" },
        { "{'name':'n','given':1}",              "at.given: expected a string (in quotes), got 1" },
        { "{'name':'n','secret':1}",             "at.secret: expected a string (in quotes)" },
        { "{'name':'n','words':'x'}",            "at.words: expected a list, got \"x\"" },
        { "{'name':'n','words':['a',1]}",        "at.words[1]: expected a string (in quotes), got 1" },
        { "{'name':'n','words':['a',null]}",     "at.words[1]: expected a string (in quotes), got nothing" },
        { "{'name':'n','words':['a','b\\u0000']}", "at.words[1]: has a NUL in it" },
        { "{'name':'n','words':['','','','']}",  "at.words: has more than 3 items" },
        { "{'name':'n','pairs':[{'key':'k'},'s']}", "at.pairs[1]: expected an object" },
        { "{'name':'n','set':1}",                "at.set: expected true or false, got 1" },
        { "{'name':'n','number':1.5}",           "at.number: expected an integer, got 1.5" },
        { "{'name':'n','time':'noon'}",
          "at.time: expected a time such as 2026-01-31T12:00:00Z, got \"noon\"" },
        { "{'name':'n','port':'x'}",             "at.port: expected a port, got \"x\"" },
        { "{'name':'n','inner':[]}",             "at.inner: expected an object, got a list" },
        { "{'name':'n','inner':{'name':1}}",     "at.inner.name: expected a string (in quotes), got 1" },
        { "{'name':'n','items':{}}",             "at.items: expected a list, got an object" },
        { "{'name':'n','items':[7]}",            "at.items[0]: expected an object, got 7" },
        { "{'name':'n','items':[{'name':'a'},{}]}", "at.items[1]: has no name" },
        { "{'name':'n','items':[{'name':'a'},{'name':''}]}", "at.items[1]: has no name" },
        { "{'name':'n','items':[{'name':'a','nmae':1}]}", "at.items[0].nmae: there is no such field" },
        { "{'name':'n','items':[{'name':'a'},{'name':'b'},{'name':'c'}]}", "at.items: has more than 2 items" },
};
/* clang-format on */

static json_object *parse(const char *text) {
        char quoted[512];
        size_t n = 0;

        for (; text[n]; n++)
                quoted[n] = text[n] == '\'' ? '"' : text[n];
        quoted[n] = '\0';
        return json_tokener_parse(quoted);
}

static void summarize(const Record *record, char *text, size_t size) {
        FILE *file = fmemopen(text, size, "w");

        fprintf(file, "%s %s %s %s words:", record->name, record->text ?: "-", record->given,
                record->secret ?: "-");
        for (size_t i = 0; i < record->n_words; i++)
                fprintf(file, "%s, ", record->words[i]);
        assert_null(record->words[record->n_words]);
        fprintf(file, record->n_words > 0 ? "pairs:" : " pairs:");
        for (char **pair = record->pairs; *pair; pair++)
                fprintf(file, "%s ", *pair);
        fprintf(file, "%s%d %d %d port %d inner %s items:", record->pairs[0] ? "" : " ",
                record->is_set, (int) record->number, (int) record->cut, record->port,
                record->inner.name ?: "-");
        for (size_t i = 0; i < record->n_items; i++)
                fprintf(file, " %s/%d", record->items[i].name, (int) record->items[i].number);
        fclose(file);
}

/* A refused record has texts as well, which have to go. */
TEST_ROWS(test_cases, cases, json, const struct CasesRow *row) {
        cleanup(json_object_put_p) json_object *json = parse(row->json);
        cleanup(error_done) Error error = ERROR_INIT;
        Record record = { .number = 7, .cut = 7 };
        const JsonPath path = { .key = "at" };
        char summary[256] = "";
        int r;

        assert_non_null(json);
        r = json_fields_read(fields, json, &path, &record, "yes", &error);
        if (r < 0)
                snprintf(summary, sizeof(summary), "%s", error_message(&error));
        else
                summarize(&record, summary, sizeof(summary));
        assert_string_equal(summary, row->summary);

        json_fields_done(fields, &record);
        assert_null(record.name);
        assert_null(record.words);
        assert_null(record.pairs);
        assert_null(record.items);
        assert_null(record.inner.name);
        assert_int_equal(record.n_words + record.n_items, 0);
}

/* A missing object is like an empty one, also for its required members. */
TEST(test_without_object) {
        static const JsonField outer[] = {
                { "item", JSON_OBJECT, .offset = offsetof(Record, inner), .fields = item_fields },
                { .key = NULL },
        };
        cleanup(json_object_put_p) json_object *json = parse("{'item':null}");
        cleanup(error_done) Error error = ERROR_INIT;
        Record record = { .name = NULL };

        assert_true(json_fields_read(outer, json, NULL, &record, NULL, &error) < 0);
        assert_string_equal(error_message(&error), "item: has no name");
        assert_ok(json_fields_read(inner_fields, NULL, NULL, &record.inner, NULL, NULL));
}

/* A list that has to have items, and is empty, is like one that is missing. */
TEST(test_empty_lists) {
        static const JsonField needed[] = {
                { "words", JSON_TEXTS, .offset = offsetof(Record, words), .empty = "is empty" },
                { .key = NULL },
        };
        static const char *const texts[] = { "{'words':[]}", "{'words':null}", "{}" };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(json_object_put_p) json_object *json = parse(texts[i]);
                cleanup(error_done) Error error = ERROR_INIT;
                Record record = { .name = NULL };

                assert_true(json_fields_read(needed, json, NULL, &record, NULL, &error) < 0);
                assert_string_equal(error_message(&error), "words: is empty");
                json_fields_done(needed, &record);
        }
}

/* Defaults stay where a member is missing, and texts are replaced. */
TEST(test_defaults) {
        static const JsonField time_fields[] = {
                { "t", JSON_TIME, .offset = offsetof(Record, time) },
                { .key = NULL },
        };
        cleanup(json_object_put_p) json_object *json =
                parse("{'name':'new','t':'1970-01-01T00:01:00Z'}");
        Item item = { .name = strdup("old"), .number = 5 };
        Record record = { .time = 7 };

        assert_ok(json_fields_read(inner_fields, json, NULL, &item, NULL, NULL));
        assert_string_equal(item.name, "new");
        assert_int_equal(item.number, 5);
        json_fields_done(item_fields, &item);

        assert_ok(json_fields_read(time_fields, json, NULL, &record, NULL, NULL));
        assert_int_equal(record.time, 60);
}
