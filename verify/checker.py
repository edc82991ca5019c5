"""The certificate checker: a rigorous error bound of a network, from its weights and the family's arrays alone.

Standard library only, exact rationals throughout; `python checker.py FILE` needs nothing else of kofm. Beside weights
and arrays it is told which neurons stand for which units of the task network, and does not believe it.

Shown: |network(z, x) - hyperteacher(z, x)| <= bound for every task z (1 to K of M modules on, each at a level, as it is
fed, or anywhere in an interval) and every x in the box, in real arithmetic.

  values   Below the units a neuron is, exactly, an affine function of (z, x) plus functions of ONE variable each: of a
           ridge t = a . z + b . x, a row of the first layer. They are piecewise linear; ReLU of one is one again. What
           mixes ridges only passes a sum on: where it could bend, by delta at most, [0, delta] is added as noise.
  modules  A ridge that reads one module is looked at in each state of it: off; at a level, where it is a function of x;
           or in the interval. There two partners, t = a z + b x and a z - b x, become the quadratics of which they are
           interpolants, whose squares cancel and leave z x; the extremes of what is left are found piece by piece.
  units    pre-activation - target is now a polynomial with small coefficients, and noise: its extremes are at the ends
           of z_m and of x, and the K largest modules count.  |ReLU(p) - ReLU(t)| <= |p - t| carries it upwards.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

ZERO, ONE, FORMAT, VERSION = Fraction(0), Fraction(1), "kofm certificate", 1
SECTIONS = ("about", "family", "network", "units", "bounds")
#: Coefficients by variable: z_m is m, v_i is M + i, the constant is CONSTANT, the product z_m v_i is (m, M + i).
Row = dict[Any, Fraction]
Range = tuple[Fraction, Fraction]
CONSTANT = -1


def put(total: Row, row: Row, factor: Fraction = ONE) -> Row:
    """total += factor row."""
    for key, value in row.items():
        total[key] = total.get(key, ZERO) + factor * value
    return total


def plus(a: Range, b: Range, factor: Fraction = ONE) -> Range:
    """a + factor b, of ranges."""
    ends = (factor * b[0], factor * b[1])
    return a[0] + min(ends), a[1] + max(ends)


def hull(*values: Fraction) -> Range:
    """The smallest range that holds the values."""
    return min(values), max(values)


@dataclass
class Piecewise:
    """constant + slope t + sum over knots of jump ReLU(t - knot)."""

    constant: Fraction = ZERO
    slope: Fraction = ZERO
    jumps: Row = field(default_factory=dict)

    def add(self, other: Piecewise, factor: Fraction = ONE) -> Piecewise:
        """self += factor other."""
        self.constant, self.slope = self.constant + factor * other.constant, self.slope + factor * other.slope
        put(self.jumps, other.jumps, factor)
        return self

    def pieces(self, low: Fraction, high: Fraction) -> list[tuple[Fraction, Fraction, Fraction, Fraction]]:
        """(start, end, value at the start, slope) from low to high."""
        start, value, slope, found = low, self.constant + self.slope * low, self.slope, []
        for knot in sorted(k for k, jump in self.jumps.items() if jump and k < high):
            if knot <= low:
                value += self.jumps[knot] * (low - knot)
            else:
                found.append((start, knot, value, slope))
                start, value = knot, value + slope * (knot - start)
            slope += self.jumps[knot]
        return [*found, (start, high, value, slope)]

    def against(self, low: Fraction, high: Fraction, a: Fraction, b: Fraction) -> Range:
        """Range of self(t) - a t^2 - b t on [low, high]: extremes at ends of pieces, or at a vertex."""
        values = []
        for start, end, value, slope in self.pieces(low, high):
            vertex = (slope - b) / (2 * a) if a else start
            at = (start, end, vertex) if start < vertex < end else (start, end)
            values += [value + slope * (t - start) - (a * t + b) * t for t in at]
        return hull(*values)

    def relu(self, low: Fraction, high: Fraction) -> Piecewise:
        """max(self, 0) on [low, high]."""
        marks = []  # (from where, slope there)
        for start, end, value, slope in self.pieces(low, high):
            last = value + slope * (end - start)
            marks.append((start, slope if value > 0 or (value == 0 and last > 0) else ZERO))
            if value * last < 0:
                marks.append((start - value / slope, slope if last > 0 else ZERO))
        first, before = max(self.against(low, low, ZERO, ZERO)[0], ZERO), marks[0][1]
        result = Piecewise(first - before * low, before)
        for at, slope in marks[1:]:
            put(result.jumps, {at: slope - before} if slope != before else {})
            before = slope
        return result

    def along(self, sign: int, offset: Fraction) -> Piecewise:
        """q -> self(sign q + offset)."""
        result = Piecewise(self.constant + self.slope * offset, sign * self.slope)
        for knot, jump in self.jumps.items():
            at = sign * (knot - offset)  # ReLU(-(q - at)) = ReLU(q - at) - (q - at)
            result.add(Piecewise(ZERO, ZERO, {at: jump}) if sign > 0 else Piecewise(jump * at, -jump, {at: jump}))
        return result

    def chord(self, low: Fraction, high: Fraction) -> Fraction:
        """Slope from low to high."""
        pieces = self.pieces(low, high)
        start, end, value, slope = pieces[-1]
        return (value + slope * (end - start) - pieces[0][2]) / (high - low) if high > low else slope

    def parabola(self, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
        """(a, b): the quadratic a t^2 + b t whose interpolant, up to a constant, this is; any choice gives a bound.

        Chords between knots h apart have slopes that rise by 2 a h; that before the knot t is a (2 t - h) + b. Pieces
        that rounding made between two knots do not count; a lone one takes h from the nearest outside or the ends.
        """
        pieces = self.pieces(low, high)
        longest = max(end - start for start, end, _, _ in pieces)
        long = [piece for piece in pieces if 64 * (piece[1] - piece[0]) > longest]
        if len(long) < 2:
            return ZERO, self.chord(low, high)
        steps, knot = len(long) - 1, long[0][1]
        apart = max(knot - low, high - knot)
        near = (abs(k - knot) for k, jump in self.jumps.items() if jump and 2 * abs(k - knot) > apart)
        h = (long[-1][0] - knot) / (steps - 1) if steps > 1 else min(near, default=apart)
        a = (long[-1][3] - long[0][3]) / (2 * h * steps)
        return a, long[0][3] - a * (2 * knot - h)


@dataclass
class Value:
    """What a neuron holds: an affine part (with its constant), a function of each ridge, and noise."""

    affine: Row = field(default_factory=dict)
    ridges: dict[int, Piecewise] = field(default_factory=dict)
    noise: Range = (ZERO, ZERO)

    def add(self, other: Value, factor: Fraction) -> None:
        """self += factor other."""
        put(self.affine, other.affine, factor)
        for ridge, function in other.ridges.items():
            self.ridges.setdefault(ridge, Piecewise()).add(function, factor)
        self.noise = plus(self.noise, other.noise, factor)


def canonical(row: Row) -> tuple[tuple[int, Fraction], ...]:
    """A name of the row up to its sign."""
    entries = tuple(sorted((k, c) for k, c in row.items() if c))
    return entries if not entries or entries[0][1] > 0 else tuple((k, -c) for k, c in entries)


class Stage:
    """One modulated layer on z (M modules, 1 to K on) and on v in a box; ``errors``: v less the teacher's.

    states: (as fed, as the teacher has it) of a module that is on, each a range: one for each level, or an interval.
    Sums over the tasks are lists of ranges: what is always there, then what each module adds when it is on.
    """

    def __init__(self, tasks: tuple[int, int, Any], box: list[Range], errors: list[Range]) -> None:
        (self.m, self.active, self.states), self.box, self.errors = tasks, box, errors
        self.rows: list[tuple[Row, Row, int, Range]] = []  # of each ridge: over z, over v, the module it reads, range
        self.numbers: dict[Any, int] = {}
        self.fed = hull(*(f for fed, _ in self.states for f in fed))

    def total(self, sums: Sequence[Range]) -> Range:
        """Range of a sum over all tasks: the one module, and up to K - 1 others, that add most."""
        low, *lows = sorted(low for low, _ in sums[1:])
        *highs, high = sorted(high for _, high in sums[1:])
        least = low + sum((v for v in lows[: self.active - 1] if v < 0), ZERO)
        most = high + sum((v for v in highs[::-1][: self.active - 1] if v > 0), ZERO)
        return sums[0][0] + least, sums[0][1] + most

    def over(self, row: Row, box: Sequence[Range] | None = None) -> Range:
        """Range of the constant and the part over v."""
        total = (row.get(CONSTANT, ZERO),) * 2
        for k, c in row.items():
            if not isinstance(k, tuple) and k >= self.m:
                total = plus(total, (box or self.box)[k - self.m], c)
        return total

    def ridge(self, row: Row) -> int:
        """The number of the ridge along a row."""
        name = canonical({k: c for k, c in row.items() if k != CONSTANT})
        if name not in self.numbers:
            self.numbers[name] = len(self.rows)
            z, v = ({k: c for k, c in name if (k < self.m) is part} for part in (True, False))
            span = self.total([self.over(v), *(plus((ZERO, ZERO), self.fed, z.get(k, ZERO)) for k in range(self.m))])
            self.rows.append((z, v, next(iter(z)) if len(z) == 1 else -1, span))
        return self.numbers[name]

    def neuron(self, pre: Value) -> Value:
        """ReLU of a value."""
        constant, row = pre.affine.get(CONSTANT, ZERO), {k: c for k, c in pre.affine.items() if c and k != CONSTANT}
        if not (pre.ridges or row or any(pre.noise)):
            return Value({CONSTANT: max(constant, ZERO)})
        if len(pre.ridges) <= 1 and not any(pre.noise):
            number = next(iter(pre.ridges)) if pre.ridges else self.ridge(row)
            own = self.rows[number][0] | self.rows[number][1]
            factor = row.get(next(iter(own)), ZERO) / own[next(iter(own))]
            if not any(put(dict(row), own, -factor).values()):
                function = Piecewise(constant, factor).add(pre.ridges.get(number, Piecewise()))
                function = function.relu(*self.rows[number][3])
                straight = put({CONSTANT: function.constant}, own, function.slope)
                return Value(ridges={number: function}) if function.jumps else Value(straight)
        low, high = self.total(self.difference(pre, [{}] * self.m))
        if low + high < 0:  # nearer to off than to on
            return Value(noise=(ZERO, max(high, ZERO)))
        return Value(dict(pre.affine), pre.ridges, (pre.noise[0], pre.noise[1] + max(-low, ZERO)))

    def difference(self, value: Value, theta: Sequence[Row]) -> list[Range]:
        """Bounds of value - sum_m z_m theta[m] . (v, 1) with the teacher's z and v; theta[m] over v and CONSTANT."""
        owned: dict[int, list[tuple[int, Piecewise]]] = {}
        for number, function in value.ridges.items():
            owned.setdefault(self.rows[number][2], []).append((number, function))
        shared, always = self.quadratics(owned.pop(-1, []), None)
        put(shared, value.affine)
        always, base, modules = plus(always, value.noise), dict(shared), list[Range]()
        for m in range(self.m):
            off, noise_off = self.fixed(owned.get(m, []), ZERO) if self.m > 1 else ({}, (ZERO, ZERO))
            put(base, off)
            always, ends = plus(always, noise_off), list[Fraction]()
            for fed, true in self.states:
                one = fed[0] == fed[1]
                state, noise = self.fixed(owned.get(m, []), fed[0]) if one else self.quadratics(owned.get(m, []), fed)
                for f, t in {*zip(fed, true, strict=True)}:
                    row = put(put({}, state), off, -ONE) if self.m > 1 else put(dict(base), state)  # M = 1: always on
                    for k, c in [*shared.items(), *(() if one else state.items())]:
                        if k == m or (isinstance(k, tuple) and k[0] == m):
                            put(row, {CONSTANT if k == m else k[1]: f * c})
                    wrong = self.over({**theta[m], CONSTANT: ZERO}, self.errors)
                    total = plus(plus(self.over(put(row, theta[m], -t)), wrong, t), noise)
                    ends += plus(total, noise_off, -ONE)
            modules.append(hull(*ends))
        return [plus(always, self.over(base if self.m > 1 else {})), *modules]

    def quadratics(self, ridges: list[tuple[int, Piecewise]], fed: Range | None) -> tuple[Row, Range]:
        """Functions of ridges as a polynomial and noise; partners as quadratics that cancel but for z_m v_i."""
        partners: dict[Any, list[tuple[Row, Row, Range, Piecewise]]] = {}
        for number, function in ridges:
            z, v, owner, span = self.rows[number]
            one = (z, v, span if fed is None else plus(self.over(v), fed, z[owner]), function)
            partners.setdefault((canonical(z), canonical(v)), []).append(one)
        total, noise = {}, (ZERO, ZERO)  # type: ignore[var-annotated]
        for group in partners.values():
            fits = [function.parabola(*span) for _, _, span, function in group]
            mean = sum((a for a, _ in fits), ZERO) / len(fits)
            for (z, v, span, function), (a, b) in zip(group, fits, strict=True):
                a, b = (a - mean, b) if a != mean else (ZERO, function.chord(*span))
                noise = plus(noise, function.against(*span, a, b))
                put(total, z | v, b)
                put(total, {(m, i): c * d for m, c in z.items() for i, d in v.items()} if a else {}, 2 * a)
        return total, noise

    def fixed(self, ridges: list[tuple[int, Piecewise]], fed: Fraction) -> tuple[Row, Range]:
        """Functions of one module's ridges with z_m fixed: affine functions of v and noise, parallel ones together."""
        along: dict[Any, Piecewise] = {}
        for number, function in ridges:
            z, v, owner, _ = self.rows[number]
            name = canonical(v)
            along.setdefault(name, Piecewise()).add(function.along(1 if dict(name) == v else -1, z[owner] * fed))
        total, noise = {}, (ZERO, ZERO)  # type: ignore[var-annotated]
        for name, function in along.items():
            span = self.over(dict(name))
            b = function.chord(*span)
            put(total, dict(name), b)
            noise = plus(noise, function.against(*span, ZERO, b))
        middle = (noise[0] + noise[1]) / 2  # a constant is no noise
        return put(total, {CONSTANT: middle}), (noise[0] - middle, noise[1] - middle)


def bounds(document: dict[str, Any]) -> list[Fraction]:
    """A bound of |network - hyperteacher| for each output, re-derived. ValueError for what is malformed or unknown."""
    family, network, m = document["family"], document["network"], document["family"]["modules"]
    levels, fed, box = (exact(part) for part in (family["levels"], network["fed"], family["box"]))
    require(type(m) is type(family["active"]) is int and 1 <= family["active"] <= m, "modules, active")
    require(all(len(part["modules"]) == len(part["biases"]) == m for part in family["layers"]), "modules")
    require(levels == sorted(levels) and fed == sorted(fed) and len(levels) == len(fed) > 0 < levels[0], "levels")
    states = [((f, f), (t, t)) for f, t in zip(fed, levels, strict=True)]
    require(family["weights"] in ("khot", "discrete", "continuous"), "weights")
    if family["weights"] == "continuous":
        require(len(levels) == 2 and fed == levels, "levels of continuous weights")
        states = [((levels[0], levels[1]), (levels[0], levels[1]))]
    require(all(low <= high for low, high in box), "box")
    layers, widths = [], [m + len(box)]
    for part in network["layers"]:
        rows = [{i: exact(weight) for i, weight in row} for row in part["weights"]]
        require(all(type(i) is int and 0 <= i < widths[-1] for row in rows for i in row), "weights")
        require([*map(len, rows)] == [*map(len, part["weights"])] and len(rows) == len(part["biases"]), "weights")
        layers.append((rows, exact(part["biases"])))
        widths.append(len(rows))
    errors, values, at = [(ZERO, ZERO)] * len(box), [Value({i: ONE}) for i in range(widths[0])], 0
    for part, hint in zip(family["layers"], document["units"], strict=True):
        chosen, last = dict(hint["neurons"]), part is family["layers"][-1]
        modules, biases, scale = exact(part["modules"]), exact(part["biases"]), exact(family["scale"])
        sizes = {len(row) for row in [*biases, *(row for module in modules for row in module)]}
        require({*map(len, modules)} == {len(box)} and len(sizes) == 1, "modules")
        entries = [{CONSTANT: biases[k], **{m + i: row for i, row in enumerate(modules[k])}} for k in range(m)]
        units = range(len(biases[0]))  # theta[h][k]: what unit h takes of (v, 1) when module k is on
        theta = [[{key: scale * row[h] for key, row in module.items()} for module in entries] for h in units]
        require(type(hint["layer"]) is int and at - (not chosen) <= hint["layer"] < len(layers) - 1, "units: layer")
        require(all(type(n) is int and 0 <= n < widths[hint["layer"] + 1] for n in chosen), "units: neurons")
        require({*chosen.values()} <= {*units} and len({*chosen.values()}) == len(chosen), "units")
        stage = Stage((m, family["active"], states), box, errors)
        while at <= hint["layer"]:
            before, at = reads(layers[at], values), at + 1
            values = [Value() if at > hint["layer"] and n in chosen else stage.neuron(v) for n, v in enumerate(before)]
        differences = {h: stage.difference(before[n], theta[h]) for n, h in chosen.items()}
        errs = {h: [hull(ZERO, *part) for part in sums] for h, sums in differences.items()}  # of ReLU(p) - ReLU(t)
        spans = [(-high, -low) for low, high in (stage.total(stage.difference(Value(), rows)) for rows in theta)]
        passed = [h for h, span in enumerate(spans) if h not in errs and span[1] > 0]
        require(all(last and spans[h][0] >= 0 for h in passed), "units: one is not always off and has no neuron")
        if last:
            found, readout = [], exact(family["readout"])
            require(len(readout) == len(theta) and all(len(row) == widths[-1] for row in readout), "readout")
            for o, value in enumerate(reads(layers[-1], values)):
                linear: list[Row] = [{} for _ in range(m)]
                for h in passed:  # always on: they pass their pre-activation on
                    linear = [put(total, row, readout[h][o]) for total, row in zip(linear, theta[h], strict=True)]
                sums = stage.difference(value, linear)
                for n, h in chosen.items():
                    weight = layers[-1][0][o].get(n, ZERO)
                    sums = [plus(a, b, weight) for a, b in zip(sums, errs[h], strict=True)]
                    sums[0] = plus(sums[0], hull(ZERO, (weight - readout[h][o]) * max(spans[h][1], ZERO)))
                low, high = stage.total(sums)
                found.append(max(-low, high))
            return found
        clean = (not (v.ridges or any(v.noise) or any(c for k, c in v.affine.items() if k >= m)) for v in values)
        require(all(clean), "units: more than z passes them")
        values = [Value({m + chosen[n]: ONE}) if n in chosen else v for n, v in enumerate(values)]
        errors = [stage.total(errs[h]) if h in errs else (ZERO, ZERO) for h in units]
        box = [(ZERO, max(span[1] + error[1], ZERO)) for span, error in zip(spans, errors, strict=True)]
    raise ValueError("malformed: no layers")


def reads(layer: tuple[list[Row], list[Fraction]], values: list[Value]) -> list[Value]:
    """The pre-activations of a layer."""
    found = [Value({CONSTANT: bias}) for bias in layer[1]]
    for total, row in zip(found, layer[0], strict=True):
        for i, weight in row.items():
            total.add(values[i], weight)
    return found


def exact(nested: Any) -> Any:
    """Nested lists of fractions, each written 'p' or 'p/q'."""
    if isinstance(nested, list):
        return [exact(entry) for entry in nested]
    require(re.fullmatch(r"-?[0-9]+(/[0-9]*[1-9][0-9]*)?", nested), f"{nested!r} is no fraction")
    return Fraction(nested)


def require(holds: Any, what: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(f"malformed: {what}")


def digests(document: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of each section, in JSON, keys sorted."""
    texts = {name: json.dumps(document[name], sort_keys=True) for name in SECTIONS}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def verify(text: str) -> str:
    """What the certificate shows, in a line. ValueError (OverflowError) where it shows nothing: changed, or not so."""
    try:
        document = json.loads(text)
        require(
            f"{document['format']} {document['version']}" == f"{FORMAT} {VERSION}", f"no {FORMAT} of version {VERSION}"
        )
        found = digests(document)
        changed = [name for name in SECTIONS if document["digests"].get(name) != found[name]]
        require(not changed, f"{', '.join(changed)} changed: the digest is another")
        claimed, derived = exact(document["bounds"]), bounds(document)
        numbers = all(isinstance(claim, Fraction) for claim in claimed)
        require(numbers and len(claimed) == len(derived), "bounds: one for each output")
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as reason:
        raise ValueError(f"malformed: {type(reason).__name__} {reason}") from reason
    for o, (claim, bound) in enumerate(zip(claimed, derived, strict=True)):
        if bound > claim:
            raise ValueError(f"rejected: output {o} is claimed within {float(claim):.6g}, derived {float(bound):.6g}")
    return f"accepted: |network - {document['about']['object']}| <= {float(max(claimed)):.6g}"


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            print(verify(file.read()))
    except (IndexError, ValueError, OverflowError, OSError) as reason:
        sys.exit(f"python checker.py FILE: {reason}")
