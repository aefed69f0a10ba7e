# SPDX-License-Identifier: Apache-2.0
"""An evaluation that is shown while it goes, and says what is kept of it when it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from rpent_box.cli.eval_progress import Showing, watching
from rpent_box.cli.show_eval import what_is_kept
from rpent_box.errors import RpentBoxError
from rpent_box.evaluate.scale.summary import EvalSummary
from rpent_box.evaluate.scale.watcher import EvalWatcher


def watched(showing: Showing, play: Callable[[EvalWatcher], EvalSummary]) -> EvalSummary:
    """Return what `play` comes to, and show how it goes. Raises what `play` raises."""
    with watching(showing) as view:
        try:
            summary = play(view.watcher)
        except (KeyboardInterrupt, SystemExit):
            view.state.end("stopped")
            if kept := what_is_kept(view.state.picture()):
                view.say(kept)
            raise
        except RpentBoxError:
            view.state.end("failed")
            raise
        view.state.end(summary.status)
        return summary
