"""Reads the Dockerfile, checks what can be checked by reading, and with --steps runs its steps.

Called by scripts/check-docker, which see. A stage's root is a folder; COPY copies into it, RUN runs
in it through chroot. Base images are played by a debootstrap of the same Debian release, plus what the
image adds: Python and Node from Debian's packages, Rust from this machine's toolchain and crate cache.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
         "ENTRYPOINT", "CMD"}

# Where a stage finds this machine's certificates; its own come and go with its packages.
CERTIFICATES = "/host-certificates.crt"


def instructions(path):
    """(line, word, rest) for each instruction, continuation lines joined, comments dropped."""
    found, pending, begun = [], "", 0
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if line.lstrip().startswith("#") or (not line.strip() and not pending):
            continue
        begun = begun or number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (pending + line).strip().partition(" ")
        found.append((begun, word.upper(), rest.strip()))
        pending, begun = "", 0
    return found


def stages(found):
    """The stages in order: name, base and instructions."""
    result = []
    for line, word, rest in found:
        if word not in KNOWN:
            sys.exit(f"Dockerfile:{line}: {word} is not known to this check")
        if word == "FROM":
            match = re.fullmatch(r"(\S+)(?:\s+AS\s+(\S+))?", rest, re.IGNORECASE)
            result.append({"base": match[1], "name": match[2] or str(len(result)), "steps": []})
        elif not result:
            sys.exit(f"Dockerfile:{line}: {word} before FROM")
        else:
            result[-1]["steps"].append((line, word, rest))
    return result


def sent(path):
    """Whether .dockerignore lets a path of the context through; the last rule that fits counts."""
    kept = True
    for rule in Path(".dockerignore").read_text().splitlines():
        rule = rule.strip()
        if not rule or rule.startswith("#"):
            continue
        keep, pattern = rule.startswith("!"), rule.lstrip("!").rstrip("/")
        parents = [path, *map(str, Path(path).parents)]
        if any(fnmatch.fnmatch(parent, pattern) for parent in parents if parent != "."):
            kept = keep
    return kept


def copy_parts(rest):
    """(stage or None, sources, target) of a COPY."""
    words = shlex.split(rest)
    stage = next((w.removeprefix("--from=") for w in words if w.startswith("--from=")), None)
    paths = [w for w in words if not w.startswith("--")]
    return stage, paths[:-1], paths[-1]


def check(all_stages):
    faults, names = [], set()
    for stage in all_stages:
        if ":" not in stage["base"] or stage["base"].endswith(":latest"):
            faults.append(f"FROM {stage['base']}: name a version")
        for line, word, rest in stage["steps"]:
            if word == "COPY":
                source_stage, sources, _ = copy_parts(rest)
                if source_stage and source_stage not in names:
                    faults.append(f"Dockerfile:{line}: there is no stage {source_stage} above")
                for source in sources if not source_stage else []:
                    if not Path(source).exists():
                        faults.append(f"Dockerfile:{line}: {source} does not exist")
                    elif not sent(source):
                        faults.append(f"Dockerfile:{line}: .dockerignore keeps {source} back")
            if word in ("ENTRYPOINT", "CMD"):
                try:
                    json.loads(rest)
                except ValueError:
                    faults.append(f"Dockerfile:{line}: {word} must be a JSON list, or signals do not arrive")
        names.add(stage["name"])
    last = {word: rest for _, word, rest in all_stages[-1]["steps"]}
    if last.get("USER", "root") in ("root", "0"):
        faults.append("the image runs as root")
    if "HEALTHCHECK" not in last:
        faults.append("the image has no HEALTHCHECK")
    return faults


# --- running the steps -------------------------------------------------------------------------


def mirror():
    """The first Debian archive that this machine's apt uses."""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.is_file() and path.suffix in (".list", ".sources"):
            for word in path.read_text().split():
                if word.startswith("http") and word.rstrip("/").endswith("/debian"):
                    return word
    sys.exit("no Debian archive found in apt's sources")


def debian(work, release):
    root = work / f"debian-{release}"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", release, root, mirror()], check=True)
        (root / "complete").touch()
    return root


def in_root(root, command, directory="/", variables=None):
    path = "/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # What this machine's network needs, as an engine's build would be given it.
    passed = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    passed |= {k: CERTIFICATES for k in ("SSL_CERT_FILE", "PIP_CERT", "CARGO_HTTP_CAINFO") if (root / CERTIFICATES[1:]).exists()}
    environment = {"PATH": path, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **passed, **(variables or {})}
    script = f"cd {shlex.quote(directory)} && {command}"
    subprocess.run(["chroot", root, "/bin/sh", "-ec", script], check=True, env=environment)


def base(work, stage, made):
    """A fresh root for a stage."""
    image = stage["base"]
    root = work / "stages" / stage["name"]
    root.parent.mkdir(exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    if image in made:
        shutil.copytree(made[image], root, symlinks=True)
        return root
    release = re.search(r"trixie|bookworm", image)
    if not release:
        sys.exit(f"{image}: only Debian's releases can be played")
    subprocess.run(["cp", "-a", debian(work, release[0]), root], check=True)
    for file in ("/etc/resolv.conf", "/etc/pip.conf"):
        if Path(file).exists():
            shutil.copy(file, root / file.lstrip("/"))
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / CERTIFICATES[1:])
    if image.startswith("python:"):
        in_root(root, "apt-get update -qq && apt-get install -qq --yes python3 python3-pip python3-venv >/dev/null")
    elif image.startswith("node:"):
        in_root(root, "apt-get update -qq && apt-get install -qq --yes nodejs npm >/dev/null")
    elif image.startswith("rust:"):
        in_root(root, "apt-get update -qq && apt-get install -qq --yes gcc libc6-dev >/dev/null")
        toolchain = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
        subprocess.run(["cp", "-a", toolchain, root / "usr/local/cargo"], check=True)
        cache = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry"
        if cache.exists():
            (root / "root/.cargo").mkdir(parents=True)
            subprocess.run(["cp", "-a", cache, root / "root/.cargo/registry"], check=True)
    return root


def copy(root, source_root, sources, target, directory):
    inside = (Path(directory) / target).as_posix().lstrip("/")
    into = root / inside
    folder = target.endswith("/") or len(sources) > 1
    for source in sources:
        origin = Path(source_root) / source.lstrip("/")
        # A folder's content is copied, a file keeps its name only in a folder.
        to = into / origin.name if folder and origin.is_file() else into
        to.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_dir():
            shutil.copytree(origin, to, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(origin, to)


def run(work, all_stages, without):
    made = {}
    for stage in all_stages:
        if stage["name"] in without:
            print(f"{stage['name']}: left out, and what is copied from it")
            continue
        root, directory, variables = base(work, stage, made), "/", {}
        for line, word, rest in stage["steps"]:
            print(f"{stage['name']}: {word} {rest[:100]}", flush=True)
            if word == "WORKDIR":
                directory = rest
                (root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif word == "ENV":
                variables.update(pair.split("=", 1) for pair in shlex.split(rest))
            elif word == "COPY":
                source_stage, sources, target = copy_parts(rest)
                if source_stage in without:
                    continue
                copy(root, made[source_stage] if source_stage else ".", sources, target, directory)
            elif word == "RUN":
                in_root(root, rest, directory, variables)
        made[stage["name"]] = root
    return root


def main():
    work = Path(sys.argv[1]).resolve()
    all_stages = stages(instructions("Dockerfile"))
    faults = check(all_stages)
    if faults:
        sys.exit("\n".join(faults))
    print(f"Dockerfile: {len(all_stages)} stages, nothing wrong to be seen")
    if "--steps" in sys.argv:
        without = {word.removeprefix("--without=") for word in sys.argv if word.startswith("--without=")}
        root = run(work, all_stages, without)
        if not without:
            in_root(root, "tailrace --version && tailrace config >/dev/null", "/data")
        print(f"Dockerfile: every step ran; the image's root is {root}")


main()
