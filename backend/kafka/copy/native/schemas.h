/* Ids of schemas in records (Confluent's wire format), and those of them that need no asking any more. */
#ifndef TREELINE_SCHEMAS_H
#define TREELINE_SCHEMAS_H

#include "places.h"

/* Where an id is remembered: for all records, or for one place's values, or keys. As in schema_wait.py. */
enum part { EVERYWHERE, VALUES, KEYS };

typedef struct {
    uint32_t highest; /* ids above are not asked for; 0: none is */
    uint64_t *slots;  /* what is remembered; 0 is an empty slot */
    size_t size, count; /* size is a power of two, or 0 before the first */
} schemas_t;

/* The id that a value or key begins with, if it must be asked for; 0 otherwise. */
uint32_t schemas_unknown(const schemas_t *schemas, const place_t *place, enum part part, const void *data,
                         size_t size);
/* Whether a record has any that must be asked for. */
bool schemas_has_unknown(const schemas_t *schemas, const place_t *place, const rd_kafka_message_t *message);
/* Ask for this one no more; without memory for that it is asked for again. */
void schemas_remember(schemas_t *schemas, const place_t *place, enum part part, uint32_t id);
/* Remember nothing, and ask for ids up to this one. */
void schemas_watch(schemas_t *schemas, uint32_t highest);

#endif
