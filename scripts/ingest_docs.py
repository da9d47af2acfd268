#!/usr/bin/env python3
"""Puts files and folders into a collection through the HTTP API: an example that needs nothing but Python.

    scripts/ingest_docs.py docs notes.md --collection handbook --url http://127.0.0.1:8787

Each file is sent at once and becomes a job on the server; then the jobs are followed until all have ended. Whatever
happens to this script, the server goes on with what it has accepted, and sending a file again costs nothing where
its bytes are the same. A key is read from TAILRACE_KEY. Exit code: 0 done, 1 some failed, 2 wrong use.
"""

import argparse
import json
import os
import sys
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TRIES = 5


def files_below(root: Path):
    """Each file with its URI, in NFC: the folder's name and the path below it. Hidden files and links are left out."""
    if root.is_file():
        plain = not root.is_absolute() and ".." not in root.parts
        uri = root.as_posix() if plain else f"{root.resolve().parent.name}/{root.name}"
        yield root, unicodedata.normalize("NFC", uri)
        return
    name = root.resolve().name
    for path in sorted(root.rglob("*")):
        below = path.relative_to(root)
        linked = any((root / part).is_symlink() for part in [below, *below.parents][:-1])
        if path.is_file() and not linked and not any(part.startswith(".") for part in below.parts):
            yield path, unicodedata.normalize("NFC", f"{name}/{below.as_posix()}")


class Server:
    def __init__(self, url: str, key: str):
        self.url = url.rstrip("/")
        self.headers = {"authorization": f"Bearer {key}"} if key else {}

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"):
        """The answer's JSON; asks again where the server is busy or cannot be reached."""
        for attempt in range(1, TRIES + 1):
            request = urllib.request.Request(self.url + path, data=body, method=method, headers=self.headers)
            if body is not None:
                request.add_header("content-type", kind)
            try:
                with urllib.request.urlopen(request, timeout=120) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503) or attempt == TRIES:
                    raise RuntimeError(reason(error)) from error
                pause = float(error.headers.get("retry-after") or attempt)
            except (urllib.error.URLError, TimeoutError) as error:
                if attempt == TRIES:
                    raise RuntimeError(f"{self.url} cannot be reached: {error}") from error
                pause = float(attempt)
            time.sleep(pause)

    def send(self, collection: str, path: Path, uri: str):
        """Sends one file as multipart; the answer's one document."""
        border = uuid.uuid4().hex
        # A quote ends the name unless it stands behind a backslash, as curl sends it.
        name = "".join(c if c.isprintable() else "_" for c in uri).replace('"', '\\"')
        head = f'--{border}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = head.encode() + path.read_bytes() + f"\r\n--{border}--\r\n".encode()
        route = f"/api/v1/collections/{urllib.parse.quote(collection, safe='')}/documents"
        return self.ask("POST", route, body, f"multipart/form-data; boundary={border}")["documents"][0]

    def end_of(self, job: str):
        """The job after its end."""
        while True:
            found = self.ask("GET", f"/api/v1/jobs/{job}")
            if found["status"] in ("indexed", "failed", "cancelled"):
                return found
            time.sleep(0.2)


def reason(error: urllib.error.HTTPError) -> str:
    try:
        return json.load(error)["detail"]
    except (ValueError, KeyError):
        return f"the server answered {error.code}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--collection", default="default")
    parser.add_argument("--url", default=os.environ.get("TAILRACE_URL", "http://127.0.0.1:8787"))
    parser.add_argument("--parallel", type=int, default=4, help="files that are sent at the same time")
    args = parser.parse_args()
    missing = [str(path) for path in args.paths if not path.exists()]
    if missing:
        parser.error(f"there is no {', '.join(missing)}")
    server = Server(args.url, os.environ.get("TAILRACE_KEY", ""))
    files = [found for root in args.paths for found in files_below(root)]

    def put(found):
        path, uri = found
        try:
            taken = server.send(args.collection, path, uri)
            if taken.get("error"):
                return uri, "failed", taken["error"].get("detail", "")
            if taken["unchanged"]:
                return uri, "unchanged", ""
            ended = server.end_of(taken["job_id"])
            error = ended.get("error") or {}
            return uri, ended["status"], error.get("message") or f"{ended['done']} chunks"
        except (RuntimeError, OSError) as error:
            return uri, "failed", str(error)

    counts: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=max(1, args.parallel)) as pool:
        for number, (uri, status, detail) in enumerate(pool.map(put, files), start=1):
            counts[status] = counts.get(status, 0) + 1
            print(f"[{number}/{len(files)}] {status} {uri}" + (f": {detail}" if detail else ""), flush=True)
    print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no files")
    return 0 if set(counts) <= {"indexed", "unchanged"} else 1


if __name__ == "__main__":
    sys.exit(main())
