/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/room.h"

void room_count(RoomUse *use, bool is_holder_root, bool is_same_user, size_t n) {
        use->by_all += n;
        use->by_others += is_holder_root ? 0 : n;
        use->by_user += is_same_user ? n : 0;
}

static bool is_full(size_t limit, size_t used, size_t more) {
        return more > limit || used > limit - more;
}

int room_check(const RoomLimits *limits, const RoomUse *use, bool is_root, uid_t uid, size_t more,
               Error *reterr) {
        if (!is_root && is_full(limits->for_user, use->by_user, more))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "user %u has too many %s: %zu and %zu more, where one user may "
                                 "have %zu; end some of them, or try again later",
                                 (unsigned) uid, limits->what, use->by_user, more,
                                 limits->for_user);
        if (!is_root && is_full(limits->for_others, use->by_others, more))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "too many %s: all users but root have %zu, where they may have "
                                 "%zu; try again later, or as root",
                                 limits->what, use->by_others, limits->for_others);
        if (is_full(limits->for_all, use->by_all, more))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "too many %s: there are %zu, where there may be %zu; try again "
                                 "later",
                                 limits->what, use->by_all, limits->for_all);
        return 0;
}
