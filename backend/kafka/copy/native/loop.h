/* The Python type `Loop`, and the parts of confluent-kafka's extension that it uses. */
#ifndef TREELINE_LOOP_H
#define TREELINE_LOOP_H

#include "edge.h"

/* confluent-kafka's CallState, with room to spare; only its own functions access the content. */
typedef struct {
    PyThreadState *thread_state;
    void *rest[15];
} call_state_t;
extern void (*CallState_begin)(void *, call_state_t *);
extern int (*CallState_end)(void *, call_state_t *);

/* Returns librdkafka's handle inside a client object of confluent-kafka. */
rd_kafka_t *handle_of(PyObject *client);

extern PyTypeObject Loop_type;

#endif
