#!/usr/bin/python3
"""perftest on the kernel's software device and on uroce, in turn, and the ratio of the two.

Both processes of a test run on this machine. The programs and their options are the same for both
devices; for a device of uroce they are started by uroce-run. See bench/README.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("BUILD", os.path.dirname(os.path.dirname(HERE)))
UROCE_RUN = os.path.join(BUILD, "uroce", "uroce-run")

OPERATIONS = ("send", "write", "read")
LATENCY = "latency"
BANDWIDTH = "bandwidth"
POLLING = "polling"
EVENTS = "events"
WAITS = {POLLING: [], EVENTS: ["-e"]}  # with perftest's options for it
PROGRAMS = {LATENCY: "ib_{}_lat", BANDWIDTH: "ib_{}_bw"}
SIZES = {LATENCY: 8, BANDWIDTH: 65536}
UNITS = {LATENCY: "us", BANDWIDTH: "MB/s"}
# The column of perftest's table: its median of a latency, its average of a bandwidth.
COLUMNS = {LATENCY: 4, BANDWIDTH: 3}
# What the ratio to the first device is to be.
GOALS = {LATENCY: ("<=", 1.0), BANDWIDTH: (">=", 2.0)}

# Each run has a port of its own: that of the last one may still be closing.
FIRST_PORT = 18515
LISTENING = "0A"  # in /proc/net/tcp
PATIENCE = 120  # seconds


class CannotMeasure(Exception):
    pass


class Row:
    """What is measured."""

    def __init__(self, kind, operation, wait):
        self.kind = kind
        self.operation = operation
        self.wait = wait
        self.figures = {}  # by device, a list

    def label(self):
        return f"{self.operation} {self.kind}, {SIZES[self.kind]} B, {self.wait}"

    def command(self, device, arguments, port):
        iterations = arguments.latencies if self.kind == LATENCY else arguments.transfers
        command = [PROGRAMS[self.kind].format(self.operation), "-F", "-d", device]
        command += ["-s", str(SIZES[self.kind]), "-n", str(iterations), "-p", str(port)]
        command += WAITS[self.wait]
        return [UROCE_RUN, *command] if device.startswith("uroce_") else command

    def ratios(self, reference, device):
        pairs = zip(self.figures[device], self.figures[reference])
        return [figure / of_reference for figure, of_reference in pairs]


def is_listening(port):
    with open("/proc/net/tcp", encoding="ascii") as file, open(
        "/proc/net/tcp6", encoding="ascii"
    ) as file6:
        lines = file.readlines()[1:] + file6.readlines()[1:]
    fields = [line.split() for line in lines]
    return any(int(f[1].split(":")[1], 16) == port and f[3] == LISTENING for f in fields)


def await_listener(server, port):
    end = time.monotonic() + PATIENCE
    while not is_listening(port):
        if server.poll() is not None:
            raise CannotMeasure(f"{' '.join(server.args)}:\n{server.communicate()[0]}")
        if time.monotonic() > end:
            raise CannotMeasure(f"{' '.join(server.args)} does not listen")
        time.sleep(0.02)


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )


def finish(process):
    output, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:
        raise CannotMeasure(f"{' '.join(process.args)}:\n{output}")
    return output


def figure_in(output, kind):
    """The figure in the line behind perftest's headings."""
    lines = iter(output.splitlines())
    for line in lines:
        if line.split()[:1] == ["#bytes"]:
            return float(next(lines).split()[COLUMNS[kind]])
    raise CannotMeasure(f"perftest did not print its table but:\n{output}")


def measure(row, device, arguments, port):
    """One run of both processes."""
    command = row.command(device, arguments, port)
    processes = [start(command)]
    try:
        await_listener(processes[0], port)
        processes.append(start([*command, arguments.address]))
        figure = figure_in(finish(processes[1]), row.kind)
        finish(processes[0])
        return figure
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"{' '.join(command)}: took more than {PATIENCE} s") from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def measure_all(rows, devices, arguments):
    """The devices alternate within each row, and so does which of them is first."""
    port = FIRST_PORT
    for number in range(arguments.rounds):
        for row in rows:
            for device in devices if number % 2 == 0 else devices[::-1]:
                figure = measure(row, device, arguments, port)
                row.figures.setdefault(device, []).append(figure)
                port += 1


def is_met(kind, ratio):
    relation, goal = GOALS[kind]
    return ratio <= goal if relation == "<=" else ratio >= goal


def result(row, devices):
    reference = devices[0]
    medians = {device: statistics.median(row.figures[device]) for device in devices}
    found = {"operation": row.operation, "kind": row.kind, "size": SIZES[row.kind]}
    found.update(wait=row.wait, unit=UNITS[row.kind], medians=medians, rounds=row.figures)
    if len(devices) > 1:
        ratio = statistics.median(row.ratios(reference, devices[1]))
        found.update(ratio=ratio, met=is_met(row.kind, ratio))
    return found


def goal_cells(row, devices, found):
    if len(devices) == 1:
        return ""
    ratios = row.ratios(*devices)
    relation, goal = GOALS[row.kind]
    return (
        f"{found['ratio']:8.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
        f"  {relation} {goal:.0f}  {'met' if found['met'] else 'missed'}"
    )


def report(rows, devices, arguments):
    print(f"Rounds: {arguments.rounds}; figures are medians, the ratio is that of the rounds' own")
    headings = "".join(f"{device:>18}" for device in devices)
    print(f"\n{'':36}{headings}" + ("  ratio, goal" if len(devices) > 1 else ""))
    for row in rows:
        found = result(row, devices)
        cells = "".join(
            f"{found['medians'][device]:>13.1f} {UNITS[row.kind]:4}" for device in devices
        )
        print(f"{row.label():36}{cells}{goal_cells(row, devices, found)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", default="rxe0", help="default: rxe0; '' for none")
    parser.add_argument("--device", default="uroce_eth0", help="default: uroce_eth0")
    parser.add_argument("--address", default="10.77.0.1", help="of both (default: 10.77.0.1)")
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 100), default=5, metavar="N", help="default: 5"
    )
    parser.add_argument(
        "--operation", choices=OPERATIONS, action="append", help="default: all (may be repeated)"
    )
    parser.add_argument("--kind", choices=PROGRAMS, help="default: both")
    parser.add_argument("--latencies", type=int, default=1000, metavar="N", help="default: 1000")
    parser.add_argument("--transfers", type=int, default=300, metavar="N", help="default: 300")
    parser.add_argument("--wait", choices=WAITS, help="how perftest waits; default: both")
    parser.add_argument("--json", action="store_true", help="one JSON object, not a table")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    devices = [device for device in (arguments.reference, arguments.device) if device]
    rows = [
        Row(kind, operation, wait)
        for wait in ([arguments.wait] if arguments.wait else WAITS)
        for kind in ([arguments.kind] if arguments.kind else PROGRAMS)
        for operation in arguments.operation or OPERATIONS
        # perftest has no events for writes, since a peer's write is none.
        if (wait, operation) != (EVENTS, "write")
    ]
    measure_all(rows, devices, arguments)
    if arguments.json:
        results = [result(row, devices) for row in rows]
        print(json.dumps({"devices": devices, "rounds": arguments.rounds, "rows": results}))
    else:
        report(rows, devices, arguments)


if __name__ == "__main__":
    try:
        main()
    except CannotMeasure as error:
        sys.exit(f"bench_perftest: {error}")
