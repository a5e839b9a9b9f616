"""Where do the records of one command go: beside the result that it saves, or nowhere that outlives it?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from autotune.benchmark.result_file import check_result_path
from autotune.errors import UserError


@contextmanager
def open_record_place(save_path: Path | None, name: str) -> Iterator[Path]:
    """Give a place for a file of records; an earlier command's lines there are deleted.

    Args:
        save_path: the result, beside which they are kept; ``None`` keeps them only as long as this lasts.
        name: last part of the file's name.

    Raises:
        UserError: the result is to go where no file may be, or something could not be written meanwhile.
    """
    place = Path(name)
    with ExitStack() as stack:
        try:
            if save_path is None:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autotune-records-"))) / name
            else:
                check_result_path(save_path)
                place = save_path.with_name(f"{save_path.name}.{name}")
                place.unlink(missing_ok=True)
            yield place
        except OSError as error:
            raise UserError(
                f"a file cannot be written: {error.strerror or error}",
                where=str(error.filename or place),
                hint="make room there, or name another place: --save for results, TMPDIR for temporary files",
            ) from error
