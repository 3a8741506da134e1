"""Convolutions."""

from sdbr.program.op import Rows

row = Rows()

_NUMBERS = "sd sh sw pd ph pw dd dh dw groups"

# --- convolutions -------------------------------------------------------------------------------
row('convolution', 'x:T w:T b:T*', 'y:T scratch:T',
    'y[i, o, p] = act(sum over c, k of w[o, c, k] * x[i, group(o) + c, p * stride - pad + k * dilation] + b[o]), a read '
    'outside of x is 0; x[n, c, d, h, w], w[o, c / groups, kd, kh, kw], optional b[o], y[n, o, od, oh, ow] of any size, '
    'all C-contiguous; activation 0 none, 1 relu', ints=f'{_NUMBERS} activation', family='convolution')  # fmt: skip
row('convolution_grad_x', 'gy:T w:T b:T*', 'gx:T scratch:T',
    'gx = act(the gradient of convolution for x + b[c]): what each output pixel read gets w * gy; also the forward of a '
    'deconvolution', ints=f'{_NUMBERS} activation', family='convolution')  # fmt: skip
row('convolution_grad_w', 'x:T gy:T', 'gw:T scratch:T',
    'gw = the gradient of convolution for w + (gw if accumulate else 0)',
    ints=f'{_NUMBERS} accumulate', family='convolution')  # fmt: skip

ROWS = row.rows
