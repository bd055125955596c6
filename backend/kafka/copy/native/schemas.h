/* Schema ids in records (Confluent's wire format), and a set of those that need no further check. */
#ifndef TREELINE_SCHEMAS_H
#define TREELINE_SCHEMAS_H

#include "places.h"

/* Scope of a remembered id: all records, or one place's values, or keys. As in schema_wait.py. */
enum part { EVERYWHERE, VALUES, KEYS };

typedef struct {
    uint32_t highest; /* higher ids are not checked; 0: none is */
    uint64_t *slots;  /* remembered ids; 0 is an empty slot */
    size_t size, count; /* size is a power of two, or 0 before the first */
} schemas_t;

/* Returns the id that a value or key starts with, if it must be checked; otherwise 0. */
uint32_t schemas_unknown(const schemas_t *schemas, const place_t *place, enum part part, const void *data,
                         size_t size);
/* Returns whether a record has an id that must be checked. */
bool schemas_has_unknown(const schemas_t *schemas, const place_t *place, const rd_kafka_message_t *message);
/* Remembers an id; without memory for that it is checked again. */
void schemas_remember(schemas_t *schemas, const place_t *place, enum part part, uint32_t id);
/* Forgets all ids, and checks those up to this one from now on. */
void schemas_watch(schemas_t *schemas, uint32_t highest);

#endif
