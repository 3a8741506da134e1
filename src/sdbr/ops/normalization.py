"""Normalization by moments."""

from sdbr.ops.op import Rows

row = Rows()

# --- batches: x[outer, c, inner] C-contiguous, statistics per c --------------------------------
row('batch_norm', 'x:T gamma:T beta:T more:T*', 'y:T mean:T var:T',
    'mean = x.mean((0, 2)); var = x.var((0, 2)); y = gamma * (x - mean) / sqrt(var + eps) + beta (+ more), and '
    'maximum(y, 0) when activation is 1; x[outer, c, inner] as y and more, the others [c]', ints='activation', floats='eps', inplace=(0,))  # fmt: skip
row('batch_norm_grad', 'x:T gamma:T mean:T var:T gy:T y:T*', 'gx:T ggamma:T gbeta:T',
    'g = gy, or gy * (y > 0) when there is a y; x_hat = (x - mean) / sqrt(var + eps); gbeta = g.sum((0, 2)); ggamma = '
    '(g * x_hat).sum((0, 2)); gx = gamma / sqrt(var + eps) * (g - (x_hat * ggamma + gbeta) / (outer * inner))',
    floats='eps', inplace=(0, 4))  # fmt: skip
row('batch_norm_relu_grad', 'x:T gamma:T beta:T mean:T var:T gy:T', 'gx:T ggamma:T gbeta:T',
    'batch_norm_grad with y = gamma * (x - mean) / sqrt(var + eps) + beta, as batch_norm has rounded it', floats='eps', inplace=(0, 5))  # fmt: skip
row('batch_norm_sums', 'x:T mean:T var:T gy:T', 'ggamma:T gbeta:T',
    'gbeta = gy.sum((0, 2)); ggamma = (gy * (x - mean) / sqrt(var + eps)).sum((0, 2))', floats='eps')  # fmt: skip
row('fixed_batch_norm', 'x:T gamma:T beta:T mean:T var:T more:T*', 'y:T',
    'y = gamma * (x - mean) / sqrt(var + eps) + beta (+ more), and maximum(y, 0) when activation is odd; 2 more: the factor is '
    'rounded as by batch_norm, whose result this is again', ints='activation', floats='eps', inplace=(0,))  # fmt: skip
row('update_statistics', 'mean:T var:T running_mean:T running_var:T', 'mean_out:T var_out:T',
    'running_mean = decay * running_mean + (1 - decay) * mean; running_var = decay * running_var + (1 - decay) * '
    'var * count / max(count - 1, 1)', ints='count', floats='decay', effect=True)  # fmt: skip

# --- groups: x[n, groups, length] C-contiguous, statistics per n and group -----------------------
row('group_norm', 'x:T gamma:T beta:T', 'y:T mean:T inv_std:T',
    'mean = x.mean(2); inv_std = 1 / sqrt(x.var(2) + eps); y = gamma * (x - mean) * inv_std + beta; mean and inv_std '
    '[n, groups]; gamma and beta [groups * length / run], each number for a run of as many elements', floats='eps', inplace=(0,))  # fmt: skip
row('group_norm_grad', 'x:T gamma:T mean:T inv_std:T gy:T', 'gx:T ggamma:T gbeta:T',
    'x_hat = (x - mean) * inv_std; g = gamma * gy; gx = inv_std * (g - (g.sum(2) + x_hat * (g * x_hat).sum(2)) / '
    'length), NaN with `layer` where the last sum is infinite; gbeta and ggamma: the sums of gy and of gy * x_hat over n and each run', ints='layer',
    inplace=(0, 4))  # fmt: skip

# --- neighbours: x[outer, c, inner] C-contiguous, along c -----------------------------------------
row('local_response', 'x:T', 'y:T',
    's = k + alpha * (sum of x ** 2 over channels i - half to i + half); y = x * s ** -beta', ints='half',
    floats='k alpha beta')  # fmt: skip
row('local_response_grad', 'x:T gy:T', 'gx:T',
    's as in local_response; gx = gy * s ** -beta - 2 * alpha * beta * x * (sum of x * gy * s ** (-beta - 1) over '
    'channels i - half to i + half); half at most 15', ints='half', floats='k alpha beta',
    inplace=(1,))  # fmt: skip

ROWS = row.rows
