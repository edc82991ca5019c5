"""Proving equalities that contain ReLU, for all reals in a stated range.

A range is built into the symbols instead of being assumed of them: with p, r >= 0 the pair a = (p - r)/2, A =
(p + r)/2 runs through exactly the pairs with |a| <= A, and v = lo + p, hi = lo + p + r through exactly those
with lo <= v <= hi. Every argument of a ReLU then has a sign that sympy derives from the symbols, so ReLU
disappears and an identity of polynomials is left.
"""

from __future__ import annotations

import sympy as sp

# Slacks: p is how far a value is above the least it can be, r how far below the largest.
p, r = sp.symbols("p r", nonnegative=True)
x, y, g = sp.symbols("x y g", nonnegative=True)
lo = sp.Symbol("lo", real=True)


def relu(argument: sp.Expr) -> sp.Expr:
    """ReLU of an expression whose sign follows from its symbols; ArithmeticError where it does not."""
    expanded = sp.expand(argument)
    if expanded.is_nonnegative:
        return expanded
    if expanded.is_nonpositive:
        return sp.Integer(0)
    raise ArithmeticError(f"the sign of {sp.sstr(expanded)} does not follow from its symbols")


def zero(expression: sp.Expr) -> bool:
    """Whether the expression is identically zero."""
    return sp.simplify(sp.expand(expression)) == 0


def zeros(*expressions: sp.Expr) -> bool:
    """Whether all the expressions are identically zero."""
    return all(zero(expression) for expression in expressions)


def nonnegative(expression: sp.Expr) -> bool:
    """Whether the expression is >= 0 for all values of its symbols, as far as sympy can see."""
    return sp.expand(expression).is_nonnegative is True


def symmetric() -> tuple[sp.Expr, sp.Expr]:
    """All pairs (a, A) with |a| <= A."""
    return (p - r) / 2, (p + r) / 2
