/* Preloaded, it puts a process's wall clock off by CLOCK_OFF_SECONDS, and nothing else.

   Waits until a time of the wall clock are put right again, as on a machine whose clock really is off: librdkafka's
   are of that kind. The monotonic clock, and all waits on it, stay what they are. (Under libfaketime sleeps fail with
   EINVAL, and librdkafka, whose waits are C11's, hangs.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name) {
    /* Of two versions of condition variables, dlsym may give the one of 1998. */
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

static time_t off(void) {
    static time_t seconds;
    static int known;
    if (!known) {
        const char *text = getenv("CLOCK_OFF_SECONDS");
        seconds = text ? atoll(text) : 0;
        known = 1;
    }
    return seconds;
}

static int of_wall_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

/* A time that a wait is to last until: nearer to the wall clock, which counts from 1970, than to a machine's start. */
static struct timespec right(const struct timespec *until) {
    struct timespec put_right = *until;
    if (until->tv_sec > 500000000)
        put_right.tv_sec -= off();
    return put_right;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = NEXT(clock_gettime)(clock, now);
    if (!failed && of_wall_clock(clock))
        now->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = NEXT(gettimeofday)(now, zone);
    if (!failed)
        now->tv_sec += off();
    return failed;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec put_right = right(until);
    return NEXT(pthread_cond_timedwait)(cond, mutex, &put_right);
}

/* C11's, which librdkafka uses where there are such. */
int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec put_right = right(until);
    return NEXT(cnd_timedwait)(cond, mutex, &put_right);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec put_right = right(until);
    return NEXT(pthread_mutex_timedlock)(mutex, &put_right);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec put_right = right(until);
    return NEXT(sem_timedwait)(semaphore, &put_right);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    struct timespec put_right = (flags & TIMER_ABSTIME) && of_wall_clock(clock) ? right(until) : *until;
    return NEXT(clock_nanosleep)(clock, flags, &put_right, left);
}
