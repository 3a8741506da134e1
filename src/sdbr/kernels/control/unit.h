/* Ops whose numbers are not computed here: none, or a library's; and ops that are cut into parts. */
#include "runtime/threads.h"
#include "frame/template.h"

static int nop(const sdbr_op *op) {
    (void)op;
    return SDBR_OK;
}

static int foreign(const sdbr_op *op) {
    sdbr_foreign *prepared = (sdbr_foreign *)(uintptr_t)op->ints[0];
    return prepared->run(prepared, op->operands);
}

#define SDBR_ENTRIES {"nop", nop}, {"foreign", foreign}, {"split", sdbr_split}, {"fork", sdbr_fork},
