"""Lowering: circuit + plan -> Blocks of ReLU neurons and one output Form, in either arithmetic.

Only Affine, ReLU and gadgets remain. Nothing is decided here: routes, gadgets, pieces and ranges are in the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from constructions.forms import Block, Form, X, Z, constant, over, whole
from constructions.gadgets import Chain, Hinges, Ridges, deep_product, gate, maximum_weights, product, split
from constructions.gadgets.ridges import centred, lift
from constructions.planning import Gates, Plan
from constructions.routes import Terms, decompose
from constructions.sparse import Sparse, ones, zeros
from theory.arithmetic import Array, as_exact, as_float, representable
from theory.circuit import Affine, Assume, Bilinear, Input, Maximum, Node, ReLU
from theory.domains import Box, Domain, OneHot


@dataclass
class Lowered:
    """Blocks in the order they were made (sources first), and the output."""

    blocks: list[Block] = field(default_factory=list)
    output: Form | None = None

    def add(self, block: Block) -> Form:
        """Register a block and return its output as a form."""
        self.blocks.append(block)
        return whole(len(self.blocks) - 1, block.upper, block.form.exact)


def lower(plan: Plan, exact: bool) -> Lowered:
    """All blocks of the network of a plan, with Fraction (exact) or float64 coefficients."""
    work = _Lowering(plan, exact)
    for node in plan.circuit.nodes:
        work.forms[id(node)] = work.form(node)
    work.result.output = work.forms[id(plan.circuit.output)]
    return work.result


class _Lowering:
    def __init__(self, plan: Plan, exact: bool) -> None:
        self.plan, self.exact = plan, exact
        self.result = Lowered()
        self.forms: dict[int, Form] = {}

    def convert(self, values: Array) -> Array:
        """Coefficients in the arithmetic of the network."""
        return as_exact(values) if self.exact else as_float(values)

    def form(self, node: Node) -> Form:
        """The value of a node, over blocks and inputs."""
        match node:
            case Input():
                size = np.maximum(np.abs(node.of.lower), np.abs(node.of.upper))
                return whole(X if node is self.plan.circuit.x else Z, size, self.exact)
            case Assume():
                return self.forms[id(node.of)]
            case Affine():
                return self._affine(node)
            case ReLU():
                return self._hinge(node, self.forms[id(node.of)], node.of.domain, "unit")
            case Maximum():
                return self._maximum(node)
            case Bilinear():
                return self._bilinear(self.plan.gates[id(node)])
        raise TypeError(f"no lowering for {type(node).__name__}")

    def _affine(self, node: Affine) -> Form:
        live = self.plan.live[id(node)]
        total = constant(self.convert(node.bias) * self._mask(live))
        for parent, matrix in node.terms:
            rounded = not self.exact and not representable(matrix)
            placed = Sparse.dense(self.convert(matrix)).scale_columns(self._mask(live))
            total = total.plus(self.forms[id(parent)].through(placed, rounded))
        return total

    def _mask(self, live: Array) -> Array:
        return lift(live.astype(float), self.exact)

    def _hinge(self, node: Node, form: Form, inside: Domain, gadget: str) -> Form:
        """ReLU of a form: neurons only where the sign is not known; the rest is passed or dropped."""
        live = self.plan.live[id(node)]
        passed = live & (inside.lower >= 0)
        bent = np.flatnonzero(live & ~passed & (inside.upper > 0))
        width = form.width
        result = constant(zeros(width, self.exact))
        if passed.any():
            result = result.plus(form.through(_scaled_unit(width, self._mask(passed))))
        if len(bent) == 0:
            return result
        none = np.full(len(bent), -1)
        upper = np.nextafter(np.maximum(inside.upper, 0)[bent] + self.plan.errors[id(node)][bent], np.inf)
        block = Block(form.columns(bent), gadget, upper, none, np.zeros(len(bent)), bent)
        placed = Sparse.build(np.arange(len(bent)), bent, ones(len(bent), self.exact), (len(bent), width))
        return result.plus(self.result.add(block).through(placed))

    def _maximum(self, node: Maximum) -> Form:
        left, right = self.forms[id(node.left)], self.forms[id(node.right)]
        on_left, on_right = maximum_weights()
        n = node.width
        weights = (_scaled_unit(n, lift(np.full(n, float(c)), self.exact)) for c in (on_left, on_right))
        difference = left.through(next(weights)).plus(right.through(next(weights)))
        a, b = node.left.domain, node.right.domain
        inside = Box(np.nextafter(b.lower - a.upper, -np.inf), np.nextafter(b.upper - a.lower, np.inf))
        return left.plus(self._hinge(node, difference, inside, "maximum"))

    def _bilinear(self, gates: Gates) -> Form:
        u, v = self.forms[id(gates.node.u)], self.forms[id(gates.node.v)]
        terms = decompose(gates.tensor, gates.route, True, gates.basis) if self.exact else gates.terms
        total = self._still(gates, terms, u, v).plus(self._folded(gates, u))
        moving = np.flatnonzero(gates.moving)
        if len(moving):
            total = total.plus(self._gadget(gates, terms.keep(gates.moving), moving, u, v))
        return _settle(total, gates.node.u, self.plan.circuit.z)

    def _still(self, gates: Gates, terms: Terms, u: Form, v: Form) -> Form:
        """Terms one of whose forms is constant: they are linear in the other."""
        middle_u, middle_v = ((side[0] + side[1]) / 2 for side in (gates.u, gates.v))
        total = constant(zeros(gates.node.width, self.exact))
        constant_v = ~gates.moving & (gates.v[0] == gates.v[1])
        constant_u = ~gates.moving & ~constant_v
        for chosen, form, side, middle in ((constant_v, u, "left", middle_v), (constant_u, v, "right", middle_u)):
            if chosen.any():
                part = terms.keep(chosen)
                factor = lift(middle[chosen], self.exact)
                total = total.plus(form.through(getattr(part, side).scale_columns(factor) @ part.out))
        return total

    def _folded(self, gates: Gates, u: Form) -> Form:
        """Coordinates of v that do not vary: linear forms of u."""
        if not gates.folded.any():
            return constant(zeros(gates.node.width, self.exact))
        values = self.convert(gates.node.v.domain.lower[gates.folded])
        tensor = self.convert(gates.node.tensor[:, gates.folded, :]) * self._mask(self.plan.live[id(gates.node)])
        return u.through(Sparse.dense((tensor * values[None, :, None]).sum(axis=1)))

    def _gadget(self, gates: Gates, terms: Terms, moving: Array, u: Form, v: Form) -> Form:
        low, high = gates.v[0][moving], gates.v[1][moving]
        v_range, u_range = centred(low, high), centred(gates.u[0][moving], gates.u[1][moving])
        owner = gates.owner[moving]
        if gates.kind == "gate":
            return self._ridges(gate(gates.levels, low, high, self.exact), "gate", terms, owner, u, v)
        if gates.steps is not None:
            steps = [gates.steps[r] for r in moving]
            chain = deep_product(steps, u_range, v_range, self.exact, gates.interval)
            return self._chain(chain, terms, owner, u, v, cancels=gates.kind == "product")
        pieces = gates.pieces[moving]
        if gates.kind == "split":
            assert gates.interval is not None
            return self._ridges(split(pieces, gates.interval, v_range, self.exact), "split", terms, owner, u, v)
        return self._ridges(product(pieces, u_range, v_range, self.exact), "product", terms, owner, u, v)

    def _ridges(self, ridges: Ridges, gadget: str, terms: Terms, owner: Array, u: Form, v: Form) -> Form:
        total = self._remainder(ridges, terms, u, v)
        if ridges.hinges.term.size:
            block, weights = self._block(ridges.hinges, gadget, terms, owner, u, v, None, cancels=gadget == "product")
            self.result.add(block)
            total = total.plus(over(len(self.result.blocks) - 1, weights, block.upper))
        if ridges.shared is not None and ridges.shared.weight.size:
            total = total.plus(self._shared(ridges, gadget, terms, owner, u))
        return total

    def _remainder(self, ridges: Ridges | Chain, terms: Terms, u: Form, v: Form) -> Form:
        total = constant(terms.out.left(ridges.constant))
        if (ridges.linear_u != 0).any():
            total = total.plus(u.through(terms.left.scale_columns(ridges.linear_u) @ terms.out))
        if (ridges.linear_v != 0).any():
            total = total.plus(v.through(terms.right.scale_columns(ridges.linear_v) @ terms.out))
        return total

    def _block(
        self, hinges: Hinges, gadget: str, terms: Terms, owner: Array, u: Form, v: Form, before: Form | None,
        early: bool = False, cancels: bool = False,
    ) -> tuple[Block, Sparse]:  # fmt: skip
        """The neurons of a table of hinges, and what each adds to the outputs."""
        term = hinges.term
        form = constant(hinges.bias) if before is None else before.shift(hinges.bias)
        if (hinges.on_u != 0).any():
            form = form.plus(u.through(terms.left.take_columns(term).scale_columns(hinges.on_u)))
        if (hinges.on_v != 0).any():
            form = form.plus(v.through(terms.right.take_columns(term).scale_columns(hinges.on_v)))
        block = Block(form, gadget, hinges.upper, owner[term], hinges.margin, terms.unit[term], early, cancels)
        return block, terms.out.take_rows(term).scale_rows(hinges.weight)

    def _shared(self, ridges: Ridges, gadget: str, terms: Terms, owner: Array, u: Form) -> Form:
        """Hinges of u alone: a neuron for each module and knot, serving all the module's terms."""
        shared = ridges.shared
        assert shared is not None
        modules, slot = np.unique(terms.coordinate, return_inverse=True)
        knots, count = len(shared.knots), len(modules)
        place = np.arange(knots * count)
        left = Sparse.units(modules, u.width, self.exact)
        form = u.through(left.take_columns(place // knots)).shift(-np.tile(shared.knots, count))
        owners = np.full(count, -1)
        owners[slot] = owner
        margin = np.tile(as_float(shared.knots), count) * (1 - 2.0**-40)
        none = np.full(len(place), -1)
        upper = np.tile(shared.upper, count) * (1 + 2.0**-40)
        block = Block(form, gadget + " (shared)", upper, owners[place // knots], margin, none)
        self.result.add(block)
        # (modules * knots, terms): the weight that each term takes of its module's hinges
        row = (slot[:, None] * knots + np.arange(knots)).ravel()
        column = np.repeat(np.arange(len(slot)), knots)
        weights = Sparse.build(row, column, shared.weight.ravel(), (len(place), len(slot))) @ terms.out
        return over(len(self.result.blocks) - 1, weights, block.upper)

    def _chain(self, chain: Chain, terms: Terms, owner: Array, u: Form, v: Form, cancels: bool) -> Form:
        total = self._remainder(chain, terms, u, v)
        previous: Form | None = None
        for step in chain.steps:
            before = previous.through(step.reads) if previous is not None and step.reads is not None else None
            block, weights = self._block(step.hinges, "square", terms, owner, u, v, before, True, cancels)
            previous = self.result.add(block)
            total = total.plus(over(len(self.result.blocks) - 1, weights, block.upper))
        return total


def _scaled_unit(n: int, factors: Array) -> Sparse:
    """The diagonal matrix of ``factors``."""
    return Sparse.units(np.arange(n), n, factors.dtype == object).scale_columns(factors)


def _settle(form: Form, u: Node, z: Input) -> Form:
    """On one-hot groups, sum_m c z_m = c: a remainder that is constant on a group needs no carrier."""
    if not isinstance(z.of, OneHot) or Z not in form.parts:
        return form
    dense = form.parts[Z].toarray().reshape(z.of.groups, z.of.width, -1)
    first = dense[:, :1, :]
    same = (dense == first).all(axis=1, keepdims=True)
    shift = np.where(same, first, 0 * first)
    rest = Sparse.dense((dense - shift).reshape(z.width, -1))
    parts = {s: p for s, p in form.parts.items() if s != Z}
    if rest.nnz:
        parts[Z] = rest
    noise = form.noise if form.noise is None else form.noise + 2.0**-51 * z.of.groups * form.sizes
    return Form(parts, form.bias + shift.sum(axis=(0, 1)), form.sizes, noise)
