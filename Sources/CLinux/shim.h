#ifndef PUSHQ_CLINUX_SHIM_H
#define PUSHQ_CLINUX_SHIM_H

// What Swift's Glibc module leaves out of the C library: epoll, event descriptors and three functions. It links nothing more.

#include <sys/epoll.h>
#include <sys/eventfd.h>

// <pthread.h> and <sys/socket.h> declare these for _GNU_SOURCE only, which Swift's importer does not define. The headers are not
// included, since their types would then belong to this module instead of Glibc.

extern int pthread_setname_np(unsigned long thread, const char *name);

// `until` is a `struct timespec`, of CLOCK_REALTIME.
extern int pthread_timedjoin_np(unsigned long thread, void **result, const void *until);

extern int accept4(int descriptor, void *address, void *byteCount, int flags);

#endif
