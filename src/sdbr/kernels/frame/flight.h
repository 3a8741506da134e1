/* Collectives that were begun and not waited for yet. */
#ifndef SDBR_FLIGHT_H
#define SDBR_FLIGHT_H

#include <stdint.h>

#include "frame/sdbr_limits.h"

/* At least an MPI_Status of any MPI; nobody reads it. */
typedef struct sdbr_mpi_state {
    int64_t fields[16];
} sdbr_mpi_state;

typedef int (*sdbr_mpi_test)(void *request, int *done, sdbr_mpi_state *);
typedef int (*sdbr_mpi_wait)(void *request, sdbr_mpi_state *);

/* Those with the numbers [ended, begun) are under way. */
typedef struct sdbr_flight {
    int64_t begun;
    int64_t ended;
    sdbr_mpi_test test;
    sdbr_mpi_wait wait;
    int64_t requests[SDBR_REQUESTS]; /* an MPI_Request each: a pointer, or an int */
} sdbr_flight;

/* Wait for those below `end`; the status of the library. */
static inline int sdbr_land(sdbr_flight *flight, int64_t end) {
    sdbr_mpi_state state;
    int failed = 0;
    for (; flight->ended < end; ++flight->ended) {
        const int status = flight->wait(&flight->requests[flight->ended], &state);
        if (status)
            failed = status;
    }
    if (flight->ended == flight->begun)
        flight->begun = flight->ended = 0;
    return failed;
}

#endif
