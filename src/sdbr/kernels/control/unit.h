/* Ops whose numbers are not computed here: none, or a library's; and ops that are cut into parts. */
#include "runtime/threads.h"
#include "frame/template.h"

#include "control/collectives.h"

static int nop(const sdbr_op *op) {
    (void)op;
    return SDBR_OK;
}

/* ints: the answer of the trace, the number of the question. */
static int answered(const sdbr_op *op, int64_t answer) {
    if (answer == op->ints[0])
        return SDBR_OK;
    op->runtime->fault_value = answer;
    op->runtime->fault_position = op->ints[1];
    return SDBR_OTHER_ANSWER;
}

static int question_b1(const sdbr_op *op) {
    return answered(op, *(const uint8_t *)op->operands[0] != 0);
}

static int question_i8(const sdbr_op *op) {
    return answered(op, *(const int64_t *)op->operands[0]);
}

static int foreign(const sdbr_op *op) {
    sdbr_foreign *prepared = (sdbr_foreign *)(uintptr_t)op->ints[0];
    return prepared->run(prepared, op->operands);
}

#define SDBR_ENTRIES                                                                                     \
    {"allreduce_f4", allreduce_f4}, {"allreduce_f8", allreduce_f8},                                     \
    {"allreduce_begin_f4", allreduce_begin_f4}, {"allreduce_begin_f8", allreduce_begin_f8},             \
    {"allreduce_end_f4", allreduce_end_f4}, {"allreduce_end_f8", allreduce_end_f8},                     \
    {"allreduce_progress", allreduce_progress}, {"nop", nop}, {"question_b1", question_b1},             \
    {"question_i8", question_i8}, {"foreign", foreign}, {"split", sdbr_split}, {"fork", sdbr_fork},
