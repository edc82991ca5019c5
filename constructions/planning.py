"""Planning: route, gadget and pieces of every Bilinear, in float64, before any weight is computed.

One walk forwards over the circuit. At each Bilinear the error that its arguments already carry is known, so ranges are
widened by it and the gadget's own error is added; what comes out at the output is the guaranteed error. Errors are kept
a column per module as long as they stay linear, so that only modules that can meet are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from constructions.budget import allocate
from constructions.gadgets import radices, split_applies
from constructions.gadgets.ridges import centred, pad
from constructions.liveness import live_coordinates
from constructions.owners import worst_sum
from constructions.routes import Terms, decompose
from constructions.sensitivity import sensitivities
from theory.arithmetic import Array, as_float, representable
from theory.circuit import Affine, Assume, Bilinear, Circuit, Input, Maximum, Node, ReLU, selection
from theory.domains import Domain, OneHot, Tasks
from theory.ranks import Basis, column_basis

#: Networks up to this many nonzero weights are constructed in Fractions, larger ones in float64.
EXACT_NONZEROS = 60_000


@dataclass(frozen=True, eq=False)
class Gates:
    """How one Bilinear is built. Columns of length R: one entry a rank-one term.

    kind: "gate", "split" or "product". tensor: the live part of the Bilinear's. folded (v,): coordinates of v that do
    not vary; they are linear in u. u, v: (low, high) of the two forms. moving: terms that need a gadget. owner: the
    coordinate of z that switches the term off, -1: none. pieces: of the interpolants (1 for gates). steps: radices.
    """

    node: Bilinear
    route: str
    kind: str
    basis: Basis | None
    tensor: Array
    folded: Array
    terms: Terms
    u: tuple[Array, Array]
    v: tuple[Array, Array]
    moving: Array
    owner: Array
    pieces: Array
    steps: list[tuple[int, ...]] | None
    levels: tuple[Fraction, ...]
    interval: tuple[Fraction, Fraction] | None
    error: Array

    @property
    def hinged(self) -> Array:
        """Terms that have neurons: a shallow product of one piece has none."""
        return self.moving & ((self.pieces > 1) | (self.kind != "product") | (self.steps is not None))

    @property
    def gadget_neurons(self) -> int:
        """Closed form of the neurons of the gadgets alone."""
        modules = len(np.unique(self.terms.coordinate[self.moving]))
        count, pieces = int(self.moving.sum()), self.pieces[self.moving]
        if self.kind == "gate":
            return count * len(self.levels) + modules * (len(self.levels) - 1)
        if self.steps is not None:
            return sum(2 * sum(s) for s, m in zip(self.steps, self.moving, strict=True) if m)
        if self.kind == "split":
            return int((2 * pieces - 1).sum()) + modules
        return int((2 * (pieces - 1)).sum())

    @property
    def depth(self) -> int:
        """Hidden layers that the gadgets take."""
        if self.steps is None:
            return 1
        return max((len(s) for s, m in zip(self.steps, self.moving, strict=True) if m), default=1)


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is decided before weights exist. errors: id(node) -> (width,), guaranteed, of every node."""

    circuit: Circuit
    method: str
    live: dict[int, Array]
    gates: dict[int, Gates]
    errors: dict[int, Array]

    @property
    def guaranteed(self) -> float:
        """The theorem's bound for this network in real arithmetic: the largest error of any output."""
        return float(self.errors[id(self.circuit.output)].max(initial=0.0))

    @property
    def routes(self) -> str:
        """The routes of the Bilinears, in order, each once ("none" for a circuit without products)."""
        return "+".join(dict.fromkeys(g.route for g in self.gates.values())) or "none"

    @property
    def exact(self) -> bool:
        """Whether the network is small enough to be constructed in Fractions."""
        return self.nonzeros <= EXACT_NONZEROS

    def terms_of(self, gates: Gates) -> Terms:
        """The rank-one terms of a Bilinear in the arithmetic of the network."""
        return decompose(gates.tensor, gates.route, True, gates.basis) if self.exact else gates.terms

    @cached_property
    def nonzeros(self) -> int:
        """Estimated number of nonzero weights of the network: what decides its arithmetic."""
        total = sum(int((m != 0).sum()) for n in self.circuit.nodes if isinstance(n, Affine) for _, m in n.terms)
        for gates in self.gates.values():
            terms = gates.terms
            entries = terms.left.nnz + terms.right.nnz + terms.out.nnz
            total += gates.gadget_neurons * entries // max(terms.count, 1)
        return total


def make_plan(circuit: Circuit, method: str, route: str, eps: float | None) -> Plan:
    """Decide routes, gadgets and pieces so that the guaranteed error is at most eps.

    Raises ValueError where the method does not apply (exact with continuous weights), with the reason.
    """
    live = live_coordinates(circuit)
    approximate = _approximate(circuit, route)
    if method == "exact" and approximate:
        raise ValueError(_why_not_exact(approximate[0], route))
    target = eps
    for _ in range(20):
        planner = _Planner(circuit, method, route, live, None if target is None else target / max(len(approximate), 1))
        plan = planner.run()
        if eps is None or plan.guaranteed <= eps or not approximate:
            return plan
        assert target is not None
        target *= 0.98 * eps / plan.guaranteed
    raise ValueError(f"eps: no network with a guaranteed error of {eps:g} was found; use a larger eps")


def gate_kind(node: Bilinear, route: str) -> tuple[str, Domain | None]:
    """("gate" | "split" | "product", domain of the module weights if u is made of them)."""
    picked = selection(node.u)
    if picked is None or route == "N" or not picked[0].domain.switches:
        return "product", None
    domain = picked[0].domain
    if isinstance(domain, OneHot) or (isinstance(domain, Tasks) and domain.levels is not None):
        return "gate", domain
    assert isinstance(domain, Tasks) and domain.interval is not None
    return ("split" if split_applies(domain.interval) else "product"), domain


def _approximate(circuit: Circuit, route: str) -> list[Bilinear]:
    """The Bilinears that no gate does exactly: not on a grid, or on one that is itself computed with an error."""
    found: list[Bilinear] = []
    for node in circuit.nodes:
        if isinstance(node, Bilinear):
            picked = selection(node.u)
            computed = picked is not None and not isinstance(picked[0], Input)
            if gate_kind(node, route)[0] != "gate" or (computed and found):
                found.append(node)
    return found


def _why_not_exact(node: Bilinear, route: str) -> str:
    picked = selection(node.u)
    if picked is not None and picked[0].domain.switches and route == "N":
        return "exact: route N multiplies mixtures of modules, which no gate does exactly; use M, MN, rank or auto"
    if picked is None or not picked[0].domain.switches:
        return "exact: a product of two values that vary continuously is not piecewise linear; use shallow or deep"
    return (
        "exact: continuous weights have no exact ReLU network (x z is not piecewise linear); "
        "use method shallow or deep with an eps, or khot or discrete weights"
    )


class _Planner:
    """The forward walk of ``make_plan``."""

    def __init__(self, circuit: Circuit, method: str, route: str, live: dict[int, Array], share: float | None) -> None:
        self.circuit, self.method, self.route, self.live, self.share = circuit, method, route, live, share
        self.columns = circuit.z.width + 1  # a column of errors for each entry of z, the last one: always there
        self.errors: dict[int, sp.csr_matrix] = {}
        self.gates: dict[int, Gates] = {}
        self.effect = sensitivities(circuit, live)

    def run(self) -> Plan:
        for node in self.circuit.nodes:
            self.errors[id(node)] = self._error(node)
        totals = {id(node): self.total(node) for node in self.circuit.nodes}
        return Plan(self.circuit, self.method, self.live, self.gates, totals)

    def total(self, node: Node) -> Array:
        """Largest error of each coordinate over all tasks, (width,)."""
        return worst_sum(self.errors[id(node)], self.circuit.z.of)

    def _error(self, node: Node) -> sp.csr_matrix:
        match node:
            case Input():
                return sp.csr_matrix((node.width, self.columns))
            case Affine():
                total = sp.csr_matrix((node.width, self.columns))
                for parent, matrix in node.terms:
                    if self.errors[id(parent)].nnz:
                        total = total + sp.csr_matrix(np.abs(as_float(matrix)).T) @ self.errors[id(parent)]
                return (total * (1 + 2.0**-40)).tocsr() if total.nnz else total
            case ReLU() | Assume():
                return self.errors[id(node.of)]
            case Maximum():
                return self.errors[id(node.left)].maximum(self.errors[id(node.right)]).tocsr()
            case Bilinear():
                return self._bilinear(node)
        raise TypeError(f"no error rule for {type(node).__name__}")

    def _bilinear(self, node: Bilinear) -> sp.csr_matrix:
        candidates = [self._gates(node, route) for route in self._routes(node)]
        best = min(candidates, key=lambda g: (g.gadget_neurons + _carried(g), g.gadget_neurons))
        self.gates[id(node)] = best
        inherited = self._inherited(node)
        if not best.error.any():
            return inherited
        out = best.terms.out.absolute().T  # (width, R)
        column = np.where(best.owner >= 0, best.owner, self.columns - 1)
        own = out @ sp.csr_matrix((best.error, (np.arange(len(column)), column)), shape=(len(column), self.columns))
        return ((own + inherited) * (1 + 2.0**-40)).tocsr()

    def _inherited(self, node: Bilinear) -> sp.csr_matrix:
        """|u~ v~ - u v| <= |u| e_v + (|v| + e_v) e_u, a column per module where u is made of module weights."""
        error_u, error_v = self.total(node.u), self.total(node.v)
        if not error_u.any() and not error_v.any():
            return sp.csr_matrix((node.width, self.columns))
        absolute = np.abs(as_float(node.tensor))
        size_u = np.maximum(np.abs(node.u.domain.lower), np.abs(node.u.domain.upper))
        size_v = np.maximum(np.abs(node.v.domain.lower), np.abs(node.v.domain.upper)) + error_v
        by_module = np.einsum("mih,i->hm", absolute, error_v) * size_u
        always = np.einsum("mih,m,i->h", absolute, error_u, size_v)
        picked = selection(node.u)
        if picked is not None and picked[0] is self.circuit.z:
            placed = np.zeros((node.width, self.columns))
            placed[:, picked[1]] = by_module
        else:
            placed, always = np.zeros((node.width, self.columns)), always + by_module.sum(axis=1)
        placed[:, -1] = always
        return sp.csr_matrix(placed)

    def _routes(self, node: Bilinear) -> tuple[str, ...]:
        if self.route != "auto":
            return (self.route,)
        kind, domain = gate_kind(node, "M")
        if kind == "gate":
            return ("M",) if isinstance(domain, OneHot) else ("rank",)  # rank dominates M and MN, see routes
        return ("M", "N", "MN")

    def _gates(self, node: Bilinear, route: str) -> Gates:
        kind, domain = gate_kind(node, route)
        error_u, error_v = self.total(node.u), self.total(node.v)
        if error_u.any():  # near a level is not on it: no gate
            kind, domain = "product", None
        tensor = node.tensor
        if not self.live[id(node)].all():
            tensor = np.where(self.live[id(node)], tensor, 0 * tensor.flat[0])
        inside = node.v.domain
        folded = np.zeros(node.v.width, dtype=bool)
        if not isinstance(domain, OneHot):  # there, constants cost nothing inside the gate and a carrier outside
            folded = (inside.lower == inside.upper) & (error_v == 0)
            tensor = np.where(folded[None, :, None], 0 * tensor.flat[0], tensor) if folded.any() else tensor
        basis = column_basis(tensor) if route == "rank" else None
        terms = decompose(tensor, route, False, basis)
        rounded = not representable(tensor)
        v = _form_range(node.v, terms.right.csr(), error_v, rounded)
        u = _form_range(node.u, terms.left.csr(), error_u, rounded)
        moving = v[1] > v[0]
        interval = domain.interval if isinstance(domain, Tasks) else None
        if kind == "gate":
            v = (_gate_floor(terms, v, domain), v[1])
            moving = v[1] > v[0]
        elif kind == "product" and domain is not None:
            u = (-np.abs(u[1]), np.abs(u[1]))  # not centred: then the product is 0 when the module is off
        if kind != "gate":
            moving = moving & (u[1] > u[0])
        owner = np.full(terms.count, -1)
        picked = selection(node.u)
        if domain is not None and picked is not None and picked[0] is self.circuit.z:
            owner = picked[1][terms.coordinate]
        levels = domain.levels if isinstance(domain, Tasks | OneHot) and domain.levels is not None else ()
        pieces, steps, error = self._pieces(node, kind, terms, u, v, moving, owner, interval)
        return Gates(
            node, route, kind, basis, tensor, folded, terms, u, v, moving, owner, pieces, steps,
            levels, interval if kind == "split" else None, error,
        )  # fmt: skip

    def _pieces(
        self, node: Bilinear, kind: str, terms: Terms, u: tuple[Array, Array], v: tuple[Array, Array],
        moving: Array, owner: Array, interval: tuple[Fraction, Fraction] | None,
    ) -> tuple[Array, list[tuple[int, ...]] | None, Array]:  # fmt: skip
        """Pieces and steps of each term, and its exact error when the module is on."""
        pieces, error = np.ones(terms.count, dtype=int), np.zeros(terms.count)
        if kind == "gate" or not moving.any():
            return pieces, None, error
        assert self.share is not None
        v_half = centred(*v)[1]
        if kind == "split":
            assert interval is not None
            half = float(interval[1] - interval[0]) / 2 * pad(v_half)
        else:
            half = centred(*u)[1] * v_half
        weight = np.asarray(terms.out.absolute() @ self.effect[id(node)])
        active = _active(self.circuit.z.of)
        budget = self.share * (1 - 1e-9) / (active if owner[moving][0] >= 0 else 1)
        group = np.unique(owner[moving], return_inverse=True)[1]
        deep = self.method == "deep"
        round_up = _radix_product if deep else _whole if kind == "split" else _odd
        exponent = 1 / 2 if deep else 1 / 3
        built = allocate(half[moving], weight[moving], group, budget, exponent, round_up)
        pieces[moving] = built
        error[moving] = half[moving] / built.astype(float) ** 2 * (1 + 2.0**-48)
        return pieces, [radices(int(n)) for n in pieces] if deep else None, error


def _active(domain: Domain) -> int:
    return domain.groups if isinstance(domain, OneHot) else domain.active if isinstance(domain, Tasks) else 1


def _form_range(node: Node, matrix: sp.csr_matrix, error: Array, rounded: bool) -> tuple[Array, Array]:
    """Range of the forms node @ matrix, widened by the error of the node, and of the matrix if it was ``rounded``."""
    low, high = node.domain.linear_range(matrix)
    if rounded:
        error = error + 2.0**-52 * np.maximum(np.abs(node.domain.lower), np.abs(node.domain.upper))
    if not error.any():
        return low, high
    slack = np.asarray(abs(matrix).T @ error) * (1 + 2.0**-40)
    return np.nextafter(low - slack, -np.inf), np.nextafter(high + slack, np.inf)


def _gate_floor(terms: Terms, v: tuple[Array, Array], domain: Domain | None) -> Array:
    """The constant that the gate subtracts: what it leaves to be carried is floor * u.

    Nothing is carried where v >= 0; and nothing on one-hot groups, where all entries of a group share a floor,
    since they add up to one.
    """
    floor = np.where(v[0] >= 0, np.where(v[1] > v[0], 0.0, v[0]), v[0])
    if not isinstance(domain, OneHot) or terms.count == 0 or (terms.unit < 0).any():
        return floor
    slot = (terms.coordinate // domain.width) * (int(terms.unit.max()) + 1) + terms.unit
    lowest = np.full(int(slot.max()) + 1, np.inf)
    np.minimum.at(lowest, slot, v[0])
    complete = np.bincount(slot) == domain.width
    return np.where(complete[slot], lowest[slot], floor)


def _carried(gates: Gates) -> int:
    """Carriers that the linear remainder of a Bilinear needs beside its gadgets, for comparing routes."""
    if gates.kind == "gate":
        left = np.unique(gates.terms.coordinate[gates.v[0] != 0])
        rows = len(left)
    else:
        rows = gates.node.u.width if (gates.v[0] + gates.v[1]).any() else 0
    width = len(gates.terms.out.nonzero_columns())
    return min(rows, width) + (gates.depth - 1) * width


def _whole(pieces: Array) -> Array:
    return np.ceil(pieces)


def _odd(pieces: Array) -> Array:
    whole = np.ceil(pieces)
    return whole + (whole % 2 == 0)


def _radix_product(pieces: Array) -> Array:
    whole = np.ceil(pieces).astype(int)
    values, inverse = np.unique(whole, return_inverse=True)
    return np.array([float(np.prod(radices(int(v)))) for v in values])[inverse]
