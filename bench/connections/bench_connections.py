#!/usr/bin/python3
"""How the programs with several connections grow with their number: time, and memory.

Runs rdma_multi_conn_receive and rdma_multi_conn_send, and carries their lines from one to the
other through pipes: what appears in a file is seen with a delay of up to 100 ms.
"""

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.dirname(os.path.dirname(HERE)))

TIMEOUT = "60"  # seconds
# What one program prints must fit into its pipe while the other one's is read.
MOST_CONNECTIONS = 1024
PR_SET_CHILD_SUBREAPER = 36

# A process's peak of memory includes that of the process that it was forked from, which for one
# that Python starts is more than the programs need. So a shell stands in between; when it ends,
# the program becomes a child of this one. It starts when a line tells it to.
LAUNCH = 'exec 3<&0; { read -r go; exec "$@"; } <&3 3<&- & echo $!'

FIGURES = (
    ("descriptors of receive", "ms"),
    ("descriptors of send", "ms"),
    ("connect receive", "ms"),
    ("connect send", "ms"),
    ("messages", "ms"),
    ("peak memory of receive", "KiB"),
    ("peak memory of send", "KiB"),
)
FURTHER = {"ms": ("us", 1000), "KiB": ("B", 1024)}


class CannotMeasure(Exception):
    pass


class Program:
    """A running program; its methods do one step each, and return how many ms it took."""

    def __init__(self, name, count, folder, device):
        self.name = name
        self.count = count
        self.lines = []
        self.device = None
        self.status = None
        command = [os.path.join(BUILD, name, name), "-nc", str(count), "--timeout", TIMEOUT]
        command += ["-re", os.path.join(folder, "nowhere"), *(("-d", device) if device else ())]
        pipe = subprocess.PIPE
        self.launcher = subprocess.Popen(
            ["/bin/sh", "-c", LAUNCH, "sh", *command],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            env=dict(os.environ, XDG_RUNTIME_DIR=folder),
        )
        self.pid = int(self.launcher.stdout.readline())
        self.launcher.wait()

    def write(self, text):
        self.launcher.stdin.write(text)
        self.launcher.stdin.flush()

    def read_until(self, stream, text):
        """Reads up to a line that has the text; returns that line."""
        printed = []
        for line in stream:
            printed.append(line)
            if text in line:
                return line
        printed += self.launcher.stderr
        raise CannotMeasure(f'{self.name} did not print "{text}" but:\n' + "".join(printed))

    def read_lines(self, text):
        """One line with the text for each connection."""
        return [self.read_until(self.launcher.stdout, text) for _ in range(self.count)]

    def start(self):
        begin = time.perf_counter()
        self.write("\n")
        self.lines = self.read_lines("rdma1 conn ")
        elapsed = milliseconds_since(begin)
        self.device = self.read_until(self.launcher.stderr, ": device ").split()[-1]
        return elapsed

    def connect(self, peer):
        text = "".join(peer.lines)
        begin = time.perf_counter()
        self.write(text)
        self.read_until(self.launcher.stderr, "Starting -> Running")
        return milliseconds_since(begin)

    def receive(self):
        begin = time.perf_counter()
        self.read_lines("Received on connection ")
        return milliseconds_since(begin)

    def finish(self):
        """Returns the peak of its memory in KiB."""
        output, _ = self.launcher.communicate()
        _, self.status, usage = os.wait4(self.pid, 0)
        if self.status != 0:
            raise CannotMeasure(f"{self.name} failed:\n{output}")
        return usage.ru_maxrss

    def clean_up(self):
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)


def milliseconds_since(begin):
    return (time.perf_counter() - begin) * 1000


def measure(count, device):
    """A whole run; returns the figures in their order, and the device."""
    folder = tempfile.mkdtemp(prefix="bench_connections.")
    programs = []
    try:
        for name in ("rdma_multi_conn_receive", "rdma_multi_conn_send"):
            programs.append(Program(name, count, folder, device))
        receive, send = programs
        # Each has the machine for itself, as far as it goes.
        figures = (
            receive.start(),
            send.start(),
            receive.connect(send),
            send.connect(receive),
            receive.receive(),
            receive.finish(),
            send.finish(),
        )
        return figures, send.device
    finally:
        for program in programs:
            program.clean_up()
        shutil.rmtree(folder)


def row(label, cells):
    print(f"{label:34}" + "".join(f"{cell:>18}" for cell in cells))


def report(rounds, counts):
    """rounds: for each, the figures by number of connections."""

    def median(value):
        return statistics.median(value(figures) for figures in rounds)

    row("connections", counts)
    for index, (label, unit) in enumerate(FIGURES):
        row(
            f"{label}, {unit}",
            [
                f"{median(lambda f: f[count][index]):.1f}"
                f" ({median(lambda f: f[count][index] / f[1][index]):.2f})"
                for count in counts
            ],
        )
    print("\nfor each further connection")
    for index, (label, unit) in enumerate(FIGURES):
        small_unit, factor = FURTHER[unit]
        row(
            f"{label}, {small_unit}",
            ["-"]
            + [
                f"{median(lambda f: (f[count][index] - f[1][index]) / (count - 1)) * factor:.0f}"
                for count in counts[1:]
            ],
        )


def number_of_connections(text):
    number = int(text)
    if not 1 <= number <= MOST_CONNECTIONS:
        raise argparse.ArgumentTypeError(f"{text}: must be from 1 to {MOST_CONNECTIONS}")
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="RDMA device (default: the best one)")
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 100), default=9, metavar="N", help="default: 9"
    )
    parser.add_argument(
        "--connections",
        type=number_of_connections,
        nargs="+",
        default=[2, 8, 64, 256],
        metavar="N",
        help=f"compared with one; up to {MOST_CONNECTIONS} (default: 2 8 64 256)",
    )
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    counts = sorted({1, *arguments.connections})
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append({})
        for count in counts:
            rounds[-1][count], device = measure(count, arguments.device)
    print(f"Device {device}")
    print(
        f"Rounds: {arguments.rounds}; figures are medians, in brackets the median of the rounds'"
        " ratios to one connection\n"
    )
    report(rounds, counts)


if __name__ == "__main__":
    try:
        main()
    except CannotMeasure as error:
        sys.exit(f"bench_connections: {error}")
