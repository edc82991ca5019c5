"""Which networks are compared: families x splits x seeds, the constructed networks of each, and those to be trained.

Everything that takes time is stored under its configuration (verify.store): a network that was trained, a row that was
measured. A run that is started again does only what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from constructions import build, memorise_neurons
from theory import Hyperteacher, encodings, splits
from theory.arithmetic import as_float
from theory.domains import Tasks
from theory.encodings import Encoding
from theory.splits import Split
from verify.comparison import COMPLETE, Measures, Row, baseline_rows, measure
from verify.store import Store
from verify.training import Run, Settings, Trained, mlp, train

#: Bumped where a change of the code changes what is stored under a configuration.
VERSION = 1
#: The memorising network is built up to this many neurons, and counted above.
MEMORISED = 20_000
#: From what a network starts: random weights, or those of the exact construction.
STARTS = ("random", "exact")


@dataclass(frozen=True, eq=False)
class Case:
    """One family, split and seed; the seed is that of the split's, the encoding's and the training's randomness."""

    family: Hyperteacher
    split: Split
    seed: int
    encoding_name: str = "identity"
    asked: str = ""
    encoding: Encoding = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", encodings.make(self.encoding_name, self.family, self.seed))

    @property
    def label(self) -> str:
        """The split in words, as it was asked for: 'random 25 %'."""
        return self.asked or describe(self.split)

    @property
    def config(self) -> Row:
        """What the case is, in JSON types."""
        split = self.split
        sample = split.train.sample(64, np.random.default_rng(0))
        return {
            "version": VERSION,
            "family": digest_of(self.family),
            "split": [
                split.name,
                split.train.count,
                split.held_out.count,
                hashlib.sha256(sample.tobytes()).hexdigest(),
            ],
            "encoding": self.encoding_name,
            "seed": self.seed,
        }

    @property
    def about(self) -> Row:
        """What every row of the case says about it."""
        family, split, found = self.family, self.split, self.split.conditions
        return {
            "family": family.name, "modules": family.modules, "active": family.active, "inputs": family.inputs,
            "hidden": list(family.hidden), "outputs": family.outputs, "weights": family.weights,
            "tasks": family.tasks, "split": self.label, "supports_trained": split.train.count,
            "supports_held_out": split.held_out.count, "supports_unused": split.unused, "fraction": split.fraction,
            "compositional": found.compositional, "connected": found.connected, "missing": list(found.missing),
            "blocks": [list(block) for block in found.blocks], "encoding": self.encoding_name, "seed": self.seed,
        }  # fmt: skip


def describe(split: Split) -> str:
    """A split in a few words; the share is that of the supports not trained on."""
    if split.name == "non-compositional":
        return "module never seen" if len(split.chosen) == 1 else f"{len(split.chosen)} modules never seen"
    if split.name == "disconnected":
        return f"two blocks {len(split.chosen)}/{split.supports.modules - len(split.chosen)}"
    if split.name == "hotness":
        return "hotness"
    return f"{split.name} {100 * split.fraction:.0f} %"


def digest_of(family: Hyperteacher) -> str:
    """A digest of everything that makes the family."""
    hashed = hashlib.sha256()
    for array in (*family.layers, *family.biases, family.readout, family.box.lower, family.box.upper):
        hashed.update(repr(array.shape).encode() + np.ascontiguousarray(as_float(array)).tobytes())
    hashed.update(repr((family.active, family.weights, float(family.scale), family.levels)).encode())
    return hashed.hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Named:
    """A network to compare. kind: constructed, trained or untrained. config: what tells it apart in the store.

    initial: what it was trained from, where how far it moved is of interest.
    """

    name: str
    kind: str
    config: Row
    net: nn.Module
    initial: nn.Sequential | None = None


@dataclass(frozen=True)
class Plan:
    """A network to train in a case: its hidden widths, and from what it starts."""

    settings: Settings
    start: str = "random"

    @property
    def name(self) -> str:
        """'trained 2 x 128', 'trained 64-32', 'trained from exact'."""
        widths = self.settings.widths
        shape = f"{len(widths)} x {widths[0]}" if len(set(widths)) == 1 else "-".join(map(str, widths))
        return f"trained {shape}" if self.start == "random" else f"trained from {self.start}"


def constructed(family: Hyperteacher, eps: float, dtype: torch.dtype = torch.float32) -> Iterator[Named]:
    """The constructed networks of a family: exact and memorise where they apply, shallow and deep to eps.

    Shallow and deep networks for weights on a grid are those for the whole interval from the lowest to the highest
    level, which contains the grid.
    """
    about: Row = {"eps": eps, "dtype": str(dtype)}
    if family.weights != "continuous":
        yield Named("exact", "constructed", about, build(family, method="exact", dtype=dtype))
    between = relaxed(family)
    if between is not None:
        for method in ("shallow", "deep"):
            yield Named(f"{method}, eps {eps:g}", "constructed", about, build(between, eps, method, dtype=dtype))
    count = memorise_neurons(family)
    if count is not None and count <= MEMORISED:
        yield Named("memorise", "constructed", about, build(family, method="memorise", dtype=dtype))


def relaxed(family: Hyperteacher) -> Hyperteacher | None:
    """The same family with weights anywhere between its lowest and highest level; None where there is one level."""
    if family.weights == "continuous":
        return family
    if len(family.levels) < 2:
        return None
    ends = (family.levels[0], family.levels[-1])
    box = (family.box.lower, family.box.upper)
    arrays = family.layers, family.biases, family.readout
    return Hyperteacher(*arrays, family.active, "continuous", family.scale, box, ends)


def trained(
    cases: Sequence[Case],
    plan: Plan,
    store: Store,
    *,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[nn.Sequential]:
    """The network of each case, from the store or trained now, side by side; each is stored as it ends."""
    found: dict[int, nn.Sequential] = {}
    sizes: dict[tuple[int, ...], list[int]] = {}  # what starts from an exact network has the size of its family's
    runs = [_run(case, plan) for case in cases]
    for i, case in enumerate(cases):
        config = training_config(case, plan)
        row = store.get(config)
        stored = store.get_network(config, row.get("digest")) if isinstance(row, dict) else None
        if stored is not None:
            found[i] = stored
        else:
            sizes.setdefault(runs[i][1].widths, []).append(i)
    for group in sizes.values():

        def keep(number: int, one: Trained, group: list[int] = group) -> None:
            case = cases[group[number]]
            config = training_config(case, plan)
            found[group[number]] = one.network
            digest = store.put_network(config, one.network)
            row = {"losses": list(one.losses), "seconds": one.seconds, "steps": one.steps, "digest": digest}
            store.put("training", config, row | case.about)

        train(
            [runs[i][0] for i in group], runs[group[0]][1], device=device, threads=1,
            checkpoint=store.checkpoints, progress=progress, finished=keep,
        )  # fmt: skip
    return [found[i] for i in range(len(cases))]


def untrained_of(cases: Sequence[Case], plan: Plan, store: Store) -> list[Case]:
    """The cases in which a plan's network is not in the store yet."""
    return [case for case in cases if store.get(training_config(case, plan)) is None]


def initial_of(case: Case, plan: Plan) -> nn.Sequential | None:
    """What a plan starts from in a case: the exact network's weights, or None for random ones."""
    return build(case.family, method="exact", dtype=torch.float32).as_sequential() if plan.start == "exact" else None


def _run(case: Case, plan: Plan) -> tuple[Run, Settings]:
    initial, settings = initial_of(case, plan), plan.settings
    if initial is not None:
        widths = [module.out_features for module in initial if isinstance(module, nn.Linear)][:-1]
        settings = replace(settings, widths=tuple(widths))
    label = repr(case.config)
    return Run(case.family, case.split.train, case.seed, case.encoding, initial, label=label), settings


def training_config(case: Case, plan: Plan) -> Row:
    """The configuration under which a trained network is stored."""
    settings = asdict(plan.settings) | {"widths": list(plan.settings.widths)}
    return {"kind": "training", "start": plan.start, "settings": settings} | case.config


def untrained(case: Case, widths: Sequence[int]) -> nn.Sequential:
    """A network as it is before training."""
    return mlp((case.encoding.width + case.family.inputs, *widths, case.family.outputs), case.seed)


def rows_of(
    case: Case,
    networks: Iterable[Named],
    store: Store | None,
    measures: Measures,
    device: str,
) -> Iterator[Row]:
    """A row a network, then the baselines; from the store where they are."""

    def kept(what: Row, make: Callable[[], list[Row]]) -> list[Row]:
        config = {"kind": "comparison", "measures": asdict(measures), "what": what} | case.config
        stored = None if store is None else store.get(config)
        if stored is not None and _sound(stored):
            return [row | case.about for row in stored["rows"]]  # the same split may be asked for by another name
        rows = [case.about | row for row in make()]
        if store is not None:
            store.put("comparison", config, {"rows": rows})
        return rows

    for named in networks:

        def one(named: Named = named) -> list[Row]:
            row = measure(case.family, case.split, named.name, named.net, case.encoding, measures, case.seed, device)
            moved = None
            if named.initial is not None and isinstance(named.net, nn.Sequential):
                moved = distance_moved(named.initial, named.net)
            return [row | {"kind": named.kind, "moved": moved}]

        yield from kept(named.config | {"name": named.name}, one)

    def baselines() -> list[Row]:
        return [row | {"moved": None} for row in baseline_rows(case.family, case.split, measures, case.seed)]

    yield from kept({"name": "baselines"}, baselines)


def _sound(stored: Any) -> bool:
    """Whether what the store holds is rows, as they were written."""
    rows = stored.get("rows") if isinstance(stored, dict) else None
    return bool(rows) and isinstance(rows, list) and all(isinstance(r, dict) and r.keys() >= {*COMPLETE} for r in rows)


def cases_of(
    family: Callable[[int], Hyperteacher],
    asked: Sequence[tuple[str, float | None]],
    seeds: Sequence[int],
    encoding: str,
) -> list[Case]:
    """Every split with every seed; the family of a seed comes from ``family``."""
    found = []
    for seed in seeds:
        of = family(seed)
        assert isinstance(of.z_domain, Tasks)
        for name, fraction in asked:
            split = splits.make(name, of.z_domain.supports, fraction, seed)
            label = describe(split)
            if fraction is not None:  # as it was asked for, so that no two splits of a comparison have one name
                share = f"{100 * fraction:g} %"
                drawn = name in ("random", "equal", "popular", "unpopular")
                label = f"{name} {share}" if drawn else f"{label}, {share} not trained on"
            found.append(Case(of, split, seed, encoding, label))
    return found


def distance_moved(before: nn.Sequential, after: nn.Sequential) -> float:
    """How far training went: |after - before| / |before|, over all weights and biases."""
    a, b = (torch.cat([p.detach().flatten().double() for p in net.parameters()]) for net in (before, after))
    return float((b - a).norm() / a.norm())


def interval(values: Sequence[float | None]) -> dict[str, Any]:
    """Median, least and most of the values that exist, and how many there are."""
    known = [v for v in values if v is not None]
    if not known:
        return {"median": None, "least": None, "most": None, "n": 0}
    return {"median": float(np.median(known)), "least": min(known), "most": max(known), "n": len(known)}
