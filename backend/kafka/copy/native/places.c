/* The partitions that a loop copies: a hash table that grows. */
#include "places.h"

#include <string.h>

enum { FIRST_SIZE = 64 };

static uint32_t hash_of(const char *topic, int32_t partition) {
    uint32_t hash = 2166136261u ^ (uint32_t)partition;
    for (; *topic; topic++)
        hash = (hash ^ (unsigned char)*topic) * 16777619u;
    return hash;
}

static place_t **slot_of(places_t *places, const char *topic, int32_t partition) {
    uint32_t hash = hash_of(topic, partition);
    place_t **slot = &places->table[hash & (places->size - 1)];
    while (*slot && ((*slot)->hash != hash || (*slot)->partition != partition || strcmp((*slot)->topic, topic)))
        slot = &(*slot)->next;
    return slot;
}

static int grow(places_t *places) {
    uint32_t size = places->size ? places->size * 2 : FIRST_SIZE;
    place_t **table = PyMem_Calloc(size, sizeof(place_t *));
    if (!table)
        return -1;
    for (uint32_t i = 0; i < places->size; i++)
        for (place_t *place = places->table[i], *next; place; place = next) {
            next = place->next;
            place->next = table[place->hash & (size - 1)];
            table[place->hash & (size - 1)] = place;
        }
    PyMem_Free(places->table);
    places->table = table;
    places->size = size;
    return 0;
}

static void forget(places_t *places, place_t **slot) {
    place_t *place = *slot;
    for (place_t **moved = &places->moved; place->moved && *moved; moved = &(*moved)->next_moved)
        if (*moved == place) {
            *moved = place->next_moved;
            break;
        }
    *slot = place->next;
    places->count--;
    if (place->target)
        lib.topic_destroy(place->target);
    Py_XDECREF(place->edge);
    Py_XDECREF(place->progress);
    free(place->topic);
    PyMem_Free(place);
}

place_t *places_find(places_t *places, const char *topic, int32_t partition) {
    return places->size ? *slot_of(places, topic, partition) : NULL;
}

place_t *places_add(places_t *places, const char *topic, int32_t partition) {
    if (places->count >= places->size && grow(places))
        return NULL;
    place_t **slot = slot_of(places, topic, partition);
    if (*slot)
        forget(places, slot);
    place_t *place = PyMem_Calloc(1, sizeof(place_t));
    if (!place)
        return NULL;
    if (!(place->topic = strdup(topic)))
        return PyMem_Free(place), NULL;
    place->partition = partition;
    place->hash = hash_of(topic, partition);
    slot = &places->table[place->hash & (places->size - 1)];
    place->next = *slot;
    *slot = place;
    places->count++;
    return place;
}

void place_copied(place_t *place, long long bytes, int64_t timestamp_ms) {
    place->copied++;
    place->copied_bytes += bytes;
    if (timestamp_ms > 0 && (!place->oldest_ms || timestamp_ms < place->oldest_ms))
        place->oldest_ms = timestamp_ms;
    place_passed(place, timestamp_ms);
}

void place_passed(place_t *place, int64_t timestamp_ms) {
    if (timestamp_ms > place->newest_ms)
        place->newest_ms = timestamp_ms;
}

void places_remove(places_t *places, const char *topic, int32_t partition) {
    place_t **slot = places->size ? slot_of(places, topic, partition) : NULL;
    if (slot && *slot)
        forget(places, slot);
}

void places_clear(places_t *places) {
    for (uint32_t i = 0; i < places->size; i++)
        while (places->table[i])
            forget(places, &places->table[i]);
    PyMem_Free(places->table);
    *places = (places_t){0};
}
