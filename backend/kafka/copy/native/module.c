/* Python module `_record_loop`; it uses the librdkafka that confluent-kafka has loaded. */
#include <dlfcn.h>
#include <string.h>

#include "loop.h"

struct librdkafka lib;
void (*CallState_begin)(void *, call_state_t *);
int (*CallState_end)(void *, call_state_t *);

static void *found(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol && !PyErr_Occurred())
        PyErr_Format(PyExc_ImportError, "confluent-kafka has no %s", name);
    return symbol;
}

static int check_version(PyObject *package) {
    PyObject *version = PyObject_GetAttrString(package, "__version__");
    const char *text = version ? PyUnicode_AsUTF8(version) : NULL;
    int same = text && strcmp(text, CONFLUENT_KAFKA_VERSION) == 0;
    if (!same && !PyErr_Occurred())
        PyErr_Format(PyExc_ImportError, "built for confluent-kafka %s, not %s", CONFLUENT_KAFKA_VERSION, text);
    Py_XDECREF(version);
    return same ? 0 : -1;
}

/* A look-up in confluent-kafka's extension finds its own symbols and those of the library linked into it. */
static int bind_library(void) {
    PyObject *package = PyImport_ImportModule("confluent_kafka");
    PyObject *extension = package ? PyImport_ImportModule("confluent_kafka.cimpl") : NULL;
    PyObject *file = extension ? PyObject_GetAttrString(extension, "__file__") : NULL;
    const char *path = file ? PyUnicode_AsUTF8(file) : NULL;
    void *library = NULL;
    if (path && check_version(package) == 0) {
        library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (!library)
            PyErr_Format(PyExc_ImportError, "confluent-kafka is not loaded: %s", dlerror());
    }
    if (library) {
#define BIND(result, name, arguments) *(void **)&lib.name = found(library, "rd_kafka_" #name);
        LIBRDKAFKA(BIND)
#undef BIND
        *(void **)&CallState_begin = found(library, "CallState_begin");
        *(void **)&CallState_end = found(library, "CallState_end");
    }
    Py_XDECREF(file);
    Py_XDECREF(extension);
    Py_XDECREF(package);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *client_name(PyObject *Py_UNUSED(module), PyObject *client) {
    rd_kafka_t *handle = handle_of(client);
    if (!handle)
        Py_RETURN_NONE;
    return Py_BuildValue("(si)", lib.name(handle), lib.type(handle));
}

static PyMethodDef methods[] = {
    {"client_name", client_name, METH_O, "(name, type) that librdkafka knows a Producer (0) or Consumer (1) by."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_record_loop", "The record loop on librdkafka itself.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__record_loop(void) {
    if (bind_library() || PyType_Ready(&Edge_type) || PyType_Ready(&Loop_type))
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddObjectRef(module, "Edge", (PyObject *)&Edge_type) ||
                   PyModule_AddObjectRef(module, "Loop", (PyObject *)&Loop_type)))
        Py_CLEAR(module);
    return module;
}
