"""Scheduling: Blocks -> layers. Every value that a later layer needs is carried by the fewest neurons (liveness).

A layer reads only the layer before it. What a block needs from further back travels either RAW (the neurons or inputs
themselves, one carrier each) or ACCUMULATED (the sum that the block will read, one carrier a unit). A carrier
is a ReLU that is never bent: ReLU(p - low) + low with low <= p; where p >= 0 is known, low = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.sparse as sp

from constructions.forms import Block, Form, X, Z
from constructions.gadgets.ridges import lift
from constructions.lowering import Lowered
from constructions.owners import collect, worst_sum
from constructions.sparse import Sparse, stack_columns, stack_rows, zeros
from theory.arithmetic import UNIT64, Array, as_float
from theory.circuit import Circuit

#: Beyond this many waiting consumers, raw or accumulated is decided for each on its own.
JOINT = 10


@dataclass(frozen=True, eq=False)
class Labels:
    """What each neuron of one layer is, a column a fact: gadget (str), module and unit (-1 where none applies)."""

    gadget: Array
    module: Array
    unit: Array


@dataclass(frozen=True, eq=False)
class Layer:
    """values @ weight + bias, then ReLU except at the output. The input row is [z, x].

    upper (width,): bound of the outputs. owner, margin: see forms.Block. noise (width,): what float64 lost.
    """

    weight: Sparse
    bias: Array
    upper: Array
    owner: Array
    margin: Array
    noise: Array
    labels: Labels | None


@dataclass
class _Past:
    """What a consumer reads of everything up to the layer before, over that layer's neurons."""

    matrix: Sparse
    bias: Array
    noise: Array


def schedule(circuit: Circuit, lowered: Lowered) -> list[Layer]:
    """The layers of the network, the output layer last."""
    assert lowered.output is not None
    forms = [b.form for b in lowered.blocks] + [lowered.output]
    level = _levels(lowered)
    return _Scheduler(circuit, lowered, forms, level).run()


def _levels(lowered: Lowered) -> list[int]:
    """Layer of each block and of the output: as late as its consumers allow, except for early chains."""
    blocks = lowered.blocks
    assert lowered.output is not None
    soonest: list[int] = []
    for block in blocks:
        soonest.append(1 + max((soonest[s] for s in block.form.parts if s >= 0), default=0))
    level = [*soonest, max(soonest, default=0) + 1]
    latest = [level[-1] - 1] * len(blocks)
    for index in reversed(range(len(blocks))):
        level[index] = soonest[index] if blocks[index].early else latest[index]
        for source in blocks[index].form.parts:
            if source >= 0:
                latest[source] = min(latest[source], level[index] - 1)
    return level


class _Scheduler:
    def __init__(self, circuit: Circuit, lowered: Lowered, forms: list[Form], level: list[int]) -> None:
        self.z, self.x = circuit.z.of, circuit.x.of
        self.blocks, self.forms, self.level = lowered.blocks, forms, level
        self.exact = forms[-1].exact
        # The current basis: first the input row [z, x], then the neurons of the layer just made.
        self.lower = np.concatenate([self.z.lower, self.x.lower])
        self.upper = np.concatenate([self.z.upper, self.x.upper])
        owners = np.arange(self.z.size) if self.z.switches else np.full(self.z.size, -1)
        self.owner = np.concatenate([owners, np.full(self.x.size, -1)])
        self.at_input = True
        self.past = [self._from_inputs(form) for form in forms]

    def _from_inputs(self, form: Form) -> _Past:
        parts = [
            form.parts.get(source, Sparse.zero((domain.size, form.width), self.exact))
            for source, domain in ((Z, self.z), (X, self.x))
        ]
        noise = np.zeros(form.width) if form.noise is None else form.noise.copy()
        return _Past(stack_rows(parts), form.bias, noise)

    def run(self) -> list[Layer]:
        layers = [self._layer(number) for number in range(1, self.level[-1])]
        last = self.past[-1]
        width = len(last.bias)
        none, nothing = np.full(width, -1), np.zeros(width)
        layers.append(Layer(last.matrix, last.bias, np.full(width, np.inf), none, nothing, last.noise, None))
        return layers

    def _layer(self, number: int) -> Layer:
        here = [c for c, at in enumerate(self.level) if at == number]
        waiting = [c for c, at in enumerate(self.level) if at > number]
        raw_rows, raw, summed = self._choose(waiting)
        columns = [self.past[c] for c in here]
        sums = [self._accumulators(c) for c in summed]
        carriers = self._raw_carriers(raw_rows)
        weight = stack_columns([p.matrix for p in columns] + [carriers.matrix] + [a.matrix for _, a, _, _ in sums])
        bias = np.concatenate([p.bias for p in columns] + [carriers.bias] + [a.bias for _, a, _, _ in sums])
        noise = np.concatenate([p.noise for p in columns] + [carriers.noise] + [a.noise for _, a, _, _ in sums])
        blocks = [self.blocks[c] for c in here]
        span = [self.upper[raw_rows] - self._low(raw_rows)] + [high for _, _, _, high in sums]
        plain = [len(raw_rows)] + [len(picks) for picks, _, _, _ in sums]
        start = len(bias) - sum(plain)
        upper = np.concatenate([b.upper for b in blocks] + [np.nextafter(s * (s != 0), np.inf) for s in span])
        owners = [b.switch for b in blocks] + [self.owner[raw_rows]] + [np.full(n, -1) for n in plain[1:]]
        owner = np.concatenate(owners)
        margin = np.concatenate([b.margin for b in blocks] + [np.zeros(sum(plain))])
        labels = self._labels(blocks, raw_rows, summed, [picks for picks, _, _, _ in sums])
        self._advance(number, here, waiting, raw_rows, raw, summed, sums, start, len(bias))
        self.lower, self.upper, self.owner, self.at_input = np.zeros(len(bias)), upper, owner, False
        return Layer(weight, bias, upper, owner, margin, noise, labels)

    def _choose(self, waiting: list[int]) -> tuple[Array, list[int], list[int]]:
        """(rows to carry raw, consumers served raw, consumers served by accumulators), fewest carriers; ties: raw.

        A consumer that the next layer already serves raw costs nothing more, so the choice is joint.
        """
        needing = [c for c in waiting if self.past[c].matrix.nnz]
        rows = {c: self.past[c].matrix.nonzero_rows() for c in needing}
        columns = {c: len(self.past[c].matrix.nonzero_columns()) for c in needing}
        if len(needing) > JOINT:
            options = [tuple(len(rows[c]) <= columns[c] for c in needing)]
        else:
            options = list(product((True, False), repeat=len(needing)))
        best: tuple[int, int] | None = None
        chosen: tuple[Array, list[int], list[int]] = (np.zeros(0, dtype=int), [], [])
        for option in options:
            raw = [c for c, yes in zip(needing, option, strict=True) if yes]
            summed = [c for c, yes in zip(needing, option, strict=True) if not yes]
            union = np.unique(np.concatenate([rows[c] for c in raw])) if raw else np.zeros(0, dtype=int)
            cost = (len(union) + sum(columns[c] for c in summed), len(summed))
            if best is None or cost < best:
                best, chosen = cost, (union, raw, summed)
        return chosen

    def _low(self, rows: Array) -> Array:
        return np.minimum(self.lower[rows], 0.0)

    def _raw_carriers(self, rows: Array) -> _Past:
        """ReLU(v - low): v itself where v >= 0, as it is for every neuron and every module weight."""
        matrix = Sparse.units(rows, len(self.lower), self.exact)
        low = self._low(rows)
        return _Past(matrix, -lift(low, self.exact), np.zeros(len(rows)))

    def _accumulators(self, consumer: int) -> tuple[Array, _Past, Array, Array]:
        """(columns, their sums less a lower bound, that bound, range) of what a consumer has read so far."""
        past = self.past[consumer]
        picks = past.matrix.nonzero_columns()
        matrix = past.matrix.take_columns(picks)
        low, high = self._range(matrix)
        low = np.where(low >= 0, 0.0, low)
        noise = past.noise[picks] + (0.0 if self.exact else 4 * UNIT64 * np.abs(low))
        return picks, _Past(matrix, -lift(low, self.exact), noise), low, np.nextafter(high - low, np.inf)

    def _range(self, matrix: Sparse) -> tuple[Array, Array]:
        """Bounds of basis @ matrix, using which neurons can be on together."""
        entries = matrix.csr()
        if self.at_input:
            n = self.z.size
            parts = [d.linear_range(m) for d, m in ((self.z, entries[:n]), (self.x, entries[n:]))]
            low, high = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
            size = sum(np.maximum(np.abs(least), np.abs(most)) for least, most in parts)
        else:
            upper = sp.diags_array(self.upper)
            low = -self._most((-(entries.minimum(0)).T @ upper).tocsr())
            high = self._most((entries.maximum(0).T @ upper).tocsr())
            size = np.maximum(-low, high) * (low != 0)  # where nothing can be negative, 0 is the bound
        slack = 2.0**-40 * size  # more than the rounding of the entries and of their sums
        return low - slack, high + slack

    def _most(self, contributions: sp.csr_matrix) -> Array:
        """Largest sum of the contributions (columns, neurons) >= 0 that can occur together."""
        return worst_sum(collect(contributions, self.owner, self.z.size), self.z)

    def _advance(
        self, number: int, here: list[int], waiting: list[int], raw_rows: Array, raw: list[int],
        summed: list[int], sums: list[tuple[Array, _Past, Array, Array]], start: int, total: int,
    ) -> None:  # fmt: skip
        """Rewrite what each waiting consumer reads over the neurons of the layer just made."""
        offset = dict(zip(summed, np.cumsum([start + len(raw_rows)] + [len(s[0]) for s in sums]), strict=False))
        place = dict(zip(here, np.cumsum([0] + [self.blocks[c].width for c in here]), strict=False))
        low = lift(self._low(raw_rows), self.exact)
        for c in waiting:
            past, width = self.past[c], len(self.past[c].bias)
            matrix, bias, noise = Sparse.zero((total, width), self.exact), past.bias, past.noise
            if c in raw:
                carried = past.matrix.take_rows(raw_rows)
                matrix = Sparse(carried.row + start, carried.col, carried.val, (total, width))
                bias = bias + carried.left(low)
                if not self.exact:
                    noise = noise + 8 * UNIT64 * (carried.absolute().T @ np.abs(as_float(low)))
            elif c in summed:
                picks, _, bound, _ = sums[summed.index(c)]
                one = Sparse.units(np.arange(len(picks)), len(picks), self.exact)
                matrix = Sparse.build(one.row + offset[c], picks[one.col], one.val, (total, width))
                shifted = zeros(width, self.exact)
                shifted[picks] = lift(bound, self.exact)
                bias = bias + shifted
                if not self.exact:
                    noise = noise + 4 * UNIT64 * np.abs(as_float(shifted))
            for source in self.forms[c].parts:
                if source >= 0 and self.level[source] == number:
                    part = self.forms[c].parts[source]
                    row = (part.row + place[source]).astype(np.int32)
                    matrix = matrix + Sparse(row, part.col, part.val, (total, width))
            self.past[c] = _Past(matrix, bias, noise)

    def _labels(self, blocks: list[Block], raw_rows: Array, summed: list[int], picks: list[Array]) -> Labels:
        names = [(b.gadget, b.width) for b in blocks] + [("carrier", len(raw_rows))]
        names += [("accumulator", len(p)) for p in picks]
        gadget = np.concatenate([np.full(n, name, dtype=object) for name, n in names])
        module = [b.owner for b in blocks] + [self.owner[raw_rows]] + [np.full(len(p), -1) for p in picks]
        unit = [b.unit for b in blocks] + [np.full(len(raw_rows), -1)]
        unit += [self.blocks[c].unit[p] if c < len(self.blocks) else p for c, p in zip(summed, picks, strict=True)]
        return Labels(gadget, np.concatenate(module), np.concatenate(unit))
