"""Connectionist temporal classification."""

from sdbr.ops.op import Rows

row = Rows()

# --- paths through the labels of a sequence ------------------------------------------------------
row('ctc', 'x:T n:I m:I t:I', 'loss:T y:T paths:T scratch:T',
    'y = softmax(x) over v; loss[b] = -logsumexp(paths[0, b]); paths[s, b, k]: log-probability of all paths that are at '
    'place k of the labels, with blanks between them, at time s; x[s, b, v], labels t[b, l] int32, lengths n[b] and '
    'm[b] int32, paths[s, b, 2 l + 1], scratch[4 (2 l + 3)]; IndexError for labels outside [-v, v)', ints='blank')  # fmt: skip
row('ctc_grad', 'y:T paths:T n:I m:I t:I gloss:T', 'gx:T',
    'gx[s, b] = gloss[b] * (s < n[b]) * (y[s, b] - the share of the paths that are at each label at time s)', ints='blank')  # fmt: skip

ROWS = row.rows
