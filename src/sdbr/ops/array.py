"""Elements chosen by indices or a condition, sums along an axis, images of another size."""

from sdbr.ops.op import Rows

row = Rows()

# --- by index: t0, t1, ... are 1-D, of one length m and any integer dtype; negative ones wrap -----
row('take', 'x:A t:I*', 'y:A',
    'y[o, j, i] = x[o, t0[j], t1[j], ..., i]; 0 where has_ignore and t0[j] == ignore_label; x[outer, n0, n1, ..., inner] '
    'with any strides; IndexError outside [-n, n)', ints='has_ignore ignore_label')  # fmt: skip
row('put', 'x:A t:I*', 'y:A', 'y[o, t0[j], t1[j], ..., i] = x[o, j, i]; the rest of y stays',
    ints='has_ignore ignore_label')  # fmt: skip
row('scatter_add', 'gy:T t:I*', 'gx:T',
    'gx = (gx if accumulate else 0); gx[o, t0[j], t1[j], ..., i] += gy[o, j, i] in the order of j, but where has_ignore '
    'and t0[j] == ignore_label', ints='accumulate has_ignore ignore_label')  # fmt: skip
row('where', 'c:A x:A y:A', 'z:A', 'z = np.where(c, x, y); c bool; any strides')  # fmt: skip

# --- along n of x[outer, n, inner], C-contiguous ---------------------------------------------------
row('cumsum', 'x:T', 'y:T', 'y = x.cumsum(1), from the end where reverse', ints='reverse')  # fmt: skip
row("cumprod", "x:T", "y:T", "y = x.cumprod(1)")
row('cumprod_grad', 'x:T y:T gy:T', 'gx:T', 'gx[i] = y[i - 1] * z[i]; z[i] = gy[i] + x[i + 1] * z[i + 1]')  # fmt: skip
row("prod", "x:T", "y:T", "y[outer, inner] = x.prod(1)")
row('prod_grad', 'x:T gy:T', 'gx:T', 'gx[i] = gy * the product of all x but x[i]; gy[outer, inner]')  # fmt: skip

# --- images x[n, h, w] to y[n, out_h, out_w], C-contiguous -----------------------------------------
row('resize', 'x:T', 'y:T', 'y = x interpolated between its four neighbours at (linspace(0, h - 1, out_h), '
    'maximum((arange(out_h) + 0.5) * h / out_h - 0.5, 0), minimum(floor(arange(out_h) * h / out_h), h - 1))[mode]',
    ints='mode')  # fmt: skip
row(
    "resize_grad",
    "gy:T",
    "gx:T",
    "gx = gy handed to the four neighbours",
    ints="mode",
)

ROWS = row.rows
