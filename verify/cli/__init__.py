"""The command line: `kofm check`, `kofm claims`, and what other packages register as `kofm.commands`.

Exit codes of all commands: 0, 2 for bad usage or input, 130 for Ctrl-C, 141 where the reader of stdout has gone, 70
for a bug; `kofm check` also 1 and 3. An error is one line on stderr; KOFM_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

__all__ = ["main"]

BAD_INPUT, BUG, INTERRUPTED, READER_GONE = 2, 70, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's) and return its exit code."""
    try:
        from verify.cli.group import cli  # here, so that Ctrl-C during the seconds that torch takes is handled too

        code = cli.main(arguments and list(arguments), prog_name="kofm", standalone_mode=False)
        if sys.stdout is not None:  # None: closed by whoever called
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
        return _fail(f"not enough memory ({error}); use smaller sizes, fewer --points or a larger --eps", BAD_INPUT)
    except Exception as error:
        if "can't allocate memory" in str(error) or "out of memory" in str(error):  # torch's RuntimeErrors
            return _fail("not enough memory; use smaller sizes", BAD_INPUT)
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
