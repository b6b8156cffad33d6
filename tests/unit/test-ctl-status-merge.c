/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/status-merge.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define SPEC(images) "'spec':{'images':{" images "}}"
#define STATUS(counts, images) "'status':{" counts ",'imageStatuses':{" images "}}"

/* clang-format off */
static const struct Row {
        const char *name;
        const char *before;
        const char *changes;
        const char *removed; /* before the changes; NULL: none */
        const char *after;
} rows[] = {
        { "the first",
          "{}", "{'kind':'NodeImage'," SPEC("'a':{'tags':[{'tag':'1'}]}") "}", NULL,
          "{'kind':'NodeImage'," SPEC("'a':{'tags':[{'tag':'1'}]}") "}" },
        { "another image",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") "}",
          "{" SPEC("'b':{'tags':[{'tag':'1'}]}") "}", NULL,
          "{" SPEC("'a':{'tags':[{'tag':'1'}]},'b':{'tags':[{'tag':'1'}]}") "}" },
        { "another tag and a changed one",
          "{" STATUS("'desired':1", "'a':{'tags':[{'tag':'1','phase':'Waiting'}]}") "}",
          "{" STATUS("'desired':2", "'a':{'tags':[{'tag':'2'},{'tag':'1','phase':'Pulling'}]}") "}", NULL,
          "{" STATUS("'desired':2", "'a':{'tags':[{'tag':'1','phase':'Pulling'},{'tag':'2'}]}") "}" },
        { "a changed image and another",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") "}",
          "{" SPEC("'a':{'tags':[{'tag':'2'}]},'b':{'tags':[{'tag':'1'}]}") "}", NULL,
          "{" SPEC("'a':{'tags':[{'tag':'1'},{'tag':'2'}]},'b':{'tags':[{'tag':'1'}]}") "}" },
        { "what all tags share, and metadata",
          "{'metadata':{'annotations':{'x':'1'}}," SPEC("'a':{'tags':[{'tag':'1'}],'pullSecrets':[1]}") "}",
          "{'metadata':{'annotations':{}}," SPEC("'a':{'tags':[],'pullSecrets':[2]}") "}", NULL,
          "{'metadata':{'annotations':{}}," SPEC("'a':{'tags':[{'tag':'1'}],'pullSecrets':[2]}") "}" },
        { "one of two tags is removed",
          "{" SPEC("'h:5/a':{'tags':[{'tag':'1'},{'tag':'2'}]}") "}", "{}", "h:5/a:1",
          "{" SPEC("'h:5/a':{'tags':[{'tag':'2'}]}") "}" },
        { "the last tag is removed, in both parts",
          "{" SPEC("'a':{'tags':[{'tag':'sha256:12'}]}") "," STATUS("'desired':1", "'a':{'tags':[{'tag':'sha256:12'}]}") "}",
          "{" STATUS("'desired':0", "") "}", "a@sha256:12",
          "{" SPEC("") "," STATUS("'desired':0", "") "}" },
        { "what is removed and comes back",
          "{" SPEC("'a':{'tags':[{'tag':'1','version':1}]}") "}",
          "{" SPEC("'a':{'tags':[{'tag':'1','version':2}]}") "}", "a:1",
          "{" SPEC("'a':{'tags':[{'tag':'1','version':2}]}") "}" },
        { "what is not there is removed",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") "}", "{}", "a:2",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") "}" },
        { "a name without a tag, and no images",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") "}", "{'spec':{},'status':3}", "a",
          "{" SPEC("'a':{'tags':[{'tag':'1'}]}") ",'status':3}" },
};
/* clang-format on */

TEST_ROWS(test_merge, rows, name, const struct Row *row) {
        cleanup(json_object_put_p) json_object *before = parse("%s", row->before);
        cleanup(json_object_put_p) json_object *changes = parse("%s", row->changes);

        if (row->removed)
                status_remove(before, row->removed);
        assert_int_equal(status_merge(before, changes), 0);
        assert_json(before, row->after);
}
