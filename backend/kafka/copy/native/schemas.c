/* Schema ids: reading them from records, and a set of known ones (open addressing, at most half full). */
#include "schemas.h"

enum { FIRST_SIZE = 64, WIRE_BYTES = 5 };

static uint64_t remembered_as(const place_t *place, enum part part, uint32_t id) {
    return part == EVERYWHERE ? id : place->number << 34 | (uint64_t)part << 32 | id;
}

static size_t slot_of(const schemas_t *schemas, uint64_t wanted) {
    size_t at = (size_t)((wanted * 0x9e3779b97f4a7c15u) >> 32) & (schemas->size - 1);
    while (schemas->slots[at] && schemas->slots[at] != wanted)
        at = (at + 1) & (schemas->size - 1);
    return at;
}

static bool remembers(const schemas_t *schemas, uint64_t wanted) {
    return schemas->slots[slot_of(schemas, wanted)] == wanted;
}

static bool grow(schemas_t *schemas) {
    schemas_t larger = *schemas;
    larger.size = schemas->size ? schemas->size * 2 : FIRST_SIZE;
    larger.slots = calloc(larger.size, sizeof(uint64_t));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < schemas->size; i++)
        if (schemas->slots[i])
            larger.slots[slot_of(&larger, schemas->slots[i])] = schemas->slots[i];
    free(schemas->slots);
    *schemas = larger;
    return true;
}

uint32_t schemas_unknown(const schemas_t *schemas, const place_t *place, enum part part, const void *data,
                         size_t size) {
    const unsigned char *at = data;
    if (size < WIRE_BYTES || at[0])
        return 0;
    uint32_t id = (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
    if (id == 0 || id > schemas->highest)
        return 0;
    bool known = schemas->count && (remembers(schemas, id) || remembers(schemas, remembered_as(place, part, id)));
    return known ? 0 : id;
}

bool schemas_has_unknown(const schemas_t *schemas, const place_t *place, const rd_kafka_message_t *message) {
    return schemas_unknown(schemas, place, VALUES, message->payload, message->len) ||
           schemas_unknown(schemas, place, KEYS, message->key, message->key_len);
}

void schemas_remember(schemas_t *schemas, const place_t *place, enum part part, uint32_t id) {
    if (!id || (schemas->count * 2 >= schemas->size && !grow(schemas)))
        return;
    uint64_t wanted = remembered_as(place, part, id);
    size_t at = slot_of(schemas, wanted);
    schemas->count += schemas->slots[at] != wanted;
    schemas->slots[at] = wanted;
}

void schemas_watch(schemas_t *schemas, uint32_t highest) {
    free(schemas->slots);
    *schemas = (schemas_t){.highest = highest};
}
