"""Training several networks: on a GPU in one batched computation, on a CPU side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import torch

from verify.networks import choose_device
from verify.training.checkpoints import folder_of
from verify.training.runs import Run, Settings, Trained
from verify.training.sessions import Session

Progress = Callable[[int, int], None]
Finished = Callable[[int, Trained], None]


def train(
    runs: Sequence[Run],
    settings: Settings | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> list[Trained]:
    """Train a network for each run.

    On a GPU all runs are one batched computation. On a CPU, where batched products are slower at all but tiny widths
    (benchmarks/training.py), they go side by side, each in ``threads`` threads (default: all for a single run, else
    1), and each ends with the bytes that it has alone. The bytes of a result depend on the threads, not on the time.

    checkpoint: a folder; a run that was killed goes on from what it finds there and ends with the same bytes. progress:
    called with the steps done and all steps; finished: with the number of a run and its result, as soon as there is
    one; only then is the run's checkpoint removed. Both are called from the thread that called ``train``.
    Raises ValueError, one line, for runs of different sizes, an initial network that does not fit, a device that is not
    there, a folder that cannot be written, and for training that diverges.
    """
    settings = settings or Settings()
    where = choose_device(device)
    if not runs:
        raise ValueError("runs: there are none; give at least one")
    shapes = {run.sizes(settings) for run in runs}
    if len(shapes) != 1:
        raise ValueError(f"runs: {len(shapes)} different network sizes; a population needs one, so train them apart")
    available = torch.get_num_threads()
    if threads is not None and threads < 1:
        raise ValueError(f"threads: {threads} must be an integer of at least 1")
    each = min(threads or (available if len(runs) == 1 else 1), available)
    groups = [list(range(len(runs)))] if where.type == "cuda" else [[i] for i in range(len(runs))]
    folder = None if checkpoint is None else folder_of(checkpoint)
    stop, done = threading.Event(), [0] * len(groups)
    results, sessions = dict[int, Trained](), list[Session]()

    def work(number: int) -> tuple[Session, list[Trained]]:
        session = Session([runs[i] for i in groups[number]], settings, where, each, folder)

        def report(steps: int) -> bool:
            done[number] = steps * len(groups[number])
            return stop.is_set()

        return session, session.train(report)

    try:
        torch.set_num_threads(each)
        with ThreadPoolExecutor(available // each) as pool:
            waiting = {pool.submit(work, number): number for number in range(len(groups))}
            try:
                while waiting:
                    for future in wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED).done:
                        session, found = future.result()
                        sessions.append(session)
                        for i, one in zip(groups[waiting.pop(future)], found, strict=True):
                            results[i] = one
                            if finished is not None:
                                finished(i, one)
                        if finished is not None:
                            session.forget()
                    if progress is not None:
                        progress(sum(done), settings.steps * len(runs))
            except BaseException:
                stop.set()
                for future in waiting:
                    future.cancel()
                raise
    finally:
        torch.set_num_threads(available)
    for session in sessions:
        session.forget()
    return [results[i] for i in range(len(runs))]
