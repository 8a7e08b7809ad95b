/* Preloaded into a server: sets its wall clock ahead of the clock of the machine.
   LOCK_TESTKIT_CLOCK names a file with the difference in nanoseconds. The monotonic clock stays as
   it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing;
static volatile int64_t *ahead = &nothing;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("LOCK_TESTKIT_CLOCK");
    /* Not with open(), since the server's allocator may not be ready for it yet. */
    int file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) ahead = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    const int64_t second = 1000000000;
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = now->tv_sec * second + now->tv_nsec + *ahead;
        now->tv_sec = nanoseconds / second;
        now->tv_nsec = nanoseconds % second;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (where) *where = precise.tv_sec;
    return precise.tv_sec;
}

#ifdef __GLIBC__
/* The kernel does not know this clock: convert a deadline to the clock of the machine. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    const int64_t second = 1000000000, by = *ahead;
    /* A deadline before 2001 is not on a wall clock, but on a clock that counts from the boot. */
    if (deadline->tv_sec < 1000000000)
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, deadline);
    struct timespec machine = {deadline->tv_sec - by / second, deadline->tv_nsec - by % second};
    if (machine.tv_nsec < 0) {
        machine.tv_sec -= 1;
        machine.tv_nsec += second;
    } else if (machine.tv_nsec >= second) {
        machine.tv_sec += 1;
        machine.tv_nsec -= second;
    }
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &machine);
}
#endif
