#!/usr/bin/python3
"""What the programs say where no RDMA device is: not even uroce has one without a network interface."""

import os
import unittest

import pairs
from pairs import PairTest

SYSFS = "/sys/class/infiniband"


@unittest.skipIf(os.path.isdir(SYSFS) and os.listdir(SYSFS), "this machine has an RDMA device")
class NoDevice(PairTest):
    # In a network namespace of its own nothing is up.
    NO_NETWORK = ("unshare", "--user", "--map-root-user", "--net")

    def start(self, program, *arguments):
        return super().start(program, *arguments, prefix=self.NO_NETWORK)

    def test_any_device(self):
        for program in ("rdma_read_requester", "rdma_read_responder"):
            with self.subTest(program=program):
                self.assert_one_error(self.start(program), "no RDMA device on this machine", 1)

    def test_named_device(self):
        self.assert_one_error(
            self.start("rdma_read_requester", "-d", "mlx5_0"), '"mlx5_0" was asked for', 1
        )


if __name__ == "__main__":
    pairs.main()
