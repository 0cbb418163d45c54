/* Preloaded into a process, adds the microseconds in the file CLOCK_OFFSET to its wall clock: CLOCK_REALTIME,
   gettimeofday and time. Clocks for durations stay true. libfaketime breaks time.sleep of Python 3.11 and newer. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

static int moved(struct timespec *out, int (*original)(clockid_t, struct timespec *), clockid_t clock) {
    int failed = original(clock, out);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanos = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + *offset * 1000;
        out->tv_sec = nanos / 1000000000;
        out->tv_nsec = nanos % 1000000000;
    }
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*original)(clockid_t, struct timespec *);
    if (!original) original = dlsym(RTLD_NEXT, "clock_gettime");
    return moved(out, original, clock);
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
