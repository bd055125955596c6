/* The Python type `Loop`, and what it uses of confluent-kafka's extension. */
#ifndef TREELINE_LOOP_H
#define TREELINE_LOOP_H

#include "edge.h"

/* confluent-kafka's CallState, with room to spare; only its own functions look inside. */
typedef struct {
    PyThreadState *thread_state;
    void *rest[15];
} call_state_t;
extern void (*CallState_begin)(void *, call_state_t *);
extern int (*CallState_end)(void *, call_state_t *);

/* librdkafka's handle inside a client object of confluent-kafka. */
rd_kafka_t *handle_of(PyObject *client);

extern PyTypeObject Loop_type;

#endif
