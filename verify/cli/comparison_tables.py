"""What `kofm compare` prints: medians and intervals over seeds, of scores, layers and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from verify.cli.tables import number, render, whole
from verify.comparison import Row
from verify.experiments import interval

#: What is summarised over seeds: a name, and its value in a row.
_VALUES: dict[str, Callable[[Row], float | None]] = {
    "r2_pooled_train": lambda row: row["train"]["r2_pooled"],
    "r2_pooled_held_out": lambda row: row["held_out"]["r2_pooled"],
    "r2_ratios_train": lambda row: row["train"]["r2_ratios"],
    "r2_ratios_held_out": lambda row: row["held_out"]["r2_ratios"],
    "rms_train": lambda row: row["train"]["rms"],
    "rms_held_out": lambda row: row["held_out"]["rms"],
    "sup_train": lambda row: row["sup_train"],
    "sup_held_out": lambda row: row["sup_held_out"],
}


def summarise(rows: Sequence[Row]) -> list[Row]:
    """One entry for each split and network: median, least and most over its rows."""
    found = []
    for (split, network), group in _groups(rows).items():
        first = group[0]
        entry: Row = {"split": split, "network": network, "kind": first["kind"]}
        entry["seeds"] = len({row["seed"] for row in group})
        for key in ("neurons", "parameters", "depth", "guaranteed", "rounding"):
            values = [row[key] for row in group if row[key] is not None]
            entry[key] = [min(values), max(values)] if values else None
        entry["status"] = _worst([row["status"] for row in group])
        entry |= {name: interval([value(row) for row in group]) for name, value in _VALUES.items()}
        entry["moved"] = interval([row["moved"] for row in group])
        entry["constant"] = sum(row[part]["constant"] for row in group for part in ("train", "held_out"))
        found.append(entry)
    return found


def report(rows: Sequence[Row], widths: Sequence[Row] = (), supports: Sequence[Row] = ()) -> str:
    """Everything: scores, layers, sizes, searches, and what the words mean."""
    parts = []
    for split in dict.fromkeys(row["split"] for row in rows):
        own = [row for row in rows if row["split"] == split]
        parts.append(f"{_heading(own)}\n{_scores(own)}")
    sections = (
        (
            "Decodability of z: R2 of ridge, held out, fresh x for each task (only the excess over untrained and",
            _decoded,
        ),
        ("Layers: how far ablating neurons touches one module's tasks alone (0 to 1); teacher's units found", _layers),
        ("Sizes: largest weight; slopes, at most (guaranteed) and met (measured); float32 noise (measured)", _norms),
        ("The task recovered from the network (claim C9): measured failures, and the bound", _recovered),
        ("Training from the exact weights: how far it went, |after - before| / |before|, and what it cost", _moved),
    )
    for title, table in sections:
        text = table(rows)
        if text:
            parts.append(f"{title}{' encoding is evidence)' if table is _decoded else ''}\n{text}")
    if widths:
        title = f"Smallest trained width (two layers) with median held-out R2 >= {widths[0]['target']:g}, random 25 %"
        parts.append(f"{title}\n{_widths(widths)}")
    if supports:
        title = f"Fewest random training supports with median held-out R2 >= {supports[0]['target']:g} (claim C15)"
        parts.append(f"{title}\n{_supports(supports)}")
    return "\n\n".join([*parts, verdict(rows)])


def verdict(rows: Sequence[Row]) -> str:
    """One line: what the constructed networks reach, and the trained ones, on held-out tasks."""
    found = []
    for entry in summarise(rows):
        if entry["kind"] == "trained":
            held = entry["r2_pooled_held_out"]
            found.append(f"{entry['network']} on {entry['split']}: {_r2(held['median'])}")
    worst = _worst([row["status"] for row in rows if row["kind"] == "constructed"])
    return f"constructed networks: {worst}; held-out R2 (pooled, median): {'; '.join(found)}"


def _heading(rows: Sequence[Row]) -> str:
    first = rows[0]
    counts = f"{whole(first['supports_trained'])} supports trained on, {whole(first['supports_held_out'])} held out"
    known = {True: "", False: "not ", None: "perhaps not "}
    conditions = ", ".join(f"{known[first[what]]}{what}" for what in ("compositional", "connected"))
    seeds = len({row["seed"] for row in rows})
    shown = f"M = {first['modules']}, K = {first['active']}, {first['weights']}, {first['encoding']}"
    over = f"{seeds} seeds, median [least, most]" if seeds > 1 else f"seed {first['seed']}"
    return f"{first['split']}: {counts} ({conditions}); {shown}; {over}"


def _scores(rows: Sequence[Row]) -> str:
    headings = (
        "network", "neurons", "parameters", "depth", "R2 pooled train", "R2 pooled held-out", "R2 ratios held-out",
        "RMS held-out", "sup train", "sup held-out", "guaranteed", "rounding", "status",
    )  # fmt: skip
    lines = [
        [
            entry["network"],
            _range(entry["neurons"]),
            _range(entry["parameters"]),
            _range(entry["depth"]),
            _r2(entry["r2_pooled_train"]["median"]),
            _interval(entry["r2_pooled_held_out"]),
            _interval(entry["r2_ratios_held_out"]),
            number(entry["rms_held_out"]["median"]),
            number(entry["sup_train"]["median"]),
            number(entry["sup_held_out"]["median"]),
            number(entry["guaranteed"] and entry["guaranteed"][1]),
            number(entry["rounding"] and entry["rounding"][1]),
            entry["status"],
        ]
        for entry in summarise(rows)
    ]
    return render(headings, lines)


def _decoded(rows: Sequence[Row]) -> str:
    """Medians over seeds: the encoding, each hidden layer and the output; and the most with shuffled labels."""
    lines, depth = [], 0
    for (split, network), group in _groups(rows).items():
        probes = [p for row in group for p in row["decodability"] or ()]
        own = [p for p in probes if (p["target"], p["protocol"], p["stage"]) == ("weights", "fresh", "post")]
        layers = sorted({p["layer"] for p in own})
        if layers:
            values = [_r2(interval([p["r2"] for p in own if p["layer"] == layer])["median"]) for layer in layers]
            depth = max(depth, len(layers) - 2)
            lines.append((split, network, values, _r2(interval([p["shuffled"] for p in own])["most"])))
    headings = ["split", "network", "encoding", *(f"hidden {i + 1}" for i in range(depth)), "output", "shuffled (most)"]
    table = [
        [split, network, *values[:-1], *["-"] * (depth - len(values) + 2), values[-1], shuffled]
        for split, network, values, shuffled in lines
    ]
    return render(headings, table) if table else ""


def _layers(rows: Sequence[Row]) -> str:
    """Medians over seeds: the modularity of each hidden layer, and the best match of a layer with the teacher's
    units.
    """
    lines, depth = [], 0
    for (split, network), group in _groups(rows).items():
        layers = [row["modularity"] for row in group if row["modularity"]]
        matches = [row["matching"] for row in group if row["matching"]]
        if layers or matches:
            deepest = max(map(len, layers), default=0)
            depth = max(depth, deepest)
            each = [[part[i]["score"] for part in layers if i < len(part)] for i in range(deepest)]
            shares = [_r2(interval(values)["median"]) for values in each]
            best = interval([max(m["r2"] for m in part) for part in matches])
            lines.append((split, network, shares, _r2(best["median"])))
    headings = ["split", "network", *(f"modular hidden {i + 1}" for i in range(depth)), "units found"]
    table = [[split, network, *shares, *["-"] * (depth - len(shares)), best] for split, network, shares, best in lines]
    return render(headings, table) if table else ""


def _norms(rows: Sequence[Row]) -> str:
    headings = {
        "max_weight": "largest weight", "lipschitz_x": "slope in x at most", "steepest_x": "slope in x met",
        "lipschitz_z": "slope in z at most", "steepest_z": "slope in z met", "noise_rms": "noise rms",
        "noise_largest": "noise largest",
    }  # fmt: skip
    return _medians(rows, "norms", headings)


def _recovered(rows: Sequence[Row]) -> str:
    headings = {"square": "D^2", "mse": "MSE", "failures": "failures", "beyond": "beyond D/2", "bound": "bound"}
    return _medians(rows, "recovery", headings)


def _moved(rows: Sequence[Row]) -> str:
    lines = []
    for entry in summarise(rows):
        if entry["moved"]["n"]:
            own = [row for row in rows if (row["split"], row["network"]) == (entry["split"], "exact")]
            before = (interval([row[part] for row in own])["median"] for part in ("sup_train", "sup_held_out"))
            after = (entry[part]["median"] for part in ("sup_train", "sup_held_out"))
            shown = number(entry["moved"]["median"]), _interval(entry["r2_pooled_held_out"])
            lines.append([entry["split"], entry["network"], *shown, *map(number, (*before, *after))])
    headings = (
        "split", "network", "moved", "R2 held-out after", "sup train before", "held-out before", "train after",
        "held-out after",
    )  # fmt: skip
    return render(headings, lines) if lines else ""


def _medians(rows: Sequence[Row], part: str, headings: dict[str, str]) -> str:
    """A table of the medians over seeds of one part of the rows; empty where no row has it."""
    lines = []
    for (split, network), group in _groups(rows).items():
        own = [row[part] for row in group if row[part]]
        if own:
            values = (interval([entry[key] for entry in own])["median"] for key in headings)
            lines.append([split, network, *map(number, values)])
    return render(("split", "network", *headings.values()), lines) if lines else ""


def _widths(found: Sequence[Row]) -> str:
    keys = ("modules", "width", "neurons", "exact_neurons", "seeds")
    lines = [[*(whole(row[key]) for key in keys), _tried(row)] for row in found]
    return render(("M", "width", "neurons", "neurons of the exact network", "seeds", "R2 at width"), lines)


def _supports(found: Sequence[Row]) -> str:
    keys = ("modules", "active", "floor", "supports", "all_supports", "seeds")
    lines = [[*(whole(row[key]) for key in keys), _tried(row)] for row in found]
    return render(("M", "K", "floor", "supports", "of all", "seeds", "R2 at supports"), lines)


def _tried(row: Row) -> str:
    """Every score that a search met, in order."""
    pairs = sorted((int(at), score) for at, score in row["tried"].items())
    return " ".join(f"{at}:{'-' if score is None else f'{score:.2f}'}" for at, score in pairs) or "-"


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["split"], row["network"]), []).append(row)
    return groups


def _worst(states: Sequence[str]) -> str:
    return next((state for state in ("violated", "unknown", "holds") if state in states), "-")


def _r2(value: float | None) -> str:
    """R2 with three digits, never rounded up to 1."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.3g}"
    return "1" if value > 1 - 1e-9 else f"{min(value, 0.9999):.4f}" if value > 0.9995 else f"{value:.3f}"


def _interval(found: dict[str, Any]) -> str:
    if found["n"] < 2:
        return _r2(found["median"])
    return f"{_r2(found['median'])} [{_r2(found['least'])}, {_r2(found['most'])}]"


def _range(found: list[int] | None) -> str:
    return "-" if found is None else whole(found[0]) if found[0] == found[1] else f"{found[0]:,}-{found[1]:,}"
