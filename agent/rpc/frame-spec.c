/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/frame-spec.h"

#include "agent/base/time-units.h"

#define GREETING_SIZE 24 /* "PRI * HTTP/2.0...", which gRPC checks */

/* Frames of HTTP/2 (RFC 9113, 6). */
#define DATA 0
#define HEADERS 1
#define SETTINGS 4
#define PING 6
#define CONTINUATION 9
#define ACK 1 /* flag of settings and pings */

#define BLOCK_MAX ((size_t) 16 * 1024) /* gRPC takes 8 KiB of metadata */
#define BLOCK_FRAMES_MAX 8

/* gRPC applies its limit of metadata once the caller has acknowledged it. Until then a byte can stand for a field as
 * long as all bytes before it, so that headers cost the square of their length. Some clients send a call that early. */
#define EARLY_MAX ((size_t) 4 * 1024)
#define EARLY_SHARE 128

/* Prices: of a frame, and for a ping, which is rare in clients that mean well, so much more. Clients of gRPC
 * measure the line with pings, one for each answer, and answer those of the agent: these cost no more than others. */
#define PRICE_FRAME ((uint64_t) 64)
#define PRICE_PING ((uint64_t) 2048)
/* Data cost less than other payload, which costs 1 for each byte: gRPC holds them as they are. */
#define DATA_SHARE 8
/* A client acknowledges what it was sent with frames that cost about this part. */
#define SENT_SHARE 64

static uint64_t frame_reader_price_ping(FrameReader *reader, unsigned char flags) {
        if (flags & ACK)
                return PRICE_FRAME;
        if (!reader->was_answered)
                return PRICE_PING;

        reader->was_answered = false;
        return PRICE_FRAME;
}

static uint64_t frame_reader_price(FrameReader *reader, unsigned char kind, unsigned char flags,
                                   size_t size) {
        switch (kind) {
        case DATA: return PRICE_FRAME + size / DATA_SHARE;
        case PING: return frame_reader_price_ping(reader, flags) + size;
        default: return PRICE_FRAME + size;
        }
}

/* Returns whether the header that the frame is part of is still short enough. */
static bool frame_reader_check_block(FrameReader *reader, unsigned char kind, size_t size) {
        if (kind != CONTINUATION)
                reader->n_block = reader->n_block_frames = 0;
        if (kind != CONTINUATION && kind != HEADERS)
                return true;

        reader->n_block += size;
        reader->n_block_frames++;
        return reader->n_block <= BLOCK_MAX && reader->n_block_frames <= BLOCK_FRAMES_MAX;
}

static bool frame_reader_check_early(FrameReader *reader, unsigned char kind, size_t size,
                                     uint64_t *price) {
        uint64_t before = reader->n_early;

        if (reader->has_agreed || (kind != HEADERS && kind != CONTINUATION))
                return true;

        reader->n_early += sizeof(reader->head) + size;
        *price += (reader->n_early * reader->n_early - before * before) / EARLY_SHARE;
        return reader->n_early <= EARLY_MAX;
}

/* The head of a frame is complete. */
static bool frame_reader_begin(FrameReader *reader, uint64_t *price) {
        const unsigned char *head = reader->head;
        size_t size = ((size_t) head[0] << 16) | ((size_t) head[1] << 8) | head[2];

        reader->n_head = 0;
        reader->n_rest = size;
        *price += frame_reader_price(reader, head[3], head[4], size);
        if (head[3] == SETTINGS && (head[4] & ACK) && reader->was_greeted)
                reader->has_agreed = true;
        return frame_reader_check_block(reader, head[3], size) &&
               frame_reader_check_early(reader, head[3], size, price);
}

void frame_reader_answer(FrameReader *reader) {
        reader->was_greeted = reader->was_answered = true;
}

static size_t smaller(size_t a, size_t b) {
        return a < b ? a : b;
}

bool frame_reader_read(FrameReader *reader, const unsigned char *bytes, size_t size,
                       uint64_t *price) {
        size_t at = smaller(GREETING_SIZE - reader->n_greeting, size);

        reader->n_greeting += at;
        while (at < size) {
                if (reader->n_rest > 0) {
                        size_t n = smaller(reader->n_rest, size - at);

                        reader->n_rest -= n;
                        at += n;
                        continue;
                }

                reader->head[reader->n_head++] = bytes[at++];
                if (reader->n_head == sizeof(reader->head) && !frame_reader_begin(reader, price))
                        return false;
        }
        return true;
}

typedef struct BucketLimits {
        int64_t max;
        uint64_t per_sec;
} BucketLimits;

/* The frames of a call cost about 500. */
static const BucketLimits of_user = { 512 * 1024, 128 * 1024 };
static const BucketLimits reserved = { 64 * 1024, 16 * 1024 };
static const BucketLimits shared = { 1024 * 1024, 256 * 1024 };

static void bucket_fill(FrameBucket *bucket, const BucketLimits *limits, uint64_t now_usec) {
        *bucket = (FrameBucket){ .left = limits->max, .at_usec = now_usec };
}

static int64_t bucket_at(const FrameBucket *bucket, const BucketLimits *limits, uint64_t now_usec) {
        uint64_t usec = now_usec > bucket->at_usec ? now_usec - bucket->at_usec : 0;
        int64_t lacks = limits->max - bucket->left;

        if (usec / USEC_PER_SEC > (uint64_t) lacks / limits->per_sec)
                return limits->max;

        usec = usec * limits->per_sec / USEC_PER_SEC;
        return (int64_t) usec < lacks ? bucket->left + (int64_t) usec : limits->max;
}

static void bucket_take(FrameBucket *bucket, const BucketLimits *limits, uint64_t price,
                        uint64_t now_usec) {
        bucket->left = bucket_at(bucket, limits, now_usec) - (int64_t) price;
        if (bucket->left < -limits->max)
                bucket->left = -limits->max; /* so that no pause is longer than some seconds */
        bucket->at_usec = now_usec;
}

static void bucket_give(FrameBucket *bucket, const BucketLimits *limits, int64_t credit) {
        bucket->left = credit < limits->max - bucket->left ? bucket->left + credit : limits->max;
}

static uint64_t bucket_pause_usec(const FrameBucket *bucket, const BucketLimits *limits,
                                  uint64_t now_usec) {
        int64_t left = bucket_at(bucket, limits, now_usec);

        return left >= 0 ? 0 : (uint64_t) -left * USEC_PER_SEC / limits->per_sec + 1;
}

void frame_budget_init_shared(FrameBucket *bucket, uint64_t now_usec) {
        bucket_fill(bucket, &shared, now_usec);
}

void frame_budget_init(FrameBudget *budget, FrameBucket *of_all, uint64_t now_usec) {
        bucket_fill(&budget->own, &of_user, now_usec);
        bucket_fill(&budget->reserved, &reserved, now_usec);
        budget->shared = of_all;
}

void frame_budget_pay(FrameBudget *budget, uint64_t price, uint64_t now_usec) {
        bucket_take(&budget->own, &of_user, price, now_usec);
        if (bucket_at(&budget->reserved, &reserved, now_usec) >= 0)
                bucket_take(&budget->reserved, &reserved, price, now_usec);
        else
                bucket_take(budget->shared, &shared, price, now_usec);
}

void frame_budget_credit(FrameBudget *budget, size_t size) {
        int64_t credit = (int64_t) (size / SENT_SHARE);

        bucket_give(&budget->own, &of_user, credit);
        bucket_give(&budget->reserved, &reserved, credit);
}

uint64_t frame_budget_pause_usec(const FrameBudget *budget, uint64_t now_usec) {
        uint64_t own = bucket_pause_usec(&budget->own, &of_user, now_usec);
        uint64_t of_reserved = bucket_pause_usec(&budget->reserved, &reserved, now_usec);
        uint64_t of_shared = bucket_pause_usec(budget->shared, &shared, now_usec);
        uint64_t sooner = of_reserved < of_shared ? of_reserved : of_shared;

        return own > sooner ? own : sooner;
}

bool frame_budget_is_full(const FrameBudget *budget, uint64_t now_usec) {
        return bucket_at(&budget->own, &of_user, now_usec) == of_user.max &&
               bucket_at(&budget->reserved, &reserved, now_usec) == reserved.max;
}
