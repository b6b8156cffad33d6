/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/duration-spec.h"

#include <stdbool.h>
#include <string.h>

#include "agent/base/quote.h"

#define NSEC_PER_USEC 1000

/* clang-format off */
static const struct Unit {
        const char *name;
        uint64_t nsec;
} units[] = {
        { "ns",           1 },
        { "us",           1000 },
        { "\xc2\xb5s",    1000 }, /* the micro sign */
        { "\xce\xbcs",    1000 }, /* the letter mu */
        { "ms",           1000000 },
        { "s",            1000000000 },
        { "m",            (uint64_t) 60 * 1000000000 },
        { "h",            (uint64_t) 3600 * 1000000000 },
};
/* clang-format on */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* The unit that ends where the next number begins. */
static const struct Unit *find_unit(const char *text, size_t size) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (strlen(units[i].name) == size && memcmp(units[i].name, text, size) == 0)
                        return &units[i];

        return NULL;
}

static bool read_integer(const char **text, uint64_t *ret) {
        uint64_t value = 0;

        for (; is_digit(**text); (*text)++)
                if (__builtin_mul_overflow(value, (uint64_t) 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (**text - '0'), &value))
                        return false;

        *ret = value;
        return true;
}

/* The digits behind the point; more of them than can count are passed over. */
static void read_fraction(const char **text, uint64_t *ret, uint64_t *ret_scale) {
        uint64_t value = 0, scale = 1;

        for (; is_digit(**text); (*text)++)
                if (scale < (uint64_t) 1000000000000000) {
                        value = value * 10 + (uint64_t) (**text - '0');
                        scale *= 10;
                }

        *ret = value;
        *ret_scale = scale;
}

/* Adds one number with its unit. */
static bool read_part(const char **text, uint64_t *nsec) {
        uint64_t value, part, rest, fraction = 0, scale = 1;
        const char *start = *text;
        const struct Unit *unit;
        size_t n_digits, size;

        if (!read_integer(text, &value))
                return false;
        n_digits = (size_t) (*text - start);
        if (**text == '.') {
                (*text)++;
                start = *text;
                read_fraction(text, &fraction, &scale);
                n_digits += (size_t) (*text - start);
        }

        size = strcspn(*text, ".0123456789");
        unit = find_unit(*text, size);
        *text += size;
        if (n_digits == 0 || !unit || __builtin_mul_overflow(value, unit->nsec, &part))
                return false;

        rest = (uint64_t) ((long double) fraction / (long double) scale * (long double) unit->nsec);
        return !__builtin_add_overflow(part, rest, &part) &&
               !__builtin_add_overflow(*nsec, part, nsec) && *nsec <= INT64_MAX;
}

int duration_parse(const char *text, int64_t *ret_usec, Error *reterr) {
        bool is_negative = text[0] == '-';
        const char *at = text + (text[0] == '-' || text[0] == '+');
        uint64_t nsec = 0;
        bool is_good = *at != '\0';

        if (strcmp(at, "0") != 0)
                while (is_good && *at)
                        is_good = read_part(&at, &nsec);

        if (!is_good)
                return error_set(reterr, ERROR_INVALID,
                                 "expected a duration such as \"12h\" or \"5m30s\", got %s",
                                 quote(text, (char[QUOTE_SIZE]){ 0 }));

        *ret_usec = (int64_t) (nsec / NSEC_PER_USEC) * (is_negative ? -1 : 1);
        return 0;
}
