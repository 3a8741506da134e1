/* Ops whose numbers are not computed here: none, or a library's; and ops that are cut into parts. */
#ifndef SDBR_CONTROL_H
#define SDBR_CONTROL_H

#include "pool.h"
#include "sdbr_template.h"

static int nop(const sdbr_op *op) {
    (void)op;
    return SDBR_OK;
}

static int foreign(const sdbr_op *op) {
    sdbr_foreign *prepared = (sdbr_foreign *)(uintptr_t)op->ints[0];
    return prepared->run(prepared, op->operands);
}

#define SDBR_CONTROL_ENTRIES {"nop", nop}, {"foreign", foreign}, {"split", sdbr_split}, {"fork", sdbr_fork},

#endif
