#ifndef PUSHQ_CPOSTGRES_SHIM_H
#define PUSHQ_CPOSTGRES_SHIM_H

#include <libpq-fe.h>

#endif
