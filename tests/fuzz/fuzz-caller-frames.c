/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bytes of a caller of the local API: however they are cut, the same frames are counted, each of them
 * costs something, and the caller is refused for the same header as by a count of the whole.
 */

#include "agent/rpc/frame-spec.h"
#include "tests/fuzz/fuzz.h"

#define GREETING_SIZE 24
#define HEAD_SIZE 9
#define HEADERS 1
#define CONTINUATION 9

typedef struct Count {
        uint64_t price;
        bool is_refused;
} Count;

/* Counts the frames of the whole by RFC 9113, 4.1, with the least price that each may have. */
static Count count_whole(const uint8_t *data, size_t size) {
        Count count = { 0 };
        size_t n_bytes = 0, n_frames = 0;

        for (size_t at = GREETING_SIZE; at + HEAD_SIZE <= size && !count.is_refused;) {
                const uint8_t *head = data + at;
                size_t length = ((size_t) head[0] << 16) + ((size_t) head[1] << 8) + head[2];
                bool goes_on = head[3] == CONTINUATION, is_header = goes_on || head[3] == HEADERS;

                n_bytes = is_header ? (goes_on ? n_bytes : 0) + length : 0;
                n_frames = is_header ? (goes_on ? n_frames : 0) + 1 : 0;
                count.price += 64;
                count.is_refused = n_bytes > 16384 || n_frames > 8;
                at += HEAD_SIZE + length;
        }
        return count;
}

/* In pieces of this size; 0: as a whole. has_agreed: the caller has acknowledged the limits before. */
static Count count_pieces(const uint8_t *data, size_t size, size_t piece, bool has_agreed) {
        FrameReader reader = { .has_agreed = has_agreed, .was_greeted = true };
        Count count = { 0 };

        for (size_t at = 0; at < size && !count.is_refused;) {
                size_t n = piece > 0 && piece < size - at ? piece : size - at;

                count.is_refused = !frame_reader_read(&reader, data + at, n, &count.price);
                at += n;
        }
        return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const Count expected = count_whole(data, size), whole = count_pieces(data, size, 0, true);
        const Count early = count_pieces(data, size, 0, false);
        FrameBucket shared;
        FrameBudget budget;

        check(whole.is_refused == expected.is_refused && whole.price >= expected.price);
        check(early.is_refused >= whole.is_refused);
        check(early.is_refused || early.price >= whole.price);
        for (size_t piece = 1; piece <= 1024; piece = 3 * piece + 1) {
                const Count count = count_pieces(data, size, piece, true);
                const Count other = count_pieces(data, size, piece, false);

                check(count.is_refused == whole.is_refused && count.price == whole.price);
                check(other.is_refused == early.is_refused && other.price == early.price);
        }

        frame_budget_init_shared(&shared, 1);
        frame_budget_init(&budget, &shared, 1);
        frame_budget_pay(&budget, whole.price, 1);
        check(whole.price == 0 || !frame_budget_is_full(&budget, 1));
        check(frame_budget_is_full(&budget, 1 + (uint64_t) 10 * 1000 * 1000));
        return 0;
}
