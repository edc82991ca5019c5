"""The command line: `kofm check`, `kofm claims`, and what other packages register as `kofm.commands`.

Exit codes of all commands: 0, 2 for bad usage or input, 130 for Ctrl-C, 141 where the reader of stdout has gone, 70
for a bug; `kofm check` also 1 and 3. An error is one line on stderr; KOFM_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata

import click

from verify.cli.checking import check
from verify.cli.documents import version
from verify.cli.listing import claims

__all__ = ["cli", "main"]

GROUP = "kofm.commands"
BAD_INPUT, BUG, INTERRUPTED, READER_GONE = 2, 70, 130, 141


class _Commands(click.Group):
    """The commands here, and those found through the entry-point group (a name here comes first)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {point.name for point in metadata.entry_points(group=GROUP)}
        return [*super().list_commands(ctx), *sorted(found - set(self.commands))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        points = () if own else metadata.entry_points(group=GROUP, name=cmd_name)
        for point in points:
            return _load(point)
        return own

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"{args[0]!r} is no command; use one of {known}", ctx)
        return super().resolve_command(ctx, args)


def _load(point: metadata.EntryPoint) -> click.Command:
    """A registered command; one that does not load must not take the others with it: it says so when it is run."""
    try:
        command = point.load()
        if isinstance(command, click.Command):
            return command
        reason = f"{point.value} is no click command"
    except Exception as error:  # whatever a foreign module does on import
        if os.environ.get("KOFM_DEBUG"):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"

    def refuse(arguments: Sequence[str]) -> None:
        raise click.UsageError(f"{point.name}: cannot be loaded from {point.value} ({reason}); install it anew")

    arguments = click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(point.name, settings, refuse, [arguments], help="(cannot be loaded)", add_help_option=False)


@click.group(cls=_Commands, invoke_without_command=True)
@click.version_option(version(), prog_name="kofm")
@click.pass_context
def cli(context: click.Context) -> None:
    """K of M modules: hand-built ReLU networks that generalise compositionally, and the evidence that they do."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.add_command(check)
cli.add_command(claims)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's) and return its exit code."""
    try:
        code = cli.main(arguments and list(arguments), prog_name="kofm", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", INTERRUPTED)
    except click.UsageError as error:
        return _fail(_usage(error), BAD_INPUT, error.ctx)
    except click.ClickException as error:
        return _fail(error.format_message(), BAD_INPUT)
    except (BrokenPipeError, SystemExit):
        # click turns a broken pipe, and here nothing else, into SystemExit.
        # What is still buffered would fail again when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except (ValueError, OSError) as error:
        return _fail(str(error), BAD_INPUT)
    except MemoryError as error:
        return _fail(f"not enough memory ({error}); use smaller sizes or --points", BUG)
    except Exception as error:
        return _fail(f"internal error: {type(error).__name__}: {error} (KOFM_DEBUG=1 shows where)", BUG)


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
        hint = hint if isinstance(hint, str) else ", ".join(hint or ())
        return f"{hint.replace(chr(39), '')}: {error.message}"
    message = error.format_message().rstrip(".")
    return f"{message}; see {error.ctx.command_path} --help" if error.ctx else message


def _fail(message: str, code: int, context: click.Context | None = None) -> int:
    """One line on stderr; the traceback too if KOFM_DEBUG asks for it."""
    if os.environ.get("KOFM_DEBUG") and code != INTERRUPTED:
        traceback.print_exc()
    who = context.command_path if context else "kofm"
    click.echo(f"{who}: {' '.join(message.split())}", err=True)
    return code
