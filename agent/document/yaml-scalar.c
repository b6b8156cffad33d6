/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/yaml-scalar.h"

#include <assert.h>
#include <json-c/json_object.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

/* Longer ones are strings: no number that means something to the agent needs as much. */
#define NUMBER_SIZE_MAX 64

/* A letter more than it needs in one case or another is not in the lists: "yES" is a string. */
static const char *const words_null[] = { "", "~", "null", "Null", "NULL", NULL };
static const char *const words_true[] = { "y",    "Y",    "yes", "Yes", "YES", "true",
                                          "True", "TRUE", "on",  "On",  "ON",  NULL };
static const char *const words_false[] = { "n",     "N",     "no",  "No",  "NO",  "false",
                                           "False", "FALSE", "off", "Off", "OFF", NULL };

static bool is_one_of(const char *const *words, const char *text) {
        for (; *words; words++)
                if (strcmp(*words, text) == 0)
                        return true;
        return false;
}

/* Copies a number without its underscores. */
static bool copy_number(const char *text, char number[static NUMBER_SIZE_MAX]) {
        size_t n = 0;

        if (!*text || !strchr("+-." DIGITS, *text))
                return false;

        for (; *text; text++) {
                if (*text == '_')
                        continue;
                if (n == NUMBER_SIZE_MAX - 1)
                        return false;
                number[n++] = *text;
        }

        number[n] = '\0';
        return true;
}

static int prefix_base(const char *digits) {
        if (digits[0] != '0')
                return 10;

        switch (digits[1]) {
        case 'x':
        case 'X': return 16;
        case 'o':
        case 'O': return 8;
        case 'b':
        case 'B': return 2;
        }

        return digits[1] >= '0' && digits[1] <= '9' ? 8 : 10; /* "017" */
}

/* Splits a number into its base and its digits, behind sign and prefix. */
static int number_base(const char *number, const char **ret_digits) {
        const char *digits = number + strspn(number, "+-");
        int base = prefix_base(digits);

        if (base != 10)
                digits += strchr(DIGITS, digits[1]) ? 1 : 2;

        *ret_digits = digits;
        return base;
}

static bool is_integer(const char *number) {
        static const char all[] = DIGITS "abcdefABCDEF";
        const char *digits;
        char allowed[sizeof(all)];
        int base;

        if (strspn(number, "+-") > 1)
                return false;

        base = number_base(number, &digits);
        strcpy(allowed, all);
        if (base <= 10)
                allowed[base] = '\0';

        return *digits && digits[strspn(digits, allowed)] == '\0';
}

/* As kubectl has it: [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_float(const char *number) {
        size_t n_before, n_after = 0;

        number += strchr("+-", *number) != NULL;
        n_before = strspn(number, DIGITS);
        number += n_before;

        if (*number == '.') {
                n_after = strspn(number + 1, DIGITS);
                number += 1 + n_after;
        }
        if (n_before + n_after == 0)
                return false;

        if (*number == 'e' || *number == 'E') {
                number++;
                if (*number == '+' || *number == '-')
                        number++;
                if (!*number)
                        return false;
                number += strspn(number, DIGITS);
        }

        return !*number;
}

YamlType yaml_scalar_type(const char *text) {
        char number[NUMBER_SIZE_MAX];

        if (is_one_of(words_null, text))
                return YAML_TYPE_NULL;
        if (is_one_of(words_true, text) || is_one_of(words_false, text))
                return YAML_TYPE_BOOL;

        if (!copy_number(text, number))
                return YAML_TYPE_STRING;
        if (is_integer(number))
                return YAML_TYPE_INTEGER;
        return is_float(number) && isfinite(strtod(number, NULL)) ? YAML_TYPE_FLOAT
                                                                  : YAML_TYPE_STRING;
}

YamlType yaml_scalar_tag_type(const char *tag) {
        static const char *const tags[_YAML_TYPE_MAX] = {
                [YAML_TYPE_STRING] = "tag:yaml.org,2002:str",
                [YAML_TYPE_NULL] = "tag:yaml.org,2002:null",
                [YAML_TYPE_BOOL] = "tag:yaml.org,2002:bool",
                [YAML_TYPE_INTEGER] = "tag:yaml.org,2002:int",
                [YAML_TYPE_FLOAT] = "tag:yaml.org,2002:float",
        };
        YamlType type = 0;

        while (type < _YAML_TYPE_MAX && strcmp(tags[type], tag) != 0)
                type++;
        return type;
}

/* strtoull() stops at the largest number that it can return, which is what is wanted. */
static struct json_object *new_integer(const char *text) {
        char number[NUMBER_SIZE_MAX];
        const char *digits;
        uint64_t value;
        int base;

        if (!copy_number(text, number))
                abort();

        base = number_base(number, &digits);
        value = strtoull(digits, NULL, base);

        if (number[0] != '-')
                return value > INT64_MAX ? json_object_new_uint64(value)
                                         : json_object_new_int64((int64_t) value);
        return json_object_new_int64(value > INT64_MAX ? INT64_MIN : -(int64_t) value);
}

static struct json_object *new_float(const char *text) {
        char number[NUMBER_SIZE_MAX];

        if (!copy_number(text, number))
                abort();
        return json_object_new_double(strtod(number, NULL));
}

struct json_object *yaml_scalar_new(YamlType type, const char *text, size_t size) {
        switch (type) {
        case YAML_TYPE_STRING: return json_object_new_string_len(text, (int) size);
        case YAML_TYPE_NULL: return NULL;
        case YAML_TYPE_BOOL: return json_object_new_boolean(is_one_of(words_true, text));
        case YAML_TYPE_INTEGER: return new_integer(text);
        case YAML_TYPE_FLOAT: return new_float(text);
        case _YAML_TYPE_MAX: break;
        }

        abort();
}
