"""Runs programs of others on uroce's devices, as a user would: through uroce-run.

A test program runs in a network of its own, with a /dev/shm of its own, so that it finds every port
free, disturbs nobody, and leaves nothing behind however it ends. Root is not needed for that.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pairs"))

import pairs  # noqa: E402
from pairs import PairTest  # noqa: E402

RUN = os.path.join(pairs.BUILD, "uroce", "uroce-run")
ISOLATED = "UROCE_TEST_ISOLATED"

FIRST_PORT = 4791
PORTS = range(FIRST_PORT, FIRST_PORT + 256)

# How a file of /proc/net says that a TCP socket listens.
LISTENING = "0A"


def call(*command):
    """Runs a command to its end; returns what it printed."""
    result = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def isolate():
    """Starts this program again, in namespaces of its own."""
    if os.environ.get(ISOLATED):
        call("mount", "-t", "tmpfs", "tmpfs", "/run")
        call("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")
        call("ip", "link", "set", "lo", "up")
        return
    os.environ[ISOLATED] = "root" if os.geteuid() == 0 else "user"
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    os.execvp("unshare", ["unshare", *user, "--net", "--mount", sys.executable, *sys.argv])


RESULT = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def test_names():
    """All of the program's, as they are given on its command line."""
    module = sys.modules["__main__"]
    classes = unittest.defaultTestLoader.loadTestsFromModule(module)
    return [test.id().partition(".")[2] for suite in classes for test in suite]


def run_share(names):
    """Runs these tests in a process of their own, to its end."""
    command = [sys.executable, sys.argv[0], *names]
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")


def run_in_parallel(processes):
    """Shares the tests between so many processes, and says how all of them ended."""
    names = test_names()
    totals = [0, 0, 0]
    failed = False
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        for run in pool.map(run_share, (names[i::processes] for i in range(processes))):
            sys.stderr.write(run.stderr)
            result = RESULT.search(run.stdout)
            failed |= run.returncode != 0 or not result
            counts = map(int, result.groups()) if result else (0, 1, 0)
            totals = [total + count for total, count in zip(totals, counts)]
    print("{} passed, {} failed, {} skipped".format(*totals), flush=True)
    sys.exit(failed)


def main(processes=1):
    """
    Tests that mostly wait may be shared between several processes. Those that are named on the
    command line run in one.
    """
    if processes > 1 and len(sys.argv) == 1:
        run_in_parallel(processes)
    isolate()
    pairs.main()


def is_root():
    """Outside of the namespaces, too."""
    return os.environ.get(ISOLATED) == "root"


def sockets(protocol, pid="self"):
    """(port, state, inode) of each socket in the network that the process is in."""
    found = []
    for name in (protocol, protocol + "6"):
        with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                found.append((int(fields[1].split(":")[1], 16), fields[3], fields[9]))
    return found


def uroce_ports(pid="self"):
    return {port for port, _, _ in sockets("udp", pid) if port in PORTS}


def link_target(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None  # closed in between


def holds(pid, inodes):
    """Whether the process has one of these sockets."""
    folder = f"/proc/{pid}/fd"
    targets = {link_target(os.path.join(folder, name)) for name in os.listdir(folder)}
    return any(f"socket:[{inode}]" in targets for inode in inodes)


def wait_until(test, condition, what):
    """Waits until the condition is true."""
    end = time.monotonic() + pairs.PATIENCE
    while not condition():
        if time.monotonic() > end:
            test.fail(f"never came: {what}")
        time.sleep(0.01)


class Side:
    """Where a program runs: in which network, as whom, with which UROCE_ settings."""

    def __init__(self, address, device="uroce_lo", prefix=(), **settings):
        self.address = address
        self.device = device
        self.prefix = prefix
        self.settings = settings

    def with_settings(self, **settings):
        return Side(self.address, self.device, self.prefix, **{**self.settings, **settings})

    def with_prefix(self, *prefix):
        return Side(self.address, self.device, (*self.prefix, *prefix), **self.settings)

    def command(self):
        """What stands before a program; its lines come at once, although they go to a pipe."""
        values = [f"{name}={value}" for name, value in self.settings.items()]
        # A sanitizer's library, which must come first in programs that are built without it.
        if "UROCE_TEST_PRELOAD" in os.environ:
            values.append("LD_PRELOAD=" + os.environ["UROCE_TEST_PRELOAD"])
        return (*self.prefix, "env", *values, "stdbuf", "-oL", RUN)


def two_networks(test):
    """Two network namespaces for the test, joined by a cable; returns both as sides."""
    for name in ("a", "b"):
        call("ip", "netns", "add", name)
        test.addCleanup(call, "ip", "netns", "del", name)
    call("ip", "-n", "a", *"link add eth0 type veth peer name eth0 netns b".split())
    sides = [set_up_host("a", "1"), set_up_host("b", "2")]
    for name in ("a", "b"):
        wait_until(test, lambda name=name: is_up(name), f"eth0 of {name} is up")
    return sides


def is_up(name):
    """Whether the interface has heard of the cable, which takes the system a moment."""
    return "state UP" in call("ip", "-n", name, "link", "show", "eth0")


def set_up_host(name, number):
    for command in (
        "link set eth0 addrgenmode none",
        "link set eth0 up",
        f"addr add 10.78.0.{number}/24 dev eth0",
        f"addr add fd78::{number}/64 dev eth0 nodad",
        f"addr add fe80::{number}/64 dev eth0 nodad",
    ):
        call("ip", "-n", name, *command.split())
    return Side(f"10.78.0.{number}", "uroce_eth0", ("ip", "netns", "exec", name))


LOOPBACK = Side("127.0.0.1")


class ProgramTest(PairTest):
    """Programs on uroce's devices; at its end all ports are free and all files are gone."""

    def setUp(self):
        super().setUp()
        self.tcp_port = 18515
        # Comes when the programs have ended, since what is added last is done first.
        self.addCleanup(self.assert_nothing_is_left)

    def assert_nothing_is_left(self):
        left = [os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm")]
        for path in left:
            os.remove(path)
        self.assertEqual(left, [], "files that are left")
        self.assertEqual(uroce_ports(), set(), "ports that are still taken")

    def read_capture(self, path, *arguments):
        """What tshark prints of a capture, without the user's settings."""
        home = ("env", "-u", "XDG_CONFIG_HOME", f"HOME={self.folder}")
        # The guess that a short payload is of a storage protocol ends in "malformed".
        guess = ("--disable-protocol", "rpcordma")
        return call(*home, "tshark", "-n", *guess, "-r", path, *arguments).splitlines()

    def launch(self, side, program, *arguments):
        return self.start(shutil.which(program), *arguments, prefix=side.command(), stdin="null")

    def serve(self, side, program, *arguments):
        """A server that a client can connect to."""
        self.tcp_port += 1
        peer = self.launch(side, program, "-p", str(self.tcp_port), *arguments)
        peer.tcp_port = self.tcp_port
        wait_until(self, lambda: self.is_listening(peer), f"{program} listens:\n{peer.output()}")
        return peer

    def is_listening(self, peer):
        if peer.process.poll() is not None:
            self.fail(f"{peer.name} ended:\n{peer.output()}")
        listening = [
            port for port, state, _ in sockets("tcp", peer.process.pid) if state == LISTENING
        ]
        return peer.tcp_port in listening

    def connect(self, side, server, server_side, program, *arguments):
        return self.launch(
            side, program, "-p", str(server.tcp_port), *arguments, server_side.address
        )

    def start_pair(self, server_side, client_side, program, *arguments):
        server = self.serve(server_side, program, "-d", server_side.device, *arguments)
        client = self.connect(
            client_side, server, server_side, program, "-d", client_side.device, *arguments
        )
        return server, client

    def run_pair(self, server_side, client_side, program, *arguments):
        """A whole run; both end well. Returns server and client."""
        server, client = self.start_pair(server_side, client_side, program, *arguments)
        try:
            client.finish(0)
            server.finish(0)
        finally:
            # So that what fails does not disturb what comes next in the same test.
            client.clean_up()
            server.clean_up()
        return server, client


COUNTER = re.compile(r"uroce_\S+: (.+): (\d+)")


def is_counter(line):
    return COUNTER.fullmatch(line) is not None


def counters(peer):
    """What a program that ran with UROCE_COUNTERS=1 counted, by the counters' texts."""
    lines = filter(None, map(COUNTER.fullmatch, peer.lines["err"]))
    return {line.group(1): int(line.group(2)) for line in lines}
