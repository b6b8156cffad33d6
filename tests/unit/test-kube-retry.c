/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When to ask the API server again
 */

#include "agent/kube/retry.h"
#include "tests/unit/unit.h"

static const struct Wait {
        unsigned n_failures;
        uint64_t asked_usec;
        uint64_t least_usec;
        uint64_t most_usec;
} waits[] = {
        { 0, 0, 200 * MSEC, 300 * MSEC },      { 1, 0, 200 * MSEC, 300 * MSEC },
        { 2, 0, 400 * MSEC, 600 * MSEC },      { 3, 0, 800 * MSEC, 1200 * MSEC },
        { 6, 0, 6400 * MSEC, 9600 * MSEC },    { 7, 0, 12 * SEC, 18 * SEC },
        { UINT32_MAX, 0, 12 * SEC, 18 * SEC }, { 1, 5 * SEC, 5 * SEC, 5 * SEC },
        { 7, 15 * SEC, 15 * SEC, 18 * SEC },   { 1, 3600 * SEC, 60 * SEC, 60 * SEC },
        { 1, UINT64_MAX, 60 * SEC, 60 * SEC },
};

TEST(test_wait) {
        for (size_t i = 0; i < N_ELEMENTS(waits); i++) {
                const KubeReply reply = { .retry_after_usec = waits[i].asked_usec };

                assert_int_equal(kube_retry_usec(waits[i].n_failures, &reply, 0),
                                 waits[i].least_usec);
                assert_int_equal(kube_retry_usec(waits[i].n_failures, &reply, UINT32_MAX),
                                 waits[i].most_usec);
        }
}

TEST(test_wait_without_reply) {
        assert_int_equal(kube_retry_usec(1, NULL, 0), 200 * MSEC);
}

static const struct Judgement {
        int code;
        ErrorKind kind; /* NONE: it succeeded */
        bool is_retriable;
} judgements[] = {
        { 200, ERROR_NONE, false },        { 0, ERROR_UNAVAILABLE, true },
        { 0, ERROR_TIMEOUT, true },        { 0, ERROR_DENIED, true },
        { 0, ERROR_INVALID, true },        { 0, ERROR_CANCELED, false },
        { 200, ERROR_CANCELED, false },    { 200, ERROR_UNAVAILABLE, true },
        { 200, ERROR_INVALID, false },     { 400, ERROR_INVALID, false },
        { 401, ERROR_DENIED, false },      { 403, ERROR_DENIED, false },
        { 404, ERROR_NOT_FOUND, false },   { 408, ERROR_TIMEOUT, true },
        { 409, ERROR_CONFLICT, false },    { 410, ERROR_GONE, false },
        { 415, ERROR_UNSUPPORTED, false }, { 429, ERROR_UNAVAILABLE, true },
        { 500, ERROR_UNAVAILABLE, true },  { 504, ERROR_TIMEOUT, true },
};

TEST(test_judgement) {
        for (size_t i = 0; i < N_ELEMENTS(judgements); i++) {
                const KubeReply reply = { .code = judgements[i].code };
                const Error error = { .kind = judgements[i].kind };

                assert_int_equal(kube_is_retriable(&reply, error.kind ? &error : NULL),
                                 judgements[i].is_retriable);
        }
}
