#!/usr/bin/python3
"""The project's own pairs on uroce: between two hosts, when the network is bad, and captured."""

import collections
import re
import shutil
import unittest

import programs
from pairs import PAIR, PAIRS, SIDES, Run, other_side
from programs import counters

TEXT = 51 * "text "  # 255 bytes

# Of the hosts of the two sides.
ADDRESSES = {"responder": "10.78.0.1", "requester": "10.78.0.2"}

SEEDS = (1, 2, 3)
# What a network may do, and far more than one does: so few packets are in a run that it takes much to
# meet one.
BAD = "drop=5%,dup=2%,reorder=5%,corrupt=1%"
TERRIBLE = "drop=20%,dup=20%,reorder=20%,corrupt=20%"

ACKNOWLEDGE = "Acknowledge"
ATOMIC_ACKNOWLEDGE = "Atomic Acknowledge"
READ = ("RDMA Read Request", "RDMA Read Response Only")

# What crosses the network, by tshark's names.
OPERATIONS = {
    "read": READ,
    "write": ("RDMA Write Only", ACKNOWLEDGE),
    "write_immediate": ("RDMA Write Only Immediate", ACKNOWLEDGE),
    "send": ("Send Only", ACKNOWLEDGE),
    "send_immediate": ("Send Only Immediate", ACKNOWLEDGE),
    "sync_event": ("RDMA Write Only", ACKNOWLEDGE) * 2 + READ,
    "multi_conn": ("Send Only", ACKNOWLEDGE) * 2,
    "atomic": ("Fetch Add", "Compare Swap") + (ATOMIC_ACKNOWLEDGE,) * 2,
}
# These are there once at least: it reads until there is something new.
REPEATED = {"sync_event": READ}


class PairsTest(programs.ProgramTest):
    def run_pair(self, pair, device="uroce_lo", prefixes=((), ()), **settings):
        """
        A whole run; returns it. The responder connects first, so that nothing is asked for in vain.
        prefixes: what stands before the programs of the two sides, by SIDES.
        """
        self.environment.update(settings, UROCE_COUNTERS="1")
        run = Run(self, pair, text=TEXT)
        options = ("-d", device, "-re", self.path("nowhere"))
        resource = ("-m", self.path("no-resource")) if pair.resource else ()
        run.start("responder", *options, prefix=prefixes[0])
        run.start("requester", *options, *resource, prefix=prefixes[1])
        self.carry(run, "requester", run.responder)
        run.responder.wait_for("Starting -> Running")
        self.carry(run, "responder", run.requester)
        run.finish()
        run.assert_printed()
        return run

    def carry(self, run, side, peer):
        """Gives the side's lines to its peer."""
        lines = getattr(run, side).descriptors(len(run.pair.kinds(side)))
        peer.write("\n".join(lines) + "\n")


class BadNetwork(PairsTest):
    def faults_of(self, run):
        return sum(
            number
            for side in SIDES
            for name, number in counters(getattr(run, side)).items()
            if name.startswith("faults: ")
        )

    def test_the_text_arrives_on_a_bad_network(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.run_pair(PAIR["read"], UROCE_FAULTS=f"{BAD},seed={seed}")

    def test_the_text_arrives_on_a_terrible_network(self):
        faults = 0
        for seed in SEEDS:
            with self.subTest(seed=seed):
                run = self.run_pair(PAIR["read"], UROCE_FAULTS=f"{TERRIBLE},seed={seed}")
                faults += self.faults_of(run)
        self.assertGreater(faults, 0)

    def test_all_pairs_on_a_bad_network(self):
        faults = f"UROCE_FAULTS={BAD},seed={SEEDS[0]}"
        for pair in PAIRS:
            # A responder that ends by itself is gone when its last acknowledgement is lost: the
            # requester asks for it in vain. So only what the requester sends is spoilt there.
            responder = ("env", faults) if pair.needs_end else ()
            with self.subTest(pair=pair.name):
                self.run_pair(pair, prefixes=(responder, ("env", faults)))


@unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
class Capture(PairsTest):
    def operations_in(self, path):
        """How often each operation is in a capture, which has nothing strange."""
        lines = self.read_capture(path)
        shown = "\n".join(lines)
        self.assertNotRegex(shown, "(?i)malformed|retransmi")
        operations = re.findall(" RC (.+?) QP=", shown)
        self.assertEqual(len(operations), len(lines), shown)
        return collections.Counter(operations)

    def assert_operations(self, pair, found):
        repeated = REPEATED.get(pair.name, ())
        once = {name: min(count, 1) if name in repeated else count for name, count in found.items()}
        self.assertEqual(once, collections.Counter(OPERATIONS[pair.name]))

    def test_a_capture_has_the_operations_and_nothing_strange(self):
        for pair in PAIRS:
            run = self.run_pair(pair, UROCE_PCAP=self.path("%p.pcap"))
            for side in SIDES:
                path = self.path(f"{getattr(run, side).process.pid}.pcap")
                with self.subTest(pair=pair.name, side=side):
                    self.assert_operations(pair, self.operations_in(path))


class TwoHosts(PairsTest):
    """Two networks, joined by a cable."""

    def setUp(self):
        super().setUp()
        self.hosts = [side.prefix for side in programs.two_networks(self)]

    def test_all_pairs(self):
        for pair in PAIRS:
            for hosts in (self.hosts, self.hosts[::-1]):
                with self.subTest(pair=pair.name, hosts=hosts):
                    self.run_pair(pair, "uroce_eth0", hosts)

    def run_by_address(self, pair, server):
        """The responder runs on the first host. server: the side that is it."""
        client = other_side(server)
        prefixes = dict(zip(SIDES, self.hosts))
        run = Run(self, pair, text=TEXT, connections=1)
        options = ("-cm", "-d", "uroce_eth0")
        run.start(server, *options, prefix=prefixes[server])
        getattr(run, server).wait_for("waiting for 1 connection")
        run.start(client, *options, "-sa", ADDRESSES[server], prefix=prefixes[client])
        for side in SIDES:
            getattr(run, side).finish(0)
        run.assert_printed()

    def test_all_pairs_by_address(self):
        for pair in PAIRS:
            for server in SIDES:
                with self.subTest(pair=pair.name, server=server):
                    self.run_by_address(pair, server)


if __name__ == "__main__":
    programs.main()
