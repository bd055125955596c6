#include "edge.h"

#include <string.h>

static int push_vector(PyObject *reference, const char *name, Edge *edge, bool covered) {
    PyObject *vector = PyObject_GetAttrString(reference, name);
    if (!vector)
        return -1;
    int result = 0;
    for (size_t i = 0; i < edge->origin_count && result == 0; i++) {
        origin_t *origin = &edge->origins[i];
        bool *changed = covered ? &origin->covered_changed : &origin->seen_changed;
        if (!*changed)
            continue;
        reached_t reached = covered ? origin->covered : origin->seen;
        PyObject *key = PyLong_FromLong(origin->number);
        PyObject *entry = Py_BuildValue("(LL)", (long long)reached.incarnation, (long long)reached.offset);
        result = key && entry ? PyDict_SetItem(vector, key, entry) : -1;
        Py_XDECREF(key);
        Py_XDECREF(entry);
        *changed = false;
    }
    Py_DECREF(vector);
    return result;
}

int edge_push(Edge *edge) {
    if (push_vector(edge->reference, "seen", edge, false) || push_vector(edge->reference, "covered", edge, true))
        return -1;
    if (edge->unreadable_flags) {
        PyObject *before = PyObject_GetAttrString(edge->reference, "unreadable_flags");
        PyObject *more = PyLong_FromLongLong(edge->unreadable_flags);
        PyObject *sum = before && more ? PyNumber_Add(before, more) : NULL;
        int result = sum ? PyObject_SetAttrString(edge->reference, "unreadable_flags", sum) : -1;
        Py_XDECREF(before);
        Py_XDECREF(more);
        Py_XDECREF(sum);
        edge->unreadable_flags = 0;
        return result;
    }
    return 0;
}

static int pull_vector(Edge *edge, const char *name, bool covered) {
    PyObject *vector = PyObject_GetAttrString(edge->reference, name), *key, *entry;
    Py_ssize_t at = 0;
    if (!vector)
        return -1;
    while (PyDict_Next(vector, &at, &key, &entry)) {
        origin_t *origin = edge_origin(edge, (int)PyLong_AsLong(key));
        reached_t reached = EDGE_NOTHING;
        if (!PyArg_ParseTuple(entry, "LL", &reached.incarnation, &reached.offset))
            break;
        if (origin)
            *(covered ? &origin->covered : &origin->seen) = reached;
    }
    Py_DECREF(vector);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *headers_to_list(const rd_kafka_headers_t *headers) {
    PyObject *list = PyList_New(0);
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; list && headers && lib.header_get_all(headers, i, &name, &value, &size) == ERR_NONE; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
        PyObject *pair = Py_BuildValue("(Ny#)", text, value, (Py_ssize_t)size);
        if (!pair || PyList_Append(list, pair))
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static rd_kafka_headers_t *headers_from_list(PyObject *list) {
    PyObject *rows = PySequence_Fast(list, "headers are a sequence");
    if (!rows)
        return NULL;
    rd_kafka_headers_t *headers = lib.headers_new((size_t)PySequence_Fast_GET_SIZE(rows) + 2);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(rows); i++) {
        PyObject *text, *name;
        const char *value;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(rows, i), "Uz#", &text, &value, &size) ||
            !(name = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape"))) {
            lib.headers_destroy(headers);
            Py_DECREF(rows);
            return NULL;
        }
        lib.header_add(headers, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), value, size);
        Py_DECREF(name);
    }
    Py_DECREF(rows);
    return headers;
}

int edge_ask(Edge *edge, int64_t offset, rd_kafka_headers_t **headers, decision_t *decision) {
    PyObject *list = headers_to_list(*headers), *answer = NULL;
    if (list && edge_push(edge) == 0)
        answer = PyObject_CallMethod(edge->reference, "copy", "LO", (long long)offset, list);
    Py_XDECREF(list);
    if (!answer)
        return -1;
    *decision = EDGE_SKIP;
    if (answer != Py_None) {
        rd_kafka_headers_t *made = headers_from_list(answer);
        if (made) {
            if (*headers)
                lib.headers_destroy(*headers);
            *headers = made;
            *decision = EDGE_COPY;
        }
    }
    Py_DECREF(answer);
    if (PyErr_Occurred() || pull_vector(edge, "seen", false) || pull_vector(edge, "covered", true))
        return -1;
    return 0;
}

/* ---- the Python type ---- */

static char *copied_text(PyObject *owner, const char *attribute) {
    PyObject *text = PyObject_GetAttrString(owner, attribute);
    const char *found = text ? PyUnicode_AsUTF8(text) : NULL;
    char *copy = found ? strdup(found) : NULL;
    Py_XDECREF(text);
    return copy;
}

static long number_of(PyObject *owner, const char *attribute) {
    PyObject *number = PyObject_GetAttrString(owner, attribute);
    long found = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return found;
}

static int by_number(const void *a, const void *b) {
    return ((const origin_t *)a)->number - ((const origin_t *)b)->number;
}

static int read_origins(Edge *edge, PyObject *rule) {
    PyObject *known = PyObject_GetAttrString(rule, "known_origins"), *numbers = NULL, *iterator = NULL, *number;
    PyObject *source = PyLong_FromLong(edge->source_number);
    if (known && source && (numbers = PySet_New(known)) && PySet_Add(numbers, source) == 0 &&
        (edge->origins = PyMem_Calloc((size_t)PySet_GET_SIZE(numbers), sizeof(origin_t))) &&
        (iterator = PyObject_GetIter(numbers))) {
        while ((number = PyIter_Next(iterator))) {
            origin_t *origin = &edge->origins[edge->origin_count++];
            origin->number = (int)PyLong_AsLong(number);
            origin->seen = origin->covered = EDGE_NOTHING;
            Py_DECREF(number);
        }
        qsort(edge->origins, edge->origin_count, sizeof(origin_t), by_number);
    }
    Py_XDECREF(known);
    Py_XDECREF(source);
    Py_XDECREF(numbers);
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_routes(Edge *edge) {
    PyObject *routes = PyObject_GetAttrString(edge->reference, "routes");
    PyObject *items = routes ? PyMapping_Items(routes) : NULL;
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items); i++) {
        int number;
        unsigned int flags;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(items, i), "iI", &number, &flags))
            break;
        origin_t *origin = edge_origin(edge, number);
        if (origin)
            origin->on_route = true, origin->flags = flags;
    }
    Py_XDECREF(routes);
    Py_XDECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_incarnations(Edge *edge) {
    PyObject *incarnations = PyObject_GetAttrString(edge->reference, "incarnations");
    PyObject *rows = incarnations ? PySequence_Fast(incarnations, "incarnations are a sequence") : NULL;
    if (rows && PySequence_Fast_GET_SIZE(rows) == 0)
        PyErr_SetString(PyExc_ValueError, "incarnations must begin at offset 0");
    if (rows && !PyErr_Occurred() &&
        (edge->incarnations = PyMem_Calloc((size_t)PySequence_Fast_GET_SIZE(rows), sizeof(incarnation_t)))) {
        edge->birth_count = (size_t)PySequence_Fast_GET_SIZE(rows);
        for (size_t i = 0; i < edge->birth_count; i++)
            if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(rows, (Py_ssize_t)i), "LI",
                                  &edge->incarnations[i].first_offset, &edge->incarnations[i].incarnation))
                break;
    }
    Py_XDECREF(incarnations);
    Py_XDECREF(rows);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_holes(Edge *edge) {
    PyObject *holes = PyObject_GetAttrString(edge->reference, "holes");
    PyObject *iterator = holes ? PyObject_GetIter(holes) : NULL, *hole;
    while (iterator && (hole = PyIter_Next(iterator))) {
        origin_t *origin = edge_origin(edge, (int)PyLong_AsLong(PyTuple_GetItem(hole, 0)));
        if (origin)
            origin->has_holes = true;
        Py_DECREF(hole);
    }
    Py_XDECREF(holes);
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? -1 : 0;
}

static int Edge_init(Edge *edge, PyObject *args, PyObject *kwargs) {
    PyObject *reference;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_SetString(PyExc_TypeError, "Edge takes one PartitionEdge"), -1;
    if (edge->reference)
        return PyErr_SetString(PyExc_TypeError, "an Edge is made once"), -1;
    if (!PyArg_ParseTuple(args, "O", &reference))
        return -1;
    Py_INCREF(reference);
    edge->reference = reference;
    PyObject *rule = PyObject_GetAttrString(reference, "rule");
    PyObject *stream_id = PyObject_GetAttrString(reference, "stream_id");
    PyObject *writes = rule ? PyObject_GetAttrString(rule, "write_origin") : NULL;
    if (writes && stream_id && PyBytes_Check(stream_id) && PyBytes_GET_SIZE(stream_id) == 8) {
        memcpy(edge->stream_id, PyBytes_AS_STRING(stream_id), 8);
        edge->write_origin = PyObject_IsTrue(writes) == 1;
        edge->partition = (int32_t)number_of(reference, "partition");
        edge->level = (int)number_of(rule, "level");
        edge->source_number = (int)number_of(rule, "source_number");
        edge->flags_header = copied_text(rule, "flags_header");
        edge->origin_header = copied_text(rule, "origin_header");
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "a stream's id is 8 bytes");
    }
    int failed = PyErr_Occurred() || read_origins(edge, rule) || read_routes(edge) || read_incarnations(edge) ||
                 read_holes(edge) || pull_vector(edge, "seen", false) || pull_vector(edge, "covered", true);
    Py_XDECREF(rule);
    Py_XDECREF(stream_id);
    Py_XDECREF(writes);
    return failed ? -1 : 0;
}

static void Edge_dealloc(Edge *edge) {
    Py_XDECREF(edge->reference);
    free(edge->flags_header);
    free(edge->origin_header);
    PyMem_Free(edge->incarnations);
    PyMem_Free(edge->origins);
    Py_TYPE(edge)->tp_free((PyObject *)edge);
}

static PyObject *Edge_copy(Edge *edge, PyObject *args) {
    long long offset;
    PyObject *list, *copied = NULL;
    if (!PyArg_ParseTuple(args, "LO", &offset, &list))
        return NULL;
    rd_kafka_headers_t *headers = list == Py_None ? NULL : headers_from_list(list);
    if (PyErr_Occurred())
        return NULL;
    decision_t decision = edge_decide(edge, offset, &headers);
    if ((decision != EDGE_ASK || edge_ask(edge, offset, &headers, &decision) == 0) && edge_push(edge) == 0)
        copied = decision == EDGE_COPY ? headers_to_list(headers) : Py_NewRef(Py_None);
    if (headers)
        lib.headers_destroy(headers);
    return copied;
}

static PyMethodDef Edge_methods[] = {
    {"copy", (PyCFunction)Edge_copy, METH_VARARGS, "As PartitionEdge.copy(offset, headers)."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Edge_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "backend.kafka.copy.native._record_loop.Edge",
    .tp_doc = "Decides as the PartitionEdge that it is given, and keeps that one's vectors up to date.",
    .tp_basicsize = sizeof(Edge),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Edge_init,
    .tp_dealloc = (destructor)Edge_dealloc,
    .tp_methods = Edge_methods,
};
