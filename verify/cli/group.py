"""The group of commands: those here, and those found through the entry-point group `kofm.commands`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata

import click

from verify.cli.certifying import verify_certificate
from verify.cli.checking import check
from verify.cli.comparing import compare
from verify.cli.listing import claims
from verify.version import version

GROUP = "kofm.commands"


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
cli.add_command(compare)
cli.add_command(verify_certificate)
