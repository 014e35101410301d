#!/usr/bin/python3
"""The project's own pairs on uroce when the network is bad, and what a capture of them looks like."""

import os
import re
import shutil
import unittest

import programs
from programs import counters

REQUESTER = "rdma_read_requester"
RESPONDER = "rdma_read_responder"
TEXT = 51 * "text " # 255 bytes

SEEDS = (1, 2, 3)
# What a network may do, and far more than one does: so few packets are in a run that it takes much to
# meet one.
BAD = "drop=5%,dup=2%,reorder=5%,corrupt=1%"
TERRIBLE = "drop=20%,dup=20%,reorder=20%,corrupt=20%"


class ReadPair(programs.ProgramTest):
    def run_pair(self, **settings):
        """
        A whole run on the loopback device; returns the two programs. The responder connects first, so
        that nothing is asked for in vain.
        """
        self.environment.update(settings, UROCE_COUNTERS="1")
        nowhere = ("-d", "uroce_lo", "-re", self.path("nowhere"))
        responder = self.start(RESPONDER, *nowhere, "-r", TEXT)
        requester = self.start(REQUESTER, *nowhere, "-m", self.path("no-map"))
        responder.write(requester.descriptors(1)[0] + "\n")
        responder.wait_for("Starting -> Running")
        requester.write("\n".join(responder.descriptors(2)) + "\n")
        requester.finish(0)
        self.assertIn("Read from the responder: " + TEXT, requester.lines["out"])
        responder.close_stdin()
        responder.finish(0)
        return responder, requester

    def faults_of(self, peers):
        return sum(
            number
            for peer in peers
            for name, number in counters(peer).items()
            if name.startswith("faults: ")
        )

    def test_the_text_arrives_on_a_bad_network(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.run_pair(UROCE_FAULTS=f"{BAD},seed={seed}")

    def test_the_text_arrives_on_a_terrible_network(self):
        faults = 0
        for seed in SEEDS:
            with self.subTest(seed=seed):
                faults += self.faults_of(self.run_pair(UROCE_FAULTS=f"{TERRIBLE},seed={seed}"))
        self.assertGreater(faults, 0)

    @unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
    def test_a_capture_has_the_read_and_nothing_strange(self):
        peers = self.run_pair(UROCE_PCAP=self.path("%p.pcap"))
        for peer in peers:
            path = self.path(f"{peer.process.pid}.pcap")
            lines = self.read_capture(path)
            shown = "\n".join(lines)
            self.assertNotRegex(shown, "(?i)malformed|retransmi")
            self.assertEqual(len(re.findall("RDMA Read Request", shown)), 1, shown)
            self.assertEqual(len(re.findall("RDMA Read Response Only", shown)), 1, shown)
            self.assertEqual(len(lines), 2, shown)
            os.remove(path)


if __name__ == "__main__":
    programs.main()
