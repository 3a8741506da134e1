"""Elements chosen by indices or a condition, sums along an axis, images of another size."""

from sdbr.program.op import Rows

row = Rows()

# --- by index: t0, t1, ... are 1-D, of one length m and any integer dtype; negative ones wrap -----
row('take', 'x:A t:I*', 'y:A',
    'y[o, j, i] = x[o, t0[j], t1[j], ..., i]; 0 where has_ignore and t0[j] == ignore_label; x[outer, n0, n1, ..., inner] '
    'with any strides; IndexError outside [-n, n)', ints='has_ignore ignore_label', family='array')  # fmt: skip
row('put', 'x:A t:I*', 'y:A', 'y[o, t0[j], t1[j], ..., i] = x[o, j, i]; the rest of y stays',
    ints='has_ignore ignore_label', family='array')  # fmt: skip
row('scatter_add', 'gy:T t:I*', 'gx:T',
    'gx = (gx if accumulate else 0); gx[o, t0[j], t1[j], ..., i] += gy[o, j, i] in the order of j, but where has_ignore '
    'and t0[j] == ignore_label', ints='accumulate has_ignore ignore_label', family='array')  # fmt: skip
row('where', 'c:A x:A y:A', 'z:A', 'z = np.where(c, x, y); c bool; any strides', family='array')  # fmt: skip

ROWS = row.rows
