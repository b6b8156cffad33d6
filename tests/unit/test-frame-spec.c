/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests what a caller may send, and what its frames cost
 */

#include <string.h>

#include "agent/rpc/frame-spec.h"
#include "tests/unit/unit.h"

#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define NOW ((uint64_t) 5000000)
#define SECOND ((uint64_t) 1000000)

typedef struct Piece {
        unsigned char kind;
        unsigned flags;
        size_t size;
        size_t times;
} Piece;

/* clang-format off */
static const struct Row {
        const char *name;
        Piece pieces[3];
        uint64_t price;
        bool is_refused;
} rows[] = {
        { "greeting alone",             { { 0 } },                                     0,            false },
        { "settings",                   { { 4, 0, 6, 1 } },                            70,           false },
        { "a call",                     { { 1, 4, 200, 1 }, { 0, 1, 640, 1 } },        264 + 144,    false },
        { "empty data",                 { { 0, 0, 0, 100 } },                          6400,         false },
        { "a large message",            { { 0, 0, 16384, 128 } },                      128 * 2112,   false },
        { "pings",                      { { 6, 0, 8, 3 } },                            3 * 2056,     false },
        { "answers to pings",           { { 6, 1, 8, 3 } },                            3 * 72,       false },
        { "longest header",             { { 1, 0, 16000, 1 }, { 9, 4, 384, 1 } },      16064 + 448,  false },
        { "header too long",            { { 1, 0, 16000, 1 }, { 9, 4, 385, 1 } },      16064 + 449,  true  },
        { "long in one frame",          { { 1, 4, 16385, 1 } },                        16449,        true  },
        { "many parts",                 { { 1, 0, 1, 1 }, { 9, 0, 1, 7 } },            8 * 65,       false },
        { "too many parts",             { { 1, 0, 1, 1 }, { 9, 0, 0, 8 } },            65 + 8 * 64,  true  },
        { "parts of no header",         { { 9, 0, 0, 9 } },                            9 * 64,       true  },
        { "many headers",               { { 1, 4, 10000, 4 } },                        4 * 10064,    false },
        { "another frame between them", { { 1, 0, 10000, 1 }, { 4, 0, 0, 1 }, { 9, 4, 10000, 1 } },
                                                                                       2 * 10064 + 64, false },
};
/* clang-format on */

static size_t put_frame(unsigned char *to, const Piece *piece) {
        unsigned char head[9] = {
                (unsigned char) (piece->size >> 16), (unsigned char) (piece->size >> 8),
                (unsigned char) piece->size,         piece->kind,
                (unsigned char) piece->flags,
        };

        memcpy(to, head, sizeof(head));
        memset(to + sizeof(head), 0xff, piece->size);
        return sizeof(head) + piece->size;
}

static size_t put_row(unsigned char *to, const struct Row *row) {
        size_t size = strlen(GREETING);

        memcpy(to, GREETING, size);
        for (size_t i = 0; i < 3; i++)
                for (size_t n = 0; n < row->pieces[i].times; n++)
                        size += put_frame(to + size, &row->pieces[i]);
        return size;
}

/* However the bytes are cut. */
TEST(test_frames) {
        static unsigned char bytes[3 << 20];
        static const size_t cuts[] = { 1, 7, 16384, sizeof(bytes) };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (size_t cut = 0; cut < 4; cut++) {
                        size_t size = put_row(bytes, &rows[i]);
                        FrameReader reader = { .has_agreed = true };
                        bool is_allowed = true;
                        uint64_t price = 0;

                        for (size_t at = 0; at < size && is_allowed; at += cuts[cut]) {
                                size_t rest = size - at;
                                size_t n = rest < cuts[cut] ? rest : cuts[cut];

                                is_allowed = frame_reader_read(&reader, bytes + at, n, &price);
                        }
                        if (is_allowed == rows[i].is_refused || price != rows[i].price)
                                fail_msg("%s, cut at %zu: %d, %zu", rows[i].name, cuts[cut],
                                         is_allowed, (size_t) price);
                }
}

static bool read_frame(FrameReader *reader, const Piece *piece, uint64_t *price) {
        static unsigned char bytes[1 << 16];

        *price = 0;
        return frame_reader_read(reader, bytes, put_frame(bytes, piece), price);
}

/* Headers that come before the caller has acknowledged the limits cost the square of their length, and are few. */
TEST(test_early_headers) {
        const Piece header = { .kind = 1, .flags = 4, .size = 1015 };
        const Piece part = { .kind = 9, .flags = 4, .size = 1016 };
        FrameReader reader = { .n_greeting = strlen(GREETING) };
        uint64_t price;

        assert_true(read_frame(&reader, &header, &price));
        assert_int_equal(price, 64 + 1015 + 1024 * 1024 / 128);
        assert_true(read_frame(&reader, &header, &price));
        assert_int_equal(price, 64 + 1015 + 3 * 1024 * 1024 / 128);
        assert_true(read_frame(&reader, &(Piece){ .size = 16384 }, &price));
        assert_int_equal(price, 2112);
        assert_true(read_frame(&reader, &header, &price));
        assert_false(read_frame(&reader, &part, &price));
}

/* An acknowledgement of limits that were not sent does not count: gRPC would take it for one of its defaults. */
TEST(test_agreement) {
        const Piece header = { .kind = 1, .flags = 4, .size = 5000 };
        const Piece agreement = { .kind = 4, .flags = 1 };
        FrameReader early = { .n_greeting = strlen(GREETING) }, in_time = early, other = early;
        uint64_t price;

        assert_true(read_frame(&early, &agreement, &price));
        frame_reader_answer(&early);
        assert_false(read_frame(&early, &header, &price));

        frame_reader_answer(&in_time);
        assert_true(read_frame(&in_time, &agreement, &price));
        assert_true(read_frame(&in_time, &header, &price));
        assert_int_equal(price, 5064);

        frame_reader_answer(&other);
        assert_true(read_frame(&other, &(Piece){ .kind = 4, .size = 6 }, &price));
        assert_false(read_frame(&other, &header, &price));
}

/* Clients measure the line as they get an answer. */
TEST(test_ping_for_an_answer) {
        unsigned char bytes[64];
        const size_t size = put_frame(bytes, &(Piece){ .kind = 6, .size = 8 });
        FrameReader reader = { .n_greeting = strlen(GREETING) };
        uint64_t price = 0;

        frame_reader_answer(&reader);
        assert_true(frame_reader_read(&reader, bytes, size, &price));
        assert_int_equal(price, 72);
        assert_true(frame_reader_read(&reader, bytes, size, &price));
        assert_int_equal(price, 72 + 2056);
        frame_reader_answer(&reader);
        assert_true(frame_reader_read(&reader, bytes, size, &price));
        assert_int_equal(price, 72 + 2056 + 72);
}

TEST(test_budget) {
        FrameBucket shared;
        FrameBudget budget;

        frame_budget_init_shared(&shared, NOW);
        frame_budget_init(&budget, &shared, NOW);
        assert_true(frame_budget_is_full(&budget, NOW));
        frame_budget_pay(&budget, 512 * 1024, NOW);
        assert_false(frame_budget_is_full(&budget, NOW));
        assert_int_equal(frame_budget_pause_usec(&budget, NOW), 0);
        frame_budget_pay(&budget, 64 * 1024, NOW);
        assert_int_equal(frame_budget_pause_usec(&budget, NOW), SECOND / 2 + 1);
        assert_int_equal(frame_budget_pause_usec(&budget, NOW + SECOND), 0);
        assert_false(frame_budget_is_full(&budget, NOW + 4 * SECOND));
        assert_false(frame_budget_is_full(&budget, NOW + 7 * SECOND));
        assert_true(frame_budget_is_full(&budget, NOW + 8 * SECOND));
        assert_true(frame_budget_is_full(&budget, UINT64_MAX));
}

/* A frame that is announced as very long does not shut its user out for long. */
TEST(test_debt_has_an_end) {
        FrameBucket shared;
        FrameBudget budget;

        frame_budget_init_shared(&shared, NOW);
        frame_budget_init(&budget, &shared, NOW);
        for (unsigned i = 0; i < 1000; i++)
                frame_budget_pay(&budget, 1 << 24, NOW);
        assert_int_equal(frame_budget_pause_usec(&budget, NOW), 4 * SECOND + 1);
        assert_int_equal(frame_budget_pause_usec(&budget, NOW - SECOND), 4 * SECOND + 1);
}

/* A caller who is sent much has to acknowledge much. */
TEST(test_credit) {
        FrameBucket shared;
        FrameBudget budget;

        frame_budget_init_shared(&shared, NOW);
        frame_budget_init(&budget, &shared, NOW);
        frame_budget_credit(&budget, 1 << 20);
        assert_true(frame_budget_is_full(&budget, NOW));
        frame_budget_pay(&budget, 512 * 1024 + 100, NOW);
        frame_budget_credit(&budget, 6399);
        assert_true(frame_budget_pause_usec(&budget, NOW) > 0);
        frame_budget_credit(&budget, 64);
        assert_int_equal(frame_budget_pause_usec(&budget, NOW), 0);
        frame_budget_credit(&budget, SIZE_MAX / 2);
        assert_true(frame_budget_is_full(&budget, NOW));
}

/* Pays small prices until the user has to wait. Returns the sum. */
static uint64_t spend(FrameBudget *budget, uint64_t now_usec) {
        uint64_t sum = 0;

        while (frame_budget_pause_usec(budget, now_usec) == 0) {
                frame_budget_pay(budget, 64, now_usec);
                sum += 64;
        }
        return sum;
}

/* However many users send as much as they may, together they spend little more than two of them would, and those who
 * send little do not wait. */
TEST(test_many_users) {
        FrameBucket shared;
        FrameBudget heavy[12], light;
        uint64_t sum = 0, in_ten_seconds = 0;

        frame_budget_init_shared(&shared, NOW);
        frame_budget_init(&light, &shared, NOW);
        for (size_t i = 0; i < N_ELEMENTS(heavy); i++) {
                frame_budget_init(&heavy[i], &shared, NOW);
                sum += spend(&heavy[i], NOW);
        }
        assert_true(sum >= 1792 * 1024 && sum <= 1793 * 1024);

        for (uint64_t now = NOW; now < NOW + 10 * SECOND; now += SECOND / 10) {
                for (size_t i = 0; i < N_ELEMENTS(heavy); i++)
                        in_ten_seconds += spend(&heavy[i], now);
                assert_int_equal(frame_budget_pause_usec(&light, now), 0);
                frame_budget_pay(&light, 1600, now);
        }
        assert_true(in_ten_seconds < 10 * (256 + 12 * 16 + 10) * 1024);
}
