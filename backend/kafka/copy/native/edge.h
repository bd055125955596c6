/* The decision of an edge for each record of a partition: backend/domain/records/partition_edge.py in C.
 *
 * The Python class is the reference and owns the vectors: `edge_push` writes changes into its dictionaries. Rare
 * cases (an origin that the rule does not know, a dead-lettered record) are decided by the reference itself.
 */
#ifndef TREELINE_EDGE_H
#define TREELINE_EDGE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "librdkafka.h"

typedef struct {
    int64_t incarnation; /* -1: nothing yet */
    int64_t offset;
} reached_t;

typedef struct {
    int number; /* of the origin cluster */
    bool on_route, has_holes, seen_changed, covered_changed;
    uint32_t flags; /* on the copy, if on_route */
    reached_t seen, covered;
} origin_t;

typedef struct {
    int64_t first_offset;
    uint32_t incarnation;
} incarnation_t;

typedef struct {
    PyObject_HEAD
    PyObject *reference; /* the PartitionEdge */
    char *flags_header, *origin_header;
    int level, source_number;
    bool write_origin;
    unsigned char stream_id[8];
    int32_t partition;
    incarnation_t *incarnations;
    size_t birth_count;
    origin_t *origins; /* ascending by number */
    size_t origin_count;
    long long unreadable_flags;
} Edge;

typedef enum { EDGE_SKIP, EDGE_COPY, EDGE_ASK } decision_t;

extern PyTypeObject Edge_type;
extern const reached_t EDGE_NOTHING;

/* Returns the state of an origin; NULL if the rule does not know it. */
origin_t *edge_origin(Edge *edge, int number);

/* Decides about one record. With EDGE_COPY `*headers` (may be NULL before) are those of the copy; with EDGE_ASK
 * nothing has changed and the reference must decide. Needs no interpreter. */
decision_t edge_decide(Edge *edge, int64_t offset, rd_kafka_headers_t **headers);

/* Lets the reference decide; needs the interpreter. Returns -1 with an exception. */
int edge_ask(Edge *edge, int64_t offset, rd_kafka_headers_t **headers, decision_t *decision);

/* Returns [(name, value)], an empty list without headers; NULL with an exception. */
PyObject *headers_to_list(const rd_kafka_headers_t *headers);

/* Writes changed vectors into the reference's; needs the interpreter. Returns -1 with an exception. */
int edge_push(Edge *edge);

#endif
