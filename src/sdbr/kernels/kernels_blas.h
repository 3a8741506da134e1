/* Matrix products; see kernels_update.h for how a family joins the registry. */
#define SDBR_BLAS_ENTRIES
