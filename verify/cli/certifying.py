"""`kofm verify-certificate`: check certificates by the standard library alone (verify.checker)."""

from __future__ import annotations

from pathlib import Path

import click

from verify import checker

REJECTED = 1


@click.command("verify-certificate")
@click.argument("files", nargs=-1, required=True, metavar="FILE..")
def verify_certificate(files: tuple[str, ...]) -> int:
    """Re-derive every bound of certificates from their weights and arrays.

    The program that does it, verify/checker.py, needs nothing but the standard library: read it, and run it on its
    own. It knows nothing of how the network was built.

    \b
    Exit code: 0 if every certificate is accepted, 1 if one is rejected: malformed, changed, or a bound that does not
    follow; 2 for a file that cannot be read.
    """
    texts = {name: _read(name) for name in files}
    code = 0
    for name, text in texts.items():
        try:
            click.echo(f"{name}: {checker.verify(text)}")
        except (ValueError, OverflowError) as reason:  # a claim that no float can say
            click.echo(f"{name}: {' '.join(str(reason).split())}")
            code = REJECTED
    return code


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as reason:
        raise ValueError(f"{name}: is no text; give a certificate that `kofm check --certificates` wrote") from reason
    except OSError as reason:
        raise ValueError(f"{name}: {reason.strerror}; give a certificate file") from reason
