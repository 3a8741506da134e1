"""The C++ of kernels as C: casts, templates, references, and arrays with indices."""

from __future__ import annotations

import re

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PLAIN_TYPES = ("float", "double", "int", "bool", "size_t", "ptrdiff_t")


def end_of(code: str, start: int) -> int:
    """Where the bracket closes that opens at `start`."""
    opening, closing = code[start], _CLOSING[code[start]]
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] == opening) - (code[i] == closing)
        if not depth:
            return i
    raise ValueError(f"{opening} is not closed: {code[start : start + 80]}")


def casts(code: str, letters) -> str:
    """``static_cast<T>(x)`` and ``T(x)`` are ``(T)(x)``."""
    # What a pointer points to lies in memory: there, halves are halves.
    in_memory = {letter: f"{letter}_stored" for letter in letters}

    pattern = re.compile(r"(static|const|reinterpret)_cast\s*<([^<>]+)>\s*\(")
    while match := pattern.search(code):
        kind, end = match[2], end_of(code, match.end() - 1)
        if match[1] == "reinterpret":
            kind = re.sub(r"\b\w+\b", lambda m: in_memory.get(m[0], m[0]), kind)
        # In parentheses: an index may follow.
        made = f"(({kind})({code[match.end() : end]}))"
        code = code[: match.start()] + made + code[end + 1 :]
    names = "|".join(map(re.escape, (*letters, *_PLAIN_TYPES)))
    return re.sub(rf"(?<![\w.])({names})\s*\((?!\s*\*)", r"(\1)(", code)


def arrays(code: str, raw: dict[str, str]) -> str:
    """Of arrays that the code indexes itself (name -> type in memory): elements and shapes."""
    if not raw:
        return code
    names = "|".join(map(re.escape, raw))
    code = re.sub(rf"(?<![\w.])({names})\s*\.\s*(shape|strides)\s*\(\s*\)", r"_raw_\1.\2", code)
    code = re.sub(rf"(?<![\w.])({names})\s*\.\s*size\s*\(\s*\)", r"_raw_\1.size", code)
    code = re.sub(rf"(?<![\w.])({names})\s*\.\s*ndim\b", r"_raw_\1.ndim", code)
    pattern = re.compile(rf"(?<![\w.])({names})\s*\[")
    done, rest = "", code
    while match := pattern.search(rest):
        end = end_of(rest, match.end() - 1)
        index = arrays(rest[match.end() : end], raw)
        done += f"{rest[: match.start()]}AT(_raw_{match[1]}, {raw[match[1]]}, ({index}))"
        rest = rest[end + 1 :]
    return done + rest


def functions(code: str) -> str:
    """Functions of a preamble: templates of the kernel's own letters, arguments by reference."""
    code = re.sub(r"template\s*<[^<>]*>", "", code)
    code = re.sub(r"\b__(?:device|host|forceinline)__\b", "", code)
    code = re.sub(r"\bconst\s+(\w+)\s*&\s*(\w+)", r"const \1 \2", code)
    pattern = re.compile(r"(\w+)\s*\(([^(){}]*&[^(){}]*)\)\s*\{")
    while match := pattern.search(code):
        end = end_of(code, match.end() - 1)
        made = _by_address(match[1], match[2], code[match.end() : end])
        code = code[: match.start()] + made + code[end + 1 :]
    return code


def _by_address(name: str, parameters: str, body: str) -> str:
    """A function some of whose arguments are references, and the macro that calls it."""
    taken, passed, references = [], [], []
    for i, parameter in enumerate(parameters.split(",")):
        if "&" in parameter:
            kind, reference = (part.strip() for part in parameter.split("&"))
            references.append(reference)
            taken.append(f"{kind} *_to_{reference}")
            passed.append(f"&(_{i})")
        else:
            taken.append(parameter.strip())
            passed.append(f"_{i}")
    defined = "".join(f"#define {x} (*_to_{x})\n" for x in references)
    undefined = "".join(f"#undef {x}\n" for x in references)
    arguments = ", ".join(f"_{i}" for i in range(len(taken)))
    return (
        f"{name}_by_address({', '.join(taken)}) {{\n{defined}{body}\n{undefined}}}\n"
        f"#define {name}({arguments}) {name}_by_address({', '.join(passed)})\n"
    )


def body(code: str, letters, raw: dict[str, str]) -> str:
    """The operation on one element; what leaves it goes on to the next."""
    code = arrays(casts(code, letters), raw)
    return re.sub(r"\breturn\s*;", "goto element_done;", code)
