"""Pooling over windows of up to three axes."""

from sdbr.ops.op import Rows

row = Rows()

# x[n, d, h, w] with images and channels as one axis n; y[n, od, oh, ow] has one element per window:
# window (a, b, c) covers x[:, a * sd - pd : a * sd - pd + kd, ...], as far as there is x.
_WINDOW = "kd kh kw sd sh sw pd ph pw"

row('max_pooling', 'x:T', 'y:T', 'y = the largest of each window, -inf beyond the border; NaN if there is one; '
    'x[n, d, h, w], y[n, od, oh, ow]', ints=_WINDOW)  # fmt: skip
row('max_pooling_index', 'x:T', 'y:T k:I',
    'y = max_pooling(x); k = the place of the first largest (or the first NaN) in its window of kd * kh * kw; uint8 or '
    'int32', ints=_WINDOW)  # fmt: skip
row('max_pooling_grad', 'gy:T k:I', 'gx:T', 'gx = 0; gx[place k of the window] += gy, where that is within x; IndexError '
    'for k outside [-kd * kh * kw, kd * kh * kw) unless known, which says that max_pooling_index made k',
    ints=f'{_WINDOW} known')  # fmt: skip
row('max_pooling_pick', 'x:T k:I', 'y:T', 'y = x[place k of the window], beyond the border 0 where zero, else -inf; '
    'IndexError as above', ints=f'{_WINDOW} zero')  # fmt: skip
row('average_pooling', 'x:T', 'y:T',
    'y = the sum of each window / (1, kd * kh * kw, the elements within x)[divide]', ints=f'{_WINDOW} divide')  # fmt: skip
row('average_pooling_grad', 'gy:T', 'gx:T', 'gx = the sum of gy / (1, kd * kh * kw, the elements within x)[divide] over '
    'the windows that cover an element', ints=f'{_WINDOW} divide')  # fmt: skip

ROWS = row.rows
