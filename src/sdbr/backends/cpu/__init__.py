"""Programs on the processor: which kernel runs each op, and what it needs to know.

One module per family of the op table has a function

    prepare(name, ins, outs, ints) -> (kernel name, integers[, choice])

`name` is the name of the op, `ins` and `outs` are its operands as
``(dtype code, shape, strides)`` (codes of :data:`sdbr.base.dtypes.DTYPES`,
strides in bytes), `ints` its integer attributes. The integers are what the
kernel finds in ``op->ints``. The choice, where there was one, is an object that lives as long
as the prepared program; ``str(choice)`` is what `explain` shows. A prepare function that has no
kernel for its operands raises :class:`~sdbr.BackendError`.
"""
