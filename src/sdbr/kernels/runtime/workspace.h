/* Scratch memory of the running thread, for kernels that need more than a stack has. */
#ifndef SDBR_WORKSPACE_H
#define SDBR_WORKSPACE_H

#include <stddef.h>

/* At least `size` bytes, 64-byte aligned, valid until this thread asks again; NULL when there is no
 * memory. It is kept for the next time and freed when the thread ends. */
void *sdbr_workspace(size_t size);

#endif
