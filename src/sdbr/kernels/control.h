/* Ops that move no numbers. */
#ifndef SDBR_CONTROL_H
#define SDBR_CONTROL_H

#include "sdbr_template.h"

static int nop(const sdbr_op *op) {
    (void)op;
    return SDBR_OK;
}

#define SDBR_CONTROL_ENTRIES {"nop", nop},

#endif
