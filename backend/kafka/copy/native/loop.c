/* The record loop without the interpreter: messages from the consumer's queue, decisions, copies to the producer.
 *
 * backend/kafka/copy/native_loop.py drives it. `read` and `take` release the interpreter's lock, so two tasks of one
 * process copy concurrently. Only `read` calls back into Python: it serves the consumer's log and error callbacks,
 * which find their thread's state by confluent-kafka's own CallState.
 */
#include "loop.h"
#include "places.h"
#include "schemas.h"

#include <string.h>
#include <structmember.h>

/* Overhead of a record and of a header in a request, at most; as in record_loop.py. */
enum { MOST_AT_ONCE = 256, RECORD_BYTES = 32, HEADER_BYTES = 8 };
enum step { DONE, BEGIN, FULL, EVENT, FAILED, SCHEMA };

typedef struct {
    PyObject_HEAD
    PyObject *consumer, *producer;
    rd_kafka_t *producing;
    rd_kafka_queue_t *queue;
    places_t places;
    rd_kafka_message_t **messages;
    size_t capacity, count, at;
    rd_kafka_headers_t *pending; /* headers of the current message, which found the producer's queue full */
    bool decided, let_pass, in_transaction;
    schemas_t schemas;
    uint64_t places_ever;
    uint64_t wave; /* one request a partition; see record_loop.py, REQUEST_SHARE */
    long long copied, copied_bytes, skipped;
    int error;
} Loop;

rd_kafka_t *handle_of(PyObject *client) {
    /* confluent_kafka.h: PyObject_HEAD rd_kafka_t *rk; the self-test proves it at installation. */
    return *(rd_kafka_t **)((char *)client + sizeof(PyObject));
}

/* ---- places ---- */

static PyObject *Loop_add(Loop *loop, PyObject *args) {
    const char *topic, *target;
    int partition;
    Py_ssize_t room;
    Edge *edge;
    PyObject *progress;
    if (!PyArg_ParseTuple(args, "sisnO!O", &topic, &partition, &target, &room, &Edge_type, &edge, &progress))
        return NULL;
    if (!loop->queue)
        return PyErr_SetString(PyExc_RuntimeError, "the loop is closed"), NULL;
    rd_kafka_topic_t *at_target = lib.topic_new(loop->producing, target, NULL);
    if (!at_target)
        return PyErr_Format(PyExc_ValueError, "topic %s: %s", target, lib.err2str(lib.last_error()));
    place_t *place = places_add(&loop->places, topic, partition);
    if (!place)
        return lib.topic_destroy(at_target), PyErr_NoMemory();
    place->target = at_target;
    place->room = (size_t)room;
    place->wave = loop->wave - 1;
    place->number = ++loop->places_ever;
    place->edge = (Edge *)Py_NewRef((PyObject *)edge);
    place->progress = Py_NewRef(progress);
    Py_RETURN_NONE;
}

static PyObject *Loop_remove(Loop *loop, PyObject *args) {
    const char *topic;
    int partition;
    if (!PyArg_ParseTuple(args, "si", &topic, &partition))
        return NULL;
    places_remove(&loop->places, topic, partition);
    Py_RETURN_NONE;
}

/* ---- the loop ---- */

static void drop_messages(Loop *loop) {
    for (size_t i = 0; i < loop->count; i++)
        lib.message_destroy(loop->messages[i]);
    loop->count = loop->at = 0;
    if (loop->pending)
        lib.headers_destroy(loop->pending);
    loop->pending = NULL;
    loop->decided = loop->let_pass = false;
}

static PyObject *Loop_read(Loop *loop, PyObject *args) {
    Py_ssize_t most, most_bytes;
    int wait_ms;
    if (!PyArg_ParseTuple(args, "nni", &most, &most_bytes, &wait_ms))
        return NULL;
    if (!loop->queue || most < 1)
        return PyErr_SetString(PyExc_RuntimeError, "the loop is closed, or nothing is to be read"), NULL;
    drop_messages(loop);
    if (loop->capacity < (size_t)most) {
        void *larger = PyMem_Realloc(loop->messages, (size_t)most * sizeof(rd_kafka_message_t *));
        if (!larger)
            return PyErr_NoMemory();
        loop->messages = larger;
        loop->capacity = (size_t)most;
    }
    call_state_t state;
    size_t bytes = 0;
    CallState_begin(loop->consumer, &state);
    /* librdkafka waits until it has as many messages as requested: so read one first, then what has been fetched. */
    ssize_t got = lib.consume_batch_queue(loop->queue, wait_ms, loop->messages, 1);
    while (got > 0) {
        for (ssize_t i = 0; i < got; i++)
            bytes += loop->messages[loop->count++]->len;
        size_t left = (size_t)most - loop->count;
        if (left == 0 || bytes >= (size_t)most_bytes)
            break;
        got = lib.consume_batch_queue(loop->queue, 0, loop->messages + loop->count,
                                      left < MOST_AT_ONCE ? left : MOST_AT_ONCE);
    }
    if (!CallState_end(loop->consumer, &state))
        return NULL;
    return PyLong_FromSize_t(loop->count);
}

static int hand_over(Loop *loop, place_t *place, rd_kafka_message_t *message) {
    int kind;
    int64_t timestamp_ms = lib.message_timestamp(message, &kind);
    /* librdkafka takes a timestamp of 0 for none and would write the current time: 1 ms is the smallest change. */
    timestamp_ms = timestamp_ms ? timestamp_ms : 1;
    return lib.producev(loop->producing, RKT, place->target, PARTITION, message->partition, VALUE, message->payload,
                        message->len, KEY, message->key, message->key_len, MSGFLAGS, MSG_F_COPY, TIMESTAMP,
                        timestamp_ms, HEADERS, loop->pending, END);
}

/* `*content` counts the bytes of the copy, with the names and values of its headers. */
static bool fits_the_wave(Loop *loop, place_t *place, const rd_kafka_message_t *message, size_t *content) {
    size_t bytes = RECORD_BYTES, size;
    *content = message->len + message->key_len;
    const char *name;
    const void *value;
    for (size_t i = 0; lib.header_get_all(loop->pending, i, &name, &value, &size) == ERR_NONE; i++) {
        *content += strlen(name) + size;
        bytes += HEADER_BYTES;
    }
    bytes += *content;
    if (place->wave != loop->wave) {
        place->wave = loop->wave;
        place->wave_bytes = 0;
    }
    if (place->wave_bytes && place->wave_bytes + bytes > place->room)
        return false;
    place->wave_bytes += bytes;
    return true;
}

static void moved_past(Loop *loop, place_t *place, rd_kafka_message_t *message) {
    place->position = message->offset + 1;
    if (!place->moved) {
        place->moved = true;
        place->next_moved = loop->places.moved;
        loop->places.moved = place;
    }
}

/* Handles one message. Needs the interpreter only for the reference, hence `thread`. */
static enum step step(Loop *loop, rd_kafka_message_t *message, place_t *place, PyThreadState **thread) {
    if (message->err)
        return EVENT;
    if (!loop->decided) {
        if (loop->schemas.highest && !loop->let_pass && schemas_has_unknown(&loop->schemas, place, message))
            return SCHEMA;
        loop->let_pass = false;
        lib.message_detach_headers(message, &loop->pending);
        decision_t decision = edge_decide(place->edge, message->offset, &loop->pending);
        if (decision == EDGE_ASK) {
            PyEval_RestoreThread(*thread);
            int failed = edge_ask(place->edge, message->offset, &loop->pending, &decision);
            *thread = PyEval_SaveThread();
            if (failed)
                return FAILED;
        }
        if (decision == EDGE_SKIP) {
            if (loop->pending)
                lib.headers_destroy(loop->pending);
            loop->pending = NULL;
            loop->skipped++;
            int kind;
            place_passed(place, lib.message_timestamp(message, &kind));
            moved_past(loop, place, message);
            return DONE;
        }
        loop->decided = true;
    }
    if (!loop->in_transaction)
        return BEGIN;
    size_t content;
    int error = fits_the_wave(loop, place, message, &content) ? hand_over(loop, place, message) : ERR_QUEUE_FULL;
    if (error == ERR_QUEUE_FULL) {
        loop->wave++;
        return FULL;
    }
    if (error) {
        loop->error = error;
        return FAILED;
    }
    loop->pending = NULL; /* owned by librdkafka now */
    loop->decided = false;
    loop->copied++;
    loop->copied_bytes += (long long)content;
    int kind;
    place_copied(place, (long long)content, lib.message_timestamp(message, &kind));
    moved_past(loop, place, message);
    return DONE;
}

static PyObject *Loop_take(Loop *loop, PyObject *args) {
    int in_transaction;
    if (!PyArg_ParseTuple(args, "p", &in_transaction))
        return NULL;
    loop->wave += !in_transaction; /* the end of the last transaction sent everything */
    loop->in_transaction = in_transaction;
    loop->error = ERR_NONE;
    enum step next = DONE;
    rd_kafka_topic_t *topic = NULL;
    int32_t partition = -1;
    place_t *place = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    while (loop->at < loop->count) {
        rd_kafka_message_t *message = loop->messages[loop->at];
        if (!message->rkt) {
            next = EVENT; /* an error of the whole client */
            break;
        }
        /* The messages keep their topic alive: the same address is the same topic. */
        if (message->rkt != topic || message->partition != partition) {
            topic = message->rkt;
            partition = message->partition;
            place = places_find(&loop->places, lib.topic_name(topic), partition);
        }
        /* Without a place, it was fetched before its stream was released. */
        if (place && (next = step(loop, message, place, &thread)) != DONE)
            break;
        loop->at++;
    }
    PyEval_RestoreThread(thread);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(next);
}

static PyObject *Loop_event(Loop *loop, PyObject *Py_UNUSED(none)) {
    if (loop->at >= loop->count || !loop->messages[loop->at]->err)
        Py_RETURN_NONE;
    rd_kafka_message_t *message = loop->messages[loop->at++];
    return Py_BuildValue("(ziLiz)", message->rkt ? lib.topic_name(message->rkt) : NULL, (int)message->partition,
                         (long long)message->offset, message->err, lib.message_errstr(message));
}

static PyObject *Loop_watch(Loop *loop, PyObject *args) {
    unsigned int highest;
    if (!PyArg_ParseTuple(args, "I", &highest))
        return NULL;
    schemas_watch(&loop->schemas, highest);
    Py_RETURN_NONE;
}

static place_t *place_at_hand(Loop *loop) {
    rd_kafka_message_t *message = loop->at < loop->count ? loop->messages[loop->at] : NULL;
    if (!message || !message->rkt)
        return NULL;
    return places_find(&loop->places, lib.topic_name(message->rkt), message->partition);
}

static PyObject *Loop_schema(Loop *loop, PyObject *Py_UNUSED(none)) {
    place_t *place = place_at_hand(loop);
    if (!place)
        Py_RETURN_NONE;
    rd_kafka_message_t *message = loop->messages[loop->at];
    rd_kafka_headers_t *headers = NULL;
    lib.message_headers(message, &headers);
    PyObject *list = headers_to_list(headers);
    if (!list)
        return NULL;
    return Py_BuildValue("(OLIIN)", place->progress, (long long)message->offset,
                         schemas_unknown(&loop->schemas, place, VALUES, message->payload, message->len),
                         schemas_unknown(&loop->schemas, place, KEYS, message->key, message->key_len), list);
}

static PyObject *Loop_remember(Loop *loop, PyObject *args) {
    int part;
    unsigned int id;
    if (!PyArg_ParseTuple(args, "iI", &part, &id))
        return NULL;
    place_t *place = place_at_hand(loop);
    if (place)
        schemas_remember(&loop->schemas, place, (enum part)part, id);
    Py_RETURN_NONE;
}

static PyObject *Loop_let_pass(Loop *loop, PyObject *Py_UNUSED(none)) {
    loop->let_pass = true;
    Py_RETURN_NONE;
}

static PyObject *Loop_moved(Loop *loop, PyObject *Py_UNUSED(none)) {
    PyObject *rows = PyList_New(0);
    while (rows && loop->places.moved) {
        place_t *place = loop->places.moved;
        PyObject *row = edge_push(place->edge) == 0
                            ? Py_BuildValue("(OL(LLLL))", place->progress, (long long)place->position, place->copied,
                                            place->copied_bytes, (long long)place->oldest_ms, (long long)place->newest_ms)
                            : NULL;
        if (!row || PyList_Append(rows, row))
            Py_CLEAR(rows);
        Py_XDECREF(row);
        place->moved = false;
        place->copied = place->copied_bytes = 0;
        place->oldest_ms = place->newest_ms = 0;
        loop->places.moved = place->next_moved;
    }
    return rows;
}

static PyObject *Loop_counts(Loop *loop, PyObject *Py_UNUSED(none)) {
    PyObject *counts = Py_BuildValue("(LLL)", loop->copied, loop->copied_bytes, loop->skipped);
    loop->copied = loop->copied_bytes = loop->skipped = 0;
    return counts;
}

static PyObject *Loop_close(Loop *loop, PyObject *Py_UNUSED(none)) {
    drop_messages(loop);
    places_clear(&loop->places);
    schemas_watch(&loop->schemas, 0);
    if (loop->queue)
        lib.queue_destroy(loop->queue);
    loop->queue = NULL;
    Py_RETURN_NONE;
}

static int Loop_init(Loop *loop, PyObject *args, PyObject *kwargs) {
    PyObject *consumer, *producer;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) || loop->queue)
        return PyErr_SetString(PyExc_TypeError, "Loop takes a Consumer and a Producer, once"), -1;
    if (!PyArg_ParseTuple(args, "OO", &consumer, &producer))
        return -1;
    loop->consumer = Py_NewRef(consumer);
    loop->producer = Py_NewRef(producer);
    loop->producing = handle_of(producer);
    if (!handle_of(consumer) || !loop->producing)
        return PyErr_SetString(PyExc_RuntimeError, "the client is closed"), -1;
    loop->queue = lib.queue_get_consumer(handle_of(consumer));
    if (!loop->queue)
        return PyErr_SetString(PyExc_TypeError, "not a consumer"), -1;
    return 0;
}

static void Loop_dealloc(Loop *loop) {
    Py_XDECREF(Loop_close(loop, NULL));
    PyMem_Free(loop->messages);
    Py_XDECREF(loop->consumer);
    Py_XDECREF(loop->producer);
    Py_TYPE(loop)->tp_free((PyObject *)loop);
}

static PyMethodDef Loop_methods[] = {
    {"add", (PyCFunction)Loop_add, METH_VARARGS, "add(topic, partition, target_topic, bytes of a request, edge, progress)"},
    {"remove", (PyCFunction)Loop_remove, METH_VARARGS, "remove(topic, partition)"},
    {"read", (PyCFunction)Loop_read, METH_VARARGS, "read(most, most_bytes, wait_ms) -> count of messages"},
    {"take", (PyCFunction)Loop_take, METH_VARARGS, "take(in_transaction) -> what must be done before the next take"},
    {"event", (PyCFunction)Loop_event, METH_NOARGS, "(topic, partition, offset, code, text) that take stopped at"},
    {"watch", (PyCFunction)Loop_watch, METH_VARARGS, "watch(highest) for ids of schemas up to this; none is remembered"},
    {"schema", (PyCFunction)Loop_schema, METH_NOARGS, "(progress, offset, value's id, key's, headers) that take stopped at"},
    {"remember", (PyCFunction)Loop_remember, METH_VARARGS, "remember(part, id): it is not asked for again"},
    {"let_pass", (PyCFunction)Loop_let_pass, METH_NOARGS, "Go on with the message that take stopped at"},
    {"moved", (PyCFunction)Loop_moved, METH_NOARGS, "[(progress, position, (records, bytes, oldest ms, newest ms))] since the last call; edges are pushed"},
    {"counts", (PyCFunction)Loop_counts, METH_NOARGS, "(copied, copied bytes, skipped) since the last call"},
    {"close", (PyCFunction)Loop_close, METH_NOARGS, "Give back what the clients lent; before they are closed."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Loop_members[] = {
    {"error", T_INT, offsetof(Loop, error), READONLY, "librdkafka's code of what FAILED"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Loop_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "backend.kafka.copy.native._record_loop.Loop",
    .tp_doc = "Moves records from a Consumer to a Producer of confluent-kafka; used by one thread.",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Loop_init,
    .tp_dealloc = (destructor)Loop_dealloc,
    .tp_methods = Loop_methods,
    .tp_members = Loop_members,
};
