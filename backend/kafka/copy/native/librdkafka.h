/* The part of librdkafka's C interface that the record loop uses.
 *
 * The functions are looked up at run time in the library that confluent-kafka has loaded, so that both work
 * on the same clients. Types and values are those of librdkafka's public header (rdkafka.h, stable since 1.0).
 */
#ifndef TREELINE_LIBRDKAFKA_H
#define TREELINE_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { END = 0, RKT = 2, PARTITION = 3, VALUE = 4, KEY = 5, MSGFLAGS = 7, TIMESTAMP = 8, HEADERS = 10 };
enum { MSG_F_COPY = 0x2 };
enum { ERR_NONE = 0, ERR_QUEUE_FULL = -184 };

/* X(result, name, arguments): one function pointer `lib.name` each. */
#define LIBRDKAFKA(X)                                                                                              \
    X(const char *, version_str, (void))                                                                           \
    X(const char *, name, (const rd_kafka_t *))                                                                    \
    X(int, type, (const rd_kafka_t *))                                                                             \
    X(const char *, err2str, (int))                                                                                \
    X(int, last_error, (void))                                                                                     \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                      \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                   \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                      \
    X(void, message_destroy, (rd_kafka_message_t *))                                                               \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                             \
    X(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                   \
    X(int, message_detach_headers, (rd_kafka_message_t *, rd_kafka_headers_t **))                                  \
    X(const char *, message_errstr, (const rd_kafka_message_t *))                                                  \
    X(rd_kafka_headers_t *, headers_new, (size_t))                                                                 \
    X(void, headers_destroy, (rd_kafka_headers_t *))                                                               \
    X(int, header_add, (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                       \
    X(int, header_remove, (rd_kafka_headers_t *, const char *))                                                    \
    X(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))           \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, void *))                                         \
    X(void, topic_destroy, (rd_kafka_topic_t *))                                                                   \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                        \
    X(int, producev, (rd_kafka_t *, ...))

struct librdkafka {
#define POINTER(result, name, arguments) result(*name) arguments;
    LIBRDKAFKA(POINTER)
#undef POINTER
};
extern struct librdkafka lib;

#endif
