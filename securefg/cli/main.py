"""The command line: one file per command in this room; here they are put together.

Exit codes: 0 done, 1 a finding or a failure, 2 bad input, 3 part of an audit failed, 128 and the
signal's number where one came (130 is Ctrl-C; the run can be resumed). Commands
import what they need when they run: `--help` and `config show` load no network and no accountant.
"""

from __future__ import annotations

import signal
import sys
import warnings
from types import FrameType
from typing import Annotated, Any

import typer

from securefg.cli import (
    audit,
    config,
    curve,
    data,
    demo,
    deploy,
    doctor,
    epsilon,
    erase,
    explain,
    init,
    listing,
    plan,
    rehearse,
    report,
    reproduce,
    run,
    runs,
)
from securefg.cli.common import INTERRUPTED, print_complaint
from securefg.cli.usage import USAGE_ERROR, explain_usage, is_help
from securefg.cli.verify import verify
from securefg.foundation.collection import skip_last_collection
from securefg.foundation.errors import InputError, SecurefgError, cause_of
from securefg.foundation.extensions import require_own_packages

app = typer.Typer(
    help="Federated graph learning whose privacy is measured, not claimed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.command()(init.init)
app.command()(plan.plan)
app.command()(explain.explain)
app.command()(epsilon.epsilon)
app.command()(run.run)
app.command()(audit.audit)
app.command()(rehearse.rehearse)
app.command()(curve.curve)
app.command()(erase.erase)
app.command()(runs.runs)
app.command()(doctor.doctor)
app.command()(report.report)
app.command()(report.compare)
app.command()(verify)
app.command("list")(listing.list_)
app.command()(reproduce.reproduce)
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")
app.add_typer(deploy.app, name="deploy")


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"securefg {version('securefg')}")
        raise typer.Exit


@app.callback()
def _root_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point: bad input is answered in a line or two, bugs keep their traceback."""
    skip_last_collection()
    warnings.showwarning = _show_warning
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_on_signal)
    try:
        require_own_packages()
        sys.exit(app(standalone_mode=False))
    except USAGE_ERROR as error:
        _answer_usage(error)
        sys.exit(2)
    except InputError as error:
        print_complaint(str(error))
        sys.exit(2)
    except SecurefgError as error:
        print_complaint(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        print_complaint("stopped at once; the run can be resumed from its last checkpoint")
        sys.exit(INTERRUPTED)
    except Exception as error:
        cause = cause_of(error)
        if cause is None:
            raise
        print_complaint(cause)
        sys.exit(1)


def _answer_usage(error: Exception) -> None:
    if is_help(error):
        sys.stderr.write(f"{error}\n")
    else:
        print_complaint(explain_usage(error))


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    """A signal that ends: what is half done is put away on the way out."""
    print_complaint(
        f"ended by {signal.Signals(number).name}; the same command goes on, a run resumes"
    )
    sys.exit(128 + number)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print_complaint(f"warning: {message}")


if __name__ == "__main__":
    main()
