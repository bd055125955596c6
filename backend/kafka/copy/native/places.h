/* The partitions that a loop copies, found by the source's topic and partition. */
#ifndef TREELINE_PLACES_H
#define TREELINE_PLACES_H

#include "edge.h"

typedef struct place {
    struct place *next;       /* with the same hash */
    struct place *next_moved; /* among those that moved */
    char *topic;
    int32_t partition;
    uint32_t hash;
    Edge *edge;
    PyObject *progress;
    rd_kafka_topic_t *target;
    int64_t position;
    uint64_t number; /* serial number of the place in this loop */
    uint64_t wave; /* the loop's wave when wave_bytes were counted */
    size_t wave_bytes, room;
    /* Produced since the last report; times are record timestamps, oldest_ms 0 for none, newest_ms also of
       records that need no copy. */
    long long copied, copied_bytes;
    int64_t oldest_ms, newest_ms;
    bool moved;
} place_t;

typedef struct {
    place_t **table, *moved;
    uint32_t size, count; /* size is a power of two, or 0 before the first */
} places_t;

/* Returns NULL if there is none. */
place_t *places_find(places_t *places, const char *topic, int32_t partition);
/* Returns a new place, which replaces an existing one; NULL without memory. The caller fills in the rest. */
place_t *places_add(places_t *places, const char *topic, int32_t partition);
void place_passed(place_t *place, int64_t timestamp_ms);
void place_copied(place_t *place, long long bytes, int64_t timestamp_ms);
void places_remove(places_t *places, const char *topic, int32_t partition);
void places_clear(places_t *places);

#endif
