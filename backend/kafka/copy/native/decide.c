#include "edge.h"

#include <string.h>

enum { ORIGIN_BYTES = 27, ORIGIN_VERSION = 1, OFFSET_AT = 15, SIGN = 0x80, FLAGS_BYTES = 4 };

const reached_t EDGE_NOTHING = {-1, -1};

static uint64_t big_endian(const unsigned char *at, int bytes) {
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | *at++;
    return number;
}

static void put_big_endian(unsigned char *at, uint64_t number, int bytes) {
    while (bytes--) {
        at[bytes] = (unsigned char)number;
        number >>= 8;
    }
}

static bool beyond(reached_t a, reached_t b) {
    return a.incarnation != b.incarnation ? a.incarnation > b.incarnation : a.offset > b.offset;
}

origin_t *edge_origin(Edge *edge, int number) {
    size_t low = 0, high = edge->origin_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (edge->origins[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < edge->origin_count && edge->origins[low].number == number ? &edge->origins[low] : NULL;
}

static uint32_t incarnation_at(const Edge *edge, int64_t offset) {
    size_t last = edge->birth_count - 1;
    while (last > 0 && edge->incarnations[last].first_offset > offset)
        last--;
    return edge->incarnations[last].incarnation;
}

static void rewrite(Edge *edge, rd_kafka_headers_t **headers, uint32_t flags, const unsigned char *origin) {
    unsigned char packed[FLAGS_BYTES];
    if (*headers) {
        lib.header_remove(*headers, edge->flags_header);
        lib.header_remove(*headers, edge->origin_header);
    } else {
        *headers = lib.headers_new(2);
    }
    put_big_endian(packed, flags, FLAGS_BYTES);
    lib.header_add(*headers, edge->flags_header, -1, packed, FLAGS_BYTES);
    if (origin)
        lib.header_add(*headers, edge->origin_header, -1, origin, ORIGIN_BYTES);
}

static decision_t by_flags(Edge *edge, uint32_t flags, rd_kafka_headers_t **headers) {
    uint32_t bit = (uint32_t)1 << (edge->level - 1);
    if (flags & (bit | (bit - 1)))
        return EDGE_SKIP;
    rewrite(edge, headers, flags | bit, NULL);
    return EDGE_COPY;
}

decision_t edge_decide(Edge *edge, int64_t offset, rd_kafka_headers_t **headers) {
    const unsigned char *flags_value = NULL, *origin_value = NULL;
    size_t flags_size = 0, origin_size = 0, flags_count = 0, origin_count = 0;
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; *headers && lib.header_get_all(*headers, i, &name, &value, &size) == ERR_NONE; i++) {
        if (strcmp(name, edge->flags_header) == 0) {
            flags_count++, flags_value = value, flags_size = size;
        } else if (strcmp(name, edge->origin_header) == 0) {
            origin_count++, origin_value = value, origin_size = size;
        }
    }
    bool readable = flags_count == 0 || (flags_count == 1 && flags_value && flags_size == FLAGS_BYTES);
    uint32_t flags = flags_count && readable ? (uint32_t)big_endian(flags_value, FLAGS_BYTES) : 0;
    bool has_origin = origin_count == 1 && origin_value && origin_size == ORIGIN_BYTES &&
                      origin_value[0] == ORIGIN_VERSION && !(origin_value[OFFSET_AT] & SIGN);
    if (!edge->write_origin || (!has_origin && flags)) {
        edge->unreadable_flags += !readable;
        return by_flags(edge, flags, headers);
    }
    unsigned char origin_bytes[ORIGIN_BYTES];
    origin_t *origin = NULL;
    reached_t reached = EDGE_NOTHING;
    if (has_origin) {
        int cluster = (int)big_endian(origin_value + 1, 2);
        if (memcmp(origin_value + 3, edge->stream_id, 8) == 0 &&
            (int32_t)big_endian(origin_value + 11, 4) == edge->partition && cluster != edge->source_number) {
            origin_t *known = edge_origin(edge, cluster);
            if (!known)
                return EDGE_ASK;
            reached = (reached_t){(int64_t)big_endian(origin_value + 23, 4),
                                  (int64_t)big_endian(origin_value + OFFSET_AT, 8)};
            if (beyond(reached, known->seen)) {
                known->seen = reached;
                known->seen_changed = true;
                origin = known;
                memcpy(origin_bytes, origin_value, ORIGIN_BYTES);
            } else if (known->has_holes) {
                return EDGE_ASK;
            }
        }
    }
    edge->unreadable_flags += !readable;
    if (!origin) { /* produced here, whatever its headers say */
        origin = edge_origin(edge, edge->source_number);
        reached = (reached_t){incarnation_at(edge, offset), offset};
        origin->seen = reached;
        origin->seen_changed = true;
        origin_bytes[0] = ORIGIN_VERSION;
        put_big_endian(origin_bytes + 1, (uint64_t)edge->source_number, 2);
        memcpy(origin_bytes + 3, edge->stream_id, 8);
        put_big_endian(origin_bytes + 11, (uint32_t)edge->partition, 4);
        put_big_endian(origin_bytes + OFFSET_AT, (uint64_t)offset, 8);
        put_big_endian(origin_bytes + 23, (uint64_t)reached.incarnation, 4);
    }
    if (!origin->on_route || !beyond(reached, origin->covered))
        return EDGE_SKIP;
    origin->covered = reached;
    origin->covered_changed = true;
    rewrite(edge, headers, origin->flags, origin_bytes);
    return EDGE_COPY;
}
