#!/usr/bin/python3
"""Runs the programs of others on one side, and writes what came of it to a file.

The file is an object: of each package, of each run its outcome.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import sides
from rows import AT_ONCE, FAILS, ROWS, TCP, WORKS
from sides import SIDES

import pairs  # noqa: E402, found by sides
import programs  # noqa: E402

PYTHON = "/usr/bin/python3"  # the one that Debian's pyverbs is for
TESTS = "/usr/share/doc/rdma-core/tests"
RDMA_CORE = "python3-pyverbs"
PACKAGES = (RDMA_CORE, *ROWS)

# Tests that are for one maker's devices, which neither side is.
FAMILIES = ("mlx5", "efa", "cuda")
MANY = "…"  # ends a name that stands for several tests

FIRST_PORT = 20000
POLL = 0.02
# What a server still gets when its client has failed.
GRACE = 1


class Runner:
    """Runs rows on a side. It stands in for the test that a peer belongs to."""

    def __init__(self, side, folder):
        self.side = side
        self.folder = folder
        self.ports = itertools.count(FIRST_PORT)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=folder)

    def start(self, row, side, program, arguments, values):
        scripts = ("sysfs.sh", "devices.sh") if program.startswith("ucx") else ()
        settings = (setting.format(**values) for setting in row.environment)
        return pairs.Peer(
            self,
            shutil.which(program),
            *(argument.format(**values) for argument in arguments.split()),
            prefix=(*self.side.before(side, *scripts), "env", *settings),
            stdin="null",
        )

    def run(self, row):
        """The outcome of a row."""
        port = row.port or next(self.ports)
        values = {**self.side.values, "port": str(port), "folder": self.folder}
        with contextlib.ExitStack() as stack:
            server = self.start(row, self.side.server, row.program, row.server, values)
            stack.callback(server.clean_up)
            peers = [server]
            if row.client is not None:
                self.wait(server, lambda: self.is_ready(row, server, port))
                client = row.client_program or row.program
                peers.append(self.start(row, self.side.client, client, row.client, values))
                stack.callback(peers[-1].clean_up)
            return self.judge(row, peers)

    def run_all(self, its_rows):
        """{name: outcome}; says how long each took."""
        found = {}
        for row in its_rows:
            begun = time.monotonic()
            found[row.name] = self.run(row)
            seconds = time.monotonic() - begun
            print(
                f"{self.side.name}: {row.name}: {found[row.name]}, {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
        return found

    def wait(self, peer, condition, seconds=None):
        """Waits for it, or for the peer's end; returns whether it came true."""
        end = time.monotonic() + (seconds or self.side.patience)
        while not condition():
            if peer.process.poll() is not None or time.monotonic() > end:
                return condition()
            time.sleep(POLL)
        return True

    def is_ready(self, row, server, port):
        if row.ready is AT_ONCE:
            return True
        try:
            if row.ready == TCP:
                return sides.listens(port, server.process.pid)
            if isinstance(row.ready, int):
                return self.side.serves(row.ready, port, server.process.pid)
        except OSError:
            return False  # the process has just ended
        return server.said(row.ready, "out") or server.said(row.ready)

    def judge(self, row, peers):
        if self.has_worked(row, *peers):
            return WORKS
        for peer in peers:
            peer.clean_up()
        outputs = [peer.output() for peer in peers]
        if any(text in output for text in row.says for output in outputs):
            return FAILS
        for peer in peers:
            print(
                f"{row.name}: {peer.name}: {peer.process.returncode}\n{peer.output()}",
                file=sys.stderr,
            )
        return "not as known: " + ", ".join(str(peer.process.returncode) for peer in peers)

    def has_worked(self, row, server, client=None):
        if client is None and row.stays:
            return self.wait(server, lambda: self.is_ready(row, server, row.port))
        if client is not None and not self.has_ended_well(client, self.side.patience):
            self.has_ended_well(server, GRACE)
            return False
        if row.stays:
            return server.process.poll() is None
        return self.has_ended_well(server, self.side.patience) and self.has_shown(row, server)

    def has_shown(self, row, peer):
        for reader in peer.readers:
            reader.join()
        return not row.shows_device or peer.said(self.side.values["device"], "out")

    @staticmethod
    def has_ended_well(peer, seconds):
        try:
            peer.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return peer.process.returncode == 0


# ---- rdma-core's own tests ----


def unpack(folder):
    """Makes a copy of the tests that Python can load; returns where it is."""
    to = shutil.copytree(TESTS, os.path.join(folder, "tests"))
    for name in os.listdir(to):
        path, kind = os.path.splitext(os.path.join(to, name))
        if kind == ".gz":
            with gzip.open(path + kind) as packed, open(path, "wb") as file:
                shutil.copyfileobj(packed, file)
    return to


def text_of(result, side):
    """An outcome and why, without what differs between devices."""
    reason = result["reason"].replace(side.values["device"], "DEVICE")
    return f"{result['outcome']}: {reason}" if reason else result["outcome"]


def summary(texts):
    """Many outcomes in one, the most frequent first."""
    counts = sorted(((texts.count(text), text) for text in set(texts)), reverse=True)
    return "; ".join(f"{count} {text}" for count, text in counts)


def run_rdma_core_tests(side, folder):
    """Of each test, by its name, the outcome; those for one maker's devices in one."""
    program = os.path.join(sides.HERE, "rdma_core_tests.py")
    arguments = ("--dev", side.values["device"], "--gid", side.values["gid"], "--port", "1")
    command = [*side.before(side.server, "sysfs.sh"), PYTHON, program, unpack(folder), *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, encoding="utf-8", stdin=subprocess.DEVNULL
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0:
        raise RuntimeError(f"the tests ended with status {done.returncode} after {results[-1:]}")
    found, families = {}, {family: [] for family in FAMILIES}
    for result in results:
        name = result["test"].removeprefix("tests.")
        family = next((f for f in FAMILIES if name.startswith("test_" + f)), None)
        if family:
            families[family].append(text_of(result, side))
        else:
            found[name] = text_of(result, side)
    for family, texts in families.items():
        found[f"test_{family}{MANY}"] = summary(texts)
    return found


# ---- All ----


def version(package):
    return programs.call("dpkg-query", "-W", "-f", "${Version}", package)


def run_all(side, folder, packages):
    """{package: {name: outcome}}"""
    found = {}
    runner = Runner(side, folder)
    for package in packages:
        if package == RDMA_CORE:
            found[package] = run_rdma_core_tests(side, folder)
        else:
            found[package] = runner.run_all(ROWS[package])
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=SIDES, required=True)
    parser.add_argument("--json", metavar="FILE", required=True, help="where the outcomes go")
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.on == "uroce":
        programs.isolate()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="peers."))
        side = SIDES[arguments.on](stack.callback)
        found = run_all(side, folder, arguments.packages)
    with open(arguments.json, "w", encoding="utf-8") as file:
        json.dump(found, file, indent="\t")


if __name__ == "__main__":
    main()
