"""Closed forms: how many neurons a network has, from the family and the plan alone, without building a layer.

One modulated layer costs its gadgets, the carriers of what its units read beside them, and its bent units:

    gates on a grid of L levels   L sum_m rank(Theta_m) + (L - 1) M
    products, shallow             sum_r 2 (n_r - 1), or sum_r (2 n_r - 1) + M for {0} + [lo, hi]
    products, deep                sum_r 2 sum_k q_rk, and what waits for the last step is carried
    carriers                      min(rows, columns) of the linear remainder: min(M, H) where all of it is there
    memorise                      T H

A built network must have exactly this many (tests/constructions/test_counting.py). Where no closed form is known, None.
"""

from __future__ import annotations

import numpy as np

from constructions.planning import Gates, Plan
from theory.arithmetic import Array, as_exact, as_float
from theory.circuit import Bilinear, ReLU
from theory.families.family import Family
from theory.families.hyperteacher import Hyperteacher
from theory.families.words import Words


def closed_form(family: Family, plan: Plan, method: str) -> tuple[str, int | None]:
    """(formula as text, its value) for the network of a plan; value None where there is no closed form."""
    if method == "memorise":
        bent = next(n for n in plan.circuit.nodes if isinstance(n, ReLU))
        units = _bent(plan, bent)
        return f"T x H, less units that are never on: {units}", units
    if isinstance(family, Hyperteacher):
        return _hyperteacher(family, plan)
    if isinstance(family, Words):
        return _words(family, plan)
    return "counted, no closed form for this family", None


def memorise_neurons(family: Family) -> int | None:
    """T H, the size of the memorising network (claim C7), or None where it does not apply."""
    if isinstance(family, Hyperteacher) and family.weights == "khot" and len(family.hidden) == 1:
        return family.tasks * family.hidden[0]
    return None


def _hyperteacher(family: Hyperteacher, plan: Plan) -> tuple[str, int | None]:
    gates = [plan.gates[id(n)] for n in plan.circuit.nodes if isinstance(n, Bilinear)]
    units = [n for n in plan.circuit.nodes if isinstance(n, ReLU)]
    if any(_passed(plan, unit) for unit in units) or (len(gates) > 1 and any(g.steps is not None for g in gates)):
        return "counted; no closed form for units of known sign or for several deep layers", None
    if len(gates) > 1 and not _all_read(family, plan, gates):
        return "counted; no closed form where a later layer does not gate every module that it reads", None
    gadgets = sum(g.gadget_neurons for g in gates)
    bent = sum(_bent(plan, unit) for unit in units)
    carried = _carriers(family, plan, gates)
    return f"{_gadget_text(gates)} + carriers + units = {gadgets} + {carried} + {bent}", gadgets + carried + bent


def _all_read(family: Hyperteacher, plan: Plan, gates: list[Gates]) -> bool:
    """Whether each layer has gadgets and, from the second on, gates all modules that its remainder reads.

    Then those are carried raw for the gates anyway; otherwise the cheapest way depends on all layers together.
    """
    for layer, gate in enumerate(gates):
        rest = (_remainder(family, plan, gate, layer)[: family.modules] != 0).any(axis=1)
        if gate.gadget_neurons == 0 or (layer > 0 and (rest & ~_modules_read(gate)).any()):
            return False
    return True


def _gadget_text(gates: list[Gates]) -> str:
    first = gates[0]
    one = len(gates) == 1
    if first.kind == "gate":
        levels = len(first.levels)
        terms = "sum_m rank(Theta_m)" if first.route == "rank" else f"R_{first.route}"
        text = terms if levels == 1 else f"{levels} {terms} + {levels - 1} M"
    elif first.steps is not None:
        text = "sum_r 2 (q_r1 + .. + q_rD)"
    else:
        text = "sum_r (2 n_r - 1) + M" if first.kind == "split" else "sum_r 2 (n_r - 1)"
    return text if one else f"sum over layers of [{text}]"


def _carriers(family: Hyperteacher, plan: Plan, gates: list[Gates]) -> int:
    """Carriers of all layers: the linear remainder of each, and the module weights that later layers still need."""
    remainders = [_remainder(family, plan, g, layer) for layer, g in enumerate(gates)]
    reads = [_modules_read(g) | (r[: family.modules] != 0).any(axis=1) for g, r in zip(gates, remainders, strict=True)]
    units = [n for n in plan.circuit.nodes if isinstance(n, ReLU)]
    total = 0
    for layer, (gate, remainder) in enumerate(zip(gates, remainders, strict=True)):
        later = np.zeros(family.modules, dtype=bool)
        for read in reads[layer + 1 :]:
            later |= read
        beside_units = int(later.sum()) if _bent(plan, units[layer]) else 0
        if gate.gadget_neurons == 0:  # nothing to gate: the units read the layer before
            total += beside_units
            continue
        rows = (remainder != 0).any(axis=1)
        columns = int((remainder != 0).any(axis=0).sum())
        raw = rows.copy()
        raw[: family.modules] |= later
        held = int(min(raw.sum(), later.sum() + columns))
        total += held
        total += _waiting(gate, held, (remainder != 0).any(axis=0))
        total += beside_units
    return total


def _waiting(gate: Gates, held: int, before: Array) -> int:
    """Carriers from the second step of a deep product on: all hinges so far, or one sum a unit, whichever is fewer."""
    if gate.steps is None:
        return 0
    total, reached = 0, before.copy()
    moving = np.flatnonzero(gate.moving)
    out = gate.terms.out.csr()
    for k in range(gate.depth - 1):
        running = [r for r in moving if len(gate.steps[r]) > k]
        held += sum(2 * gate.steps[r][k] for r in running)
        reached |= np.asarray((out[running] != 0).sum(axis=0)).ravel() > 0
        held = min(held, int(reached.sum()))
        total += held
    return total


def _modules_read(gates: Gates) -> Array:
    read = np.zeros(gates.node.u.width, dtype=bool)
    read[gates.terms.keep(gates.hinged).left.nonzero_rows()] = True
    return read


def _remainder(family: Hyperteacher, plan: Plan, gates: Gates, layer: int) -> Array:
    """What a layer's units read beside the gadgets: (modules + fan_in, width), exact where Fractions are used."""
    exact = plan.exact
    convert = as_exact if exact else as_float
    live = plan.live[id(gates.node)]
    bias, tensor = convert(family.biases[layer]), convert(gates.node.tensor)
    of_z = np.where(live, bias, 0 * bias)
    if gates.folded.any():
        values = convert(gates.node.v.domain.lower[gates.folded])
        of_z = of_z + np.where(live, (tensor[:, gates.folded, :] * values[None, :, None]).sum(axis=1), 0 * bias)
    terms = plan.terms_of(gates)
    middle_u, middle_v = ((side[0] / 2 + side[1] / 2) for side in (gates.u, gates.v))
    on_u = gates.v[0] if gates.kind == "gate" else middle_v
    still_u = ~gates.moving & (gates.v[0] != gates.v[1])
    on_u = np.where(still_u, 0.0, on_u)
    on_v = np.where(gates.moving, middle_u, np.where(still_u, middle_u, 0.0))
    if gates.kind != "product":
        on_v = np.zeros(terms.count)
    of_z = of_z + (terms.left.scale_columns(convert(on_u)) @ terms.out).toarray()
    of_v = (terms.right.scale_columns(convert(on_v)) @ terms.out).toarray()
    return np.concatenate([of_z, of_v])


def _bent(plan: Plan, unit: ReLU) -> int:
    inside = unit.of.domain
    return int((plan.live[id(unit)] & (inside.lower < 0) & (inside.upper > 0)).sum())


def _passed(plan: Plan, unit: ReLU) -> bool:
    inside = unit.of.domain
    return bool((plan.live[id(unit)] & (inside.lower >= 0) & (inside.upper > 0)).any())


def _words(family: Words, plan: Plan) -> tuple[str, int | None]:
    gates = [plan.gates[id(n)] for n in plan.circuit.nodes if isinstance(n, Bilinear)]
    if any(g.route != "M" or _leaves_rest(family, g) for g in gates):
        return "counted; no closed form for this route", None
    total = sum(g.gadget_neurons for g in gates)
    waiting = sum(step * int(_modules_read(g).sum()) for step, g in enumerate(gates))
    return f"K M d + M K (K - 1)/2 = {total} + {waiting}", total + waiting


def _leaves_rest(family: Words, gates: Gates) -> bool:
    """Whether some module lacks a term, so that the floors of a group are not common."""
    shape = (gates.node.u.width, family.state)
    floor = np.full(shape, np.nan)
    floor[gates.terms.coordinate, gates.terms.unit] = gates.v[0]
    columns = ~np.isnan(floor).all(axis=0)
    return bool(np.isnan(floor[:, columns]).any() or (floor[:, columns] != floor[0, columns]).any())
