#!/usr/bin/python3
"""Programs that do not belong together: each says so, and ends.

All of the suite's programs meet all others, and themselves, except their own peers and those of
another pair that they can be connected with.
"""

import concurrent.futures
import itertools
import os

import pairs
from pairs import PAIRS, SIDES, PairTest

PEERS = {pair.program(side): pair.other(side) for pair in PAIRS for side in SIDES}

# These connect, with a warning.
STRANGERS = (
    {"rdma_send", "rdma_receive_immediate"},
    {"rdma_send_immediate", "rdma_receive"},
)

# Those that take -m.
WITH_RESOURCE = [
    pair.program(side) for pair in PAIRS for side in SIDES if pair.resource is not None
]

# A bad file gets a second to be finished, in which a program does nothing.
IN_FLIGHT = 16


def belong_together(one, other):
    return PEERS[one] == other or {one, other} in STRANGERS


COMBINATIONS = [
    combination
    for combination in itertools.combinations_with_replacement(PEERS, 2)
    if not belong_together(*combination)
]

# Some of them: each end of each kind of exchange, and one program twice.
FEW_COMBINATIONS = (
    ("rdma_read_requester", "rdma_write_responder"),
    ("rdma_write_responder", "rdma_read_requester"),
    ("rdma_sync_event_requester", "rdma_atomic_responder"),
    ("rdma_send", "rdma_multi_conn_receive"),
    ("rdma_multi_conn_send", "rdma_receive"),
    ("rdma_receive", "rdma_receive"),
)


def complaint(program, stranger):
    return f"this is the descriptor of {stranger}, but this program works with {PEERS[program]}"


class Matrix(PairTest):
    def start_with_files(self, program, local, remote, resource, **options):
        arguments = ["-ld", local, "-re", remote]
        if program in WITH_RESOURCE:
            arguments += ["-m", resource]
        return self.start(program, *arguments, **options)

    def meet(self, combination):
        """Lets two programs find each other's files; returns them when both have ended."""
        one, other = combination
        folder = self.path(f"{one}+{other}")
        os.mkdir(folder)
        files = [os.path.join(folder, name) for name in ("one", "other")]
        resource = os.path.join(folder, "resource")
        peers = (
            self.start_with_files(one, *files, resource, stdin="null"),
            self.start_with_files(other, *reversed(files), resource, stdin="null"),
        )
        for peer in peers:
            peer.finish()
            # So many are not to stay open until the test's end.
            peer.clean_up()
        return peers

    def test_files_of_programs_that_do_not_belong_together(self):
        self.assertEqual(len(COMBINATIONS), 16 * 17 / 2 - 8 - 2)
        with concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
            for (one, other), peers in zip(COMBINATIONS, pool.map(self.meet, COMBINATIONS)):
                with self.subTest(one=one, other=other):
                    self.assert_one_error(peers[0], complaint(one, other), 1)
                    self.assert_one_error(peers[1], complaint(other, one), 1)
                    self.assertEqual(os.listdir(self.path(f"{one}+{other}")), [])

    def start_with_input(self, program, **options):
        """A program that finds no files, so that only its standard input counts."""
        nowhere = [self.path("nowhere-" + name) for name in ("conn", "resource")]
        return self.start_with_files(program, self.path("own-" + program), *nowhere, **options)

    def descriptor_of(self, program):
        publisher = self.start(program, "-ld", self.path("stranger"), stdin="null")
        line = publisher.descriptors(1)[0]
        publisher.clean_up()
        return line

    def test_lines_pasted_through_pipes(self):
        for program, stranger in FEW_COMBINATIONS:
            with self.subTest(program=program, stranger=stranger):
                peer = self.start_with_input(program)
                peer.write(self.descriptor_of(stranger) + "\n")
                self.assert_one_error(
                    peer, "bad line on standard input, " + complaint(program, stranger), 1
                )

    def test_lines_pasted_on_terminals_are_asked_for_again(self):
        for program, stranger in FEW_COMBINATIONS:
            with self.subTest(program=program, stranger=stranger):
                peer = self.start_with_input(program, stdin="terminal")
                peer.wait_for("waiting for")
                peer.write(self.descriptor_of(stranger) + "\n")
                peer.wait_for("paste it once more")
                self.assertIn(complaint(program, stranger), peer.errors()[0])
                peer.write("\x03")
                peer.finish(130)
                self.assertEqual(len(peer.errors()), 1, peer.output())


if __name__ == "__main__":
    pairs.main()
