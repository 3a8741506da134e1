/* What kernels for GPUs are written in: the part of C that C99 and CUDA C++ share, so that the same source is a
 * kernel of a device, and a function of the host that tests call.
 *
 * An op is one function over a team: threads that share its work, whoever launched them. A kernel is the team of a
 * whole grid. */
#ifndef SDBR_TEAM_CUH
#define SDBR_TEAM_CUH

#include "frame/template.h"

/* Python that prepares launches has these, too (backends/cuda/launch.py), and compares them. */
enum { SDBR_DEVICE_OPERANDS = 16, SDBR_DEVICE_INTS = 48, SDBR_DEVICE_FLOATS = 32, SDBR_DEVICE_AXES = 8 };

/* An op as a launch hands it over, by value; see sdbr_op in frame/abi.h. */
typedef struct sdbr_device_op {
    char *operands[SDBR_DEVICE_OPERANDS];
    int64_t ints[SDBR_DEVICE_INTS];
    double floats[SDBR_DEVICE_FLOATS];
} sdbr_device_op;

typedef struct sdbr_team {
    int64_t rank, size;
} sdbr_team;

#if defined(__CUDACC__)
#define SDBR_KERNEL(name, body) \
    extern "C" __global__ void name(const __grid_constant__ sdbr_device_op op) { \
        const sdbr_team team = {(int64_t)blockIdx.x * blockDim.x + threadIdx.x, (int64_t)gridDim.x * blockDim.x}; \
        body(team, &op); \
    }
#else
/* One thread of the team at a time: for ops whose threads do not wait for each other. */
#define SDBR_KERNEL(name, body) \
    void name(const sdbr_device_op *op, int64_t size) { \
        for (int64_t rank = 0; rank < size; rank++) { \
            const sdbr_team team = {rank, size}; \
            body(team, op); \
        } \
    }
const int64_t sdbr_device_op_bytes = sizeof(sdbr_device_op);
#endif

#endif
