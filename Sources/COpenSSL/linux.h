#ifndef PUSHQ_CLINUX_H
#define PUSHQ_CLINUX_H

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

// <pthread.h> declares it for _GNU_SOURCE only, which Swift's importer does not define.
extern int pthread_setname_np(pthread_t thread, const char *name);

#endif
