"""Updates of parameters."""

from sdbr.ops.op import Rows

row = Rows()

# --- update: operands that are written are inputs and outputs at once -----------------------------
row(
    "sgd",
    "g:T p:T",
    "p_out:T",
    "p -= lr * g",
    floats="lr",
    inplace=(1,),
    effect=True,
)
row('momentum_sgd', 'g:T p:T v:T', 'p_out:T v_out:T', 'v = momentum * v - lr * g; p += v', floats='lr momentum', effect=True)  # fmt: skip
row('adam', 'g:T p:T m:T v:T vhat:T*', 'p_out:T m_out:T v_out:T vhat_out:T*',
    'm += one_minus_beta1 * (g - m); v += one_minus_beta2 * (g * g - v); s = maximum(vhat, v) -> vhat when given, '
    'else v; step = alpha_t / (sqrt(s) + eps), clipped to [lower, upper]; p = decay * p - eta * step * m',
    floats='alpha_t one_minus_beta1 one_minus_beta2 eps eta decay lower upper', effect=True)  # fmt: skip
row('rmsprop', 'g:T p:T ms:T', 'p_out:T ms_out:T',
    'ms = alpha * ms + one_minus_alpha * g * g; p -= lr * g / (sqrt(ms + eps_inside) + eps_outside)',
    floats='lr alpha one_minus_alpha eps_inside eps_outside', effect=True)  # fmt: skip
row(
    "weight_decay",
    "g:T p:T",
    "g_out:T",
    "g += rate * p",
    floats="rate",
    inplace=(0,),
    effect=True,
)
row(
    "lasso",
    "g:T p:T",
    "g_out:T",
    "g += rate * sign(p)",
    floats="rate",
    inplace=(0,),
    effect=True,
)
row('clip_norm', 'g:T*', 'norm:A', 'rate = threshold / sqrt(sum of (g * g).sum() over all g); unless rate >= 1: g *= rate in '
    'place, for each g; norm scalar float64 receives the norm', floats='threshold', effect=True)  # fmt: skip

ROWS = row.rows
