"""Data behind URLs: whole files are fetched once into a local cache, through fsspec.

A file is known by its URL and by what the store says of its content (ETag, size, date), so a
changed object is fetched anew. What may pass is tried again with growing pauses up to a deadline;
a refusal or a missing file is final.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop.failure import failure

T = TypeVar("T")

DEADLINE = 300.0  # seconds of failing until a store counts as unreachable
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 20.0
_FINAL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def is_url(path: str) -> bool:
    """Whether a path is a URL for fsspec (`s3://…`, `https://…`, `file://…`)."""
    return "://" in path


def cache_directory() -> str:
    """Where fetched data lies: SEXPGPU_CACHE, else the user's cache directory."""
    root = os.environ.get("SEXPGPU_CACHE")
    if not root:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        root = os.path.join(home, "sexpgpu")
    return os.path.join(root, "data")


def fetch(url: str, deadline: float = DEADLINE) -> list[tuple[str, str]]:
    """The files a URL or a glob of URLs names, as (URL, local path), sorted by URL.

    Raises E-STORE-001 (nothing there), -002 (refused), -003 (unreachable until the deadline),
    -004 (no space for the cache), -005 (unknown kind of URL).
    """
    filesystem, path = _open(url)

    def find() -> list[str]:
        if glob.has_magic(path):
            return sorted(str(match) for match in filesystem.glob(path))
        return [path]

    found = retried(url, find, deadline)
    if not found:
        raise failure(codes.E_STORE_001, f"nothing matches {url}")
    return [
        (str(filesystem.unstrip_protocol(name)), _fetch_one(filesystem, name, deadline))
        for name in found
    ]


def retried(
    what: str,
    action: Callable[[], T],
    deadline: float = DEADLINE,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """`action()`, tried again while it fails in a way that may pass, until `deadline` seconds.

    `what` names the file or URL in messages. Coded errors pass through.
    """
    start = clock()
    wait = _FIRST_PAUSE
    while True:
        try:
            return action()
        except SxError:
            raise
        except FileNotFoundError:
            raise failure(codes.E_STORE_001, f"no file or object {what}") from None
        except PermissionError as error:
            raise failure(codes.E_STORE_002, f"access to {what} was refused: {error}") from None
        except OSError as error:
            if error.errno in _FINAL_ERRNOS:
                raise failure(codes.E_STORE_004, f"no room to fetch {what}: {error}") from None
            reason: Exception = error
        except Exception as error:  # noqa: BLE001  a store's own library raises what it likes
            status = _http_status(error)
            if status == 404:
                raise failure(codes.E_STORE_001, f"no file or object {what}") from None
            if status in (401, 403):
                raise failure(codes.E_STORE_002, f"access to {what} was refused: {error}") from None
            reason = error
        if clock() - start + wait > deadline:
            raise failure(
                codes.E_STORE_003, f"{what} could not be read for {deadline:.0f} s: {reason}"
            ) from reason
        pause(wait)
        wait = min(2 * wait, _LONGEST_PAUSE)


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise failure(codes.E_STORE_005, f"no support for {url}: {error}") from None


def _fetch_one(filesystem: Any, name: str, deadline: float) -> str:
    url = str(filesystem.unstrip_protocol(name))

    def copy() -> str:
        filesystem.invalidate_cache()
        info: dict[str, Any] = filesystem.info(name)
        size = info["size"]
        identity = repr(
            (url, size, info.get("ETag"), str(info.get("LastModified") or info.get("mtime")))
        )
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        directory = os.path.join(cache_directory(), digest)
        target = os.path.join(directory, os.path.basename(name))
        if not os.path.exists(target):
            os.makedirs(directory, exist_ok=True)
            partial = f"{target}.{os.getpid()}.partial"
            try:
                filesystem.get_file(name, partial)
                if os.path.getsize(partial) != size:
                    raise OSError(errno.EIO, f"{os.path.getsize(partial)} of {size} bytes came")
                os.replace(partial, target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial)
        return target

    return retried(url, copy, deadline)


def _http_status(error: BaseException) -> int | None:
    """The HTTP status in an error of a store's client library, where it carries one."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return found if isinstance(found, int) else None
    status = getattr(error, "status", None) or getattr(error, "code", None)
    return status if isinstance(status, int) else None
