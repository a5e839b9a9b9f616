"""Which trials of a study run with ``--no-pruning`` would have been stopped, and would any of them have reached the front?

::

    python -m tests.benchmarks.pruning_replay ./studies/embedded

Every searched trial is judged again after each stage, from its cells up to there and the trials before it, as the trial
loop would have done; its real end then says whether stopping it was right.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from autotune.baseline import with_one_baseline
from autotune.pareto import front
from autotune.pruning import decide
from autotune.study_view import load_study
from autotune.trial import TrialKind, TrialState


def main() -> None:
    """Replay one stored study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    view = load_study(parser.parse_args().directory)
    pruning = view.settings.pruning.model_copy(update={"enabled": True})
    settings = view.settings.model_copy(update={"pruning": pruning})
    on_front = {trial.number for point in front(with_one_baseline(view.trials, settings)) for trial in point.trials}
    stopped = wrong = 0
    saved_s = 0.0
    for trial in view.trials:
        if trial.kind is not TrialKind.SEARCH or trial.state is not TrialState.COMPLETE:
            continue
        earlier = [other for other in view.trials if other.number < trial.number]
        done: list[tuple[int, int]] = []
        for stage in settings.benchmark.stages[:-1]:
            done += [(cell.context, cell.concurrency) for cell in stage.cells]
            cells = tuple(cell for cell in trial.cells if (cell.cell.context, cell.cell.concurrency) in done)
            decision = decide(replace(trial, cells=cells, state=TrialState.MEASURING), earlier, settings, view.space)
            if decision.prune:
                stopped += 1
                wrong += trial.number in on_front
                left = [cell for cell in trial.cells if cell not in cells]
                saved_s += sum(cell.duration_s for cell in left)
                print(
                    f"trial {trial.number} after stage {stage.name}: {decision.reason}; on the front: {trial.number in on_front}"
                )
                break
    searched = sum(trial.kind is TrialKind.SEARCH for trial in view.trials)
    print(
        f"{stopped} of {searched} searched trials would have been stopped, {wrong} of them are on the front of "
        f"{len(on_front)}; {saved_s:.0f} s of measuring saved"
    )


if __name__ == "__main__":
    main()
