#!/usr/bin/python3
"""All services, operations and failures between two processes on uroce, also on a bad network."""

import unittest

import programs
import verbs_matrix
from programs import LOOPBACK, ProgramTest, counters

BAD = "drop=3%,dup=2%,reorder=3%,corrupt=1%,rx_drop=3%,delay=100us"


class Matrix(ProgramTest):
    def run_matrix(self, side, groups, **dimensions):
        given = verbs_matrix.arguments(groups, **dimensions)
        peers = self.run_pair(side, side, verbs_matrix.PROGRAM, *given)
        wanted = verbs_matrix.cells(groups, **dimensions)
        verbs_matrix.assert_results(self, peers, wanted)
        return peers

    def test_everything(self):
        self.run_matrix(LOOPBACK, tuple(verbs_matrix.GROUPS))

    def test_bad_network(self):
        for seed in (1, 2):
            faults = f"{BAD},seed={seed}"
            side = LOOPBACK.with_settings(UROCE_FAULTS=faults, UROCE_COUNTERS="1")
            with self.subTest(seed=seed):
                peers = self.run_matrix(side, ("rc", "load"), mtus=(256, 4096))
                for peer in peers:
                    self.assertGreater(counters(peer)["faults: received packets dropped"], 0)


if __name__ == "__main__":
    programs.main()
