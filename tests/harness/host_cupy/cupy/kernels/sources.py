"""The C source of a kernel for the dtypes of its arguments."""

from __future__ import annotations

import functools
from pathlib import Path

from . import translate
from .parameters import computed, stored

_HERE = Path(__file__).parent


@functools.cache
def prelude() -> str:
    return (_HERE / "prelude.h").read_text(encoding="utf-8")


def _start(name, parameters, dtypes, letters, preamble) -> str:
    lines = [f"/* {name} */", prelude()]
    for letter, dtype in sorted(letters.items()):
        lines += [
            f"typedef {computed(dtype)} {letter};",
            f"typedef {stored(dtype)} {letter}_stored;",
        ]
    lines += [f"static struct argument _raw_{p.name};" for p in parameters if p.raw]
    lines.append(translate.functions(translate.casts(preamble, letters)))
    return "\n".join(lines)


def _raw(parameters, dtypes) -> dict[str, str]:
    return {p.name: stored(d) for p, d in zip(parameters, dtypes, strict=True) if p.raw}


def _take_raw(parameters) -> str:
    return "\n".join(f"_raw_{p.name} = _arguments[{k}];" for k, p in enumerate(parameters) if p.raw)


def _load(k, parameter, dtype, index, const) -> str:
    kind, name = computed(dtype), parameter.name
    return f"{const}{kind} {name} = *(const {stored(dtype)} *)locate(&_arguments[{k}], {index});"


def _store(k, parameter, dtype, index) -> str:
    return f"*({stored(dtype)} *)locate(&_arguments[{k}], {index}) = {parameter.name};"


def elementwise(kernel, dtypes, letters, scalars=()) -> str:
    """A loop over the elements, in whose body the operation stands as it is given.

    Scalars (the places of those arguments) are there outside of the loop as well.
    """
    parameters, nin = kernel.params, kernel.nin
    raw = _raw(parameters, dtypes)
    plain = [
        (k, p, d) for k, (p, d) in enumerate(zip(parameters, dtypes, strict=True)) if not p.raw
    ]
    constants = [_load(k, p, d, "0", "const ") for k, p, d in plain if k in scalars]
    loads = [
        _load(k, p, d, "i", "const " if k < nin else "") for k, p, d in plain if k not in scalars
    ]
    stores = [_store(k, p, d, "i") for k, p, d in plain if k >= nin]
    operation = translate.body(kernel.operation, letters, raw)
    prepared, after = (
        translate.arrays(translate.casts(code, letters), raw)
        for code in (kernel.loop_prep, kernel.after_loop)
    )
    return "\n".join(
        [
            _start(kernel.name, parameters, dtypes, letters, kernel.preamble),
            "void run(const ptrdiff_t _count, const struct argument *_arguments) {",
            # A parameter may have this name as well: it is another block's.
            "const ptrdiff_t n = _count;",
            "{",
            _take_raw(parameters),
            *constants,
            f"{prepared};",
            "for (ptrdiff_t i = 0; i < _count; i++) {",
            *loads,
            # A `continue` of the operation ends it for this element.
            "do {",
            f"{operation};",
            "} while (0);",
            "element_done: __attribute__((unused));",
            *stores,
            "}",
            f"{after};",
            "}",
            "}\n",
        ]
    )


def reduction(kernel, dtypes, letters, scalars=()) -> str:
    """For each result a loop over what it is made of: the reduced axes come first."""
    parameters, nin = kernel.params, kernel.nin
    raw = _raw(parameters, dtypes)
    typed = list(enumerate(zip(parameters, dtypes, strict=True)))
    plain = [(k, p, d) for k, (p, d) in typed[:nin] if not p.raw]
    constants = [_load(k, p, d, "0", "const ") for k, p, d in plain if k in scalars]
    ins = [_load(k, p, d, "_j", "const ") for k, p, d in plain if k not in scalars]
    outs = [_load(k, p, d, "_i", "") for k, (p, d) in typed[nin:] if not p.raw]
    stores = [_store(k, p, d, "_i") for k, (p, d) in typed[nin:] if not p.raw]
    mapped, combined, post = (
        translate.arrays(translate.casts(code, letters), raw)
        for code in (kernel.map_expr, kernel.reduce_expr, kernel.post_map_expr)
    )
    kind = kernel.reduce_type or computed(dtypes[-1])
    first = kernel.identity or "0"
    taken = "combine(a, _mapped)"
    if not kernel.identity:
        taken = f"_k ? {taken} : _mapped"
    return "\n".join(
        [
            _start(kernel.name, parameters, dtypes, letters, kernel.preamble),
            f"typedef {kind} _reduced;",
            f"static _reduced combine(_reduced a, _reduced b) {{ return ({combined}); }}",
            "void run(ptrdiff_t _outs, ptrdiff_t _each, const struct argument *_arguments) {",
            _take_raw(parameters),
            *constants,
            "for (ptrdiff_t _i = 0; _i < _outs; _i++) {",
            f"_reduced a = {first};",
            "for (ptrdiff_t _k = 0; _k < _each; _k++) {",
            "const ptrdiff_t _j = _i + _k * _outs;",
            *ins,
            f"const _reduced _mapped = ({mapped});",
            f"a = {taken};",
            "}",
            *outs,
            f"{post};",
            *stores,
            "}",
            "}\n",
        ]
    )
