# SPDX-License-Identifier: Apache-2.0
"""The command line's tree: every command in the order in which a newcomer meets them."""

from __future__ import annotations

import typer

from rpent_box.cli import checkpoint, flags, mini
from rpent_box.cli.build import build
from rpent_box.cli.compare import compare
from rpent_box.cli.doctor import doctor
from rpent_box.cli.eval import eval_
from rpent_box.cli.eval_resume import EvalCommand
from rpent_box.cli.gc import gc
from rpent_box.cli.list import list_
from rpent_box.cli.report import report
from rpent_box.cli.run import run
from rpent_box.cli.serve import serve
from rpent_box.cli.spellings import RPENT_SPELLINGS, Command
from rpent_box.cli.version import version

SPELLINGS = f"RPent's spellings work too: {', '.join(RPENT_SPELLINGS)}."
RUN_EPILOG = (
    "Exit code: 0 when the run completed (an episode that fails is a result), 1 when it could not "
    f"be completed, 2 for wrong usage. {SPELLINGS}"
)
EVAL_EPILOG = (
    "Exit code: 0 when every episode has its result (solved or not), 1 when some ended in an error "
    "or the evaluation could not go on, 2 for wrong usage. Finished episodes are kept either way, "
    f"and --resume plays the others. {SPELLINGS}"
)
COMPARE_EPILOG = (
    "Exit code: 0 when they were compared, whatever came of it; 1 when they have no episode in "
    "common, 2 for wrong usage."
)
OWN_HELP = {**flags.PASS_THROUGH, "help_option_names": []}
"""Settings of a command whose own `--help` shows the options of backends and platforms too."""

app = typer.Typer(
    help="Run any robot action model on any simulator, each in its own box.",
    context_settings={"help_option_names": ["--help", "-h"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(cls=Command, context_settings=OWN_HELP, add_help_option=False, epilog=RUN_EPILOG)(run)
app.command(
    "eval", cls=EvalCommand, context_settings=OWN_HELP, add_help_option=False, epilog=EVAL_EPILOG
)(eval_)
app.command()(report)
app.command(epilog=COMPARE_EPILOG)(compare)
app.command(cls=Command, context_settings=OWN_HELP, add_help_option=False)(serve)
app.command("list")(list_)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(mini.app, name="mini")
app.command(context_settings=flags.PASS_THROUGH)(doctor)
app.command()(build)
app.command()(gc)
app.command()(version)
