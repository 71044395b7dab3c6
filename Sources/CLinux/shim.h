#ifndef PUSHQ_CLINUX_SHIM_H
#define PUSHQ_CLINUX_SHIM_H

// What Swift's Glibc module leaves out of the C library: epoll, event descriptors, five functions and the environment. It links
// nothing more.

#include <sys/epoll.h>
#include <sys/eventfd.h>

// <pthread.h> and <sys/socket.h> declare these for _GNU_SOURCE only, which Swift's importer does not define. The headers are not
// included, since their types would then belong to this module instead of Glibc.

extern int pthread_setname_np(unsigned long thread, const char *name);

// `until` is a `struct timespec`, of CLOCK_REALTIME.
extern int pthread_timedjoin_np(unsigned long thread, void **result, const void *until);

// Its numbers are in <linux/prctl.h>. Swift imports no function with a variable number of arguments.
static inline int pushq_prctl_set_dumpable(int isDumpable) {
    extern int prctl(int option, ...);
    return prctl(4 /* PR_SET_DUMPABLE */, (unsigned long)isDumpable, 0UL, 0UL, 0UL);
}

static inline int pushq_prctl_get_dumpable(void) {
    extern int prctl(int option, ...);
    return prctl(3 /* PR_GET_DUMPABLE */, 0UL, 0UL, 0UL, 0UL);
}

// <unistd.h> declares the variable for _GNU_SOURCE only. A variable would be imported as one that several threads may change.
static inline char *const *pushq_environment(void) {
    extern char **environ;
    return environ;
}

extern int accept4(int descriptor, void *address, void *byteCount, int flags);

#endif
