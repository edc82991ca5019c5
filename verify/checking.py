"""Checking: the error search held against what is guaranteed, and the verdict.

holds      guaranteed (or certified) + rounding <= eps (or the network's own bound, if eps is not given), nothing
           measured above it
violated   a replayed error above eps + rounding, or above guaranteed + rounding, or above certified
unknown    no bound, a bound above eps, or too little search
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from theory.families.family import Family
from theory.splits.pools import Pool
from verify.error_search import search
from verify.networks import Network, choose_device
from verify.replay import Replayed, replay

#: Points drawn unless told otherwise; fewer than LEAST decide nothing.
POINTS, LEAST = 20_000, 1_000
#: Bytes that a chunk of the search may take.
MEMORY = 2**29


class Witness(NamedTuple):
    """The point of the largest error: x and z as fed to the network, and the output."""

    x: tuple[float, ...]
    z: tuple[float, ...]
    output: int


@dataclass(frozen=True)
class CheckResult:
    """What is known of a network's error. Four numbers that are never mixed; None: not known.

    guaranteed: of the construction, in real arithmetic. rounding: bound for storing and evaluating in the dtype.
    certified: of the stored weights in real arithmetic, as given (verify.certificates). measured: largest |network in
    its dtype - exact target| found, replayed (inf: an output was not finite). measured_exact: largest error of the
    stored weights in real arithmetic, at the witness.
    bound: what was compared, eps or else guaranteed. points: evaluated. supports: different ones among the tasks drawn.
    """

    guaranteed: float | None
    rounding: float | None
    certified: float | None
    measured: float
    measured_exact: float | None
    eps: float | None
    bound: float | None
    status: str
    reason: str
    points: int
    supports: int
    witness: Witness
    seconds: float
    dtype: str
    device: str
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON: plain types, null for what is unknown or not finite."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        values["witness"] = {"x": list(self.witness.x), "z": list(self.witness.z), "output": self.witness.output}
        return values

    def __str__(self) -> str:
        numbers = ("guaranteed", "rounding", "certified", "measured", "measured_exact", "eps")
        shown = {name: getattr(self, name) for name in numbers}
        on = [(m, w) for m, w in enumerate(self.witness.z) if w]
        task = ", ".join(f"z_{m}={w:g}" for m, w in on[:8]) + (", .." if len(on) > 8 else "")
        return "\n".join(
            [
                f"{self.status}: {self.reason}",
                *(f"  {name:<15} {'-' if v is None else f'{v:.4g}'}" for name, v in shown.items()),
                f"  searched        {self.points:,} points, {self.supports:,} supports, {self.dtype} on {self.device}, "
                f"seed {self.seed}, {self.seconds:.1f} s",
                f"  witness         output {self.witness.output} at {task or 'z=0'}",
            ]
        )


def check(
    family: Family,
    net: nn.Module,
    eps: float | None = None,
    points: int = POINTS,
    seed: int = 0,
    device: str = "auto",
    memory: int = MEMORY,
    tasks: Pool | None = None,
    certified: float | None = None,
) -> CheckResult:
    """Try to break a network's bound, and say whether it holds.

    net: a ConstructedMLP, a module that takes (x, z), or an nn.Sequential on the row [z, x]; only the first has a bound
    of its own. points: how many are drawn (the climb from the worst comes on top). memory: bytes for a chunk.
    tasks: look only at tasks with these supports (a split's ``train`` or ``held_out``); the verdict is about them.
    certified: a bound of the stored weights (verify.certificates), held against what is found.
    Deterministic from the seed. Raises ValueError, one line, for eps <= 0, points < 1, shapes that do not fit, a
    device that is not there.
    """
    if eps is not None and not (math.isfinite(eps) and eps > 0):
        raise ValueError(f"eps: {eps} must be a finite number above 0")
    if certified is not None and not (math.isfinite(certified) and certified >= 0):
        raise ValueError(f"certified: {certified} must be a finite number of at least 0")
    for name, value in (("points", points), ("memory", memory)):
        if isinstance(value, bool) or value != int(value) or value < 1:
            raise ValueError(f"{name}: {value} must be an integer of at least 1")
    if isinstance(seed, bool) or seed != int(seed) or seed < 0:
        raise ValueError(f"seed: {seed} must be an integer of at least 0")
    begun = time.perf_counter()
    network = Network(net, family, choose_device(device))
    found = search(family, network, int(points), int(seed), int(memory), tasks)
    replays = replay(family, network, found.x, found.z)
    worst = replays[0]
    doubt = next((r.doubt for r in replays if r.doubt), None)
    status, reason = _judge(network, eps, worst, doubt, int(points), certified)
    return CheckResult(
        guaranteed=network.guaranteed, rounding=network.rounding, certified=certified,
        measured=worst.measured, measured_exact=worst.exact, eps=eps, bound=network.guaranteed if eps is None else eps,
        status=status, reason=reason, points=found.points, supports=found.supports,
        witness=Witness(worst.x, worst.z, worst.output), seconds=time.perf_counter() - begun,
        dtype=str(network.dtype).removeprefix("torch."), device=network.device.type, seed=int(seed),
    )  # fmt: skip


def _judge(
    network: Network, eps: float | None, worst: Replayed, doubt: str | None, points: int, certified: float | None
) -> tuple[str, str]:
    """Status and its reason, one line."""
    guaranteed, rounding = network.guaranteed, network.rounding
    reached = max(worst.measured, worst.exact or 0.0)
    if not network.finite:
        return "violated", "a stored weight is NaN or infinite"
    if not math.isfinite(worst.measured):
        return "violated", "the network's output is NaN or infinite at the witness"
    if doubt is not None:
        return "unknown", f"{doubt}, more than rounding explains: the error found cannot be trusted"
    if guaranteed is not None and rounding is not None and reached > guaranteed + rounding:
        return "violated", (
            f"error {reached:.4g} at the witness, above the network's own bound {guaranteed + rounding:.4g}: "
            "its weights are not those of the construction, or the bound is wrong"
        )
    if certified is not None and worst.exact is not None and worst.exact > certified:
        return "violated", f"error {worst.exact:.4g} at the witness, above the certified {certified:.4g}"
    if eps is not None and reached > eps + (rounding or 0.0):
        return "violated", f"error {reached:.4g} at the witness, above eps {eps:g}"
    if guaranteed is None or rounding is None:
        below = f"nothing above eps {eps:g} was found, but" if eps is not None else "an error was measured, but"
        return "unknown", f"{below} this network has no bound: a search proves nothing"
    if not network.faithful:
        return "unknown", "its stored weights are not those of the construction, so its bound does not speak of them"
    proved = guaranteed if certified is None else min(guaranteed, certified)
    total = proved + rounding
    if eps is not None and total > eps:
        return "unknown", f"the bound {total:.4g} is above eps {eps:g}: build with a smaller eps, or in float64"
    if points < LEAST:
        return "unknown", f"only {points} points were drawn: use at least {LEAST:,}"
    against = f"eps {eps:g}" if eps is not None else "its own bound"
    name = "guaranteed" if proved == guaranteed else "certified"
    return "holds", f"{name} + rounding = {total:.4g} is within {against}, and nothing found is above it"
