#!/usr/bin/python3
"""All pairs on the best device there is. What takes long happens in all of them at once."""

import os
import signal
import sys

import pairs
from pairs import PAIR, PAIRS, SIDES, PairTest, Run

WITH_TEXT = [pair for pair in PAIRS if pair.text_option]
WITH_IMMEDIATE = [pair for pair in PAIRS if pair.has_immediate]
MULTI = PAIR["multi_conn"]

LONGEST = "h" + 127 * "é"  # 255 bytes
TEXTS = ("", "x", LONGEST, 'it\'s "quoted"\nand has\ttwo lines\\', "\x1b[2J\u202e\r\x7f\x9b")

RUNNING = "Starting -> Running"
OVER = "Stopping -> Idle"

# Starts a program for which a SIGINT is waiting already.
INTERRUPTED = (
    sys.executable,
    "-c",
    "import os, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
    "os.kill(os.getpid(), signal.SIGINT)\n"
    "os.execv(sys.argv[1], sys.argv[1:])",
)


class AllPairs(PairTest):
    def new_runs(self, chosen=PAIRS, **values):
        return [Run(self, pair, **values) for pair in chosen]

    def of(self, run):
        """The run as a subtest."""
        return self.subTest(pair=run.pair.name, **run.values)

    def start_all(self, runs, side, *arguments, wait_for="waiting for", **options):
        """Starts this side of all runs, then waits for a line of each; "": for none."""
        for run in runs:
            run.start(side, *arguments, **options)
        for run in runs:
            getattr(run, side).wait_for(wait_for)

    def run_all(self, runs, *arguments, check=Run.assert_printed):
        """Whole runs, responders first."""
        self.start_all(runs, "responder", *arguments)
        self.start_all(runs, "requester", *arguments, wait_for="")
        self.finish_all(runs, check)

    def finish_all(self, runs, check=Run.assert_printed):
        for run in runs:
            with self.of(run):
                run.finish()
                check(run)
        self.assert_no_files()

    def deaf(self, pair):
        """Options of a requester that sees no file of its responder: it must be given the lines."""
        nowhere = ("-re", self.path("nowhere"))
        return nowhere + (("-m", self.path("no-resource")) if pair.resource else ())

    def start_deaf_requesters(self, runs, **options):
        for run in runs:
            run.start("requester", *self.deaf(run.pair), **options)
        for run in runs:
            run.requester.wait_for("waiting for")

    def connect_responders(self, *arguments, stdin="pipe"):
        """Runs whose responders are in Running, and whose requesters know no lines yet."""
        runs = self.new_runs()
        self.start_deaf_requesters(runs)
        self.start_all(runs, "responder", *arguments, wait_for=RUNNING, stdin=stdin)
        return runs

    def connect_requesters(self):
        """Runs whose requesters have just heard of a responder that connected and is gone."""
        runs = self.connect_responders()
        for run in runs:
            lines = run.responder.descriptors(len(run.pair.kinds("responder")))
            run.responder.signal(signal.SIGKILL)
            run.responder.finish(-signal.SIGKILL)
            run.requester.write("\n".join(lines) + "\n")
        return runs

    def start_alone(self, *arguments, **options):
        """All programs, none of which sees its peer."""
        peers = []
        for pair in PAIRS:
            for side in SIDES:
                alone = self.deaf(pair) if side == "requester" else ("-re", self.path("nowhere"))
                peers.append(self.start(pair.program(side), *alone, *arguments, **options))
        return peers


class Exchange(AllPairs):
    """How the descriptors get there."""

    def test_default_files(self):
        def check(run):
            run.assert_printed()
            for side in SIDES:
                lines = [l for l in getattr(run, side).lines["out"] if l.startswith("rdma1 ")]
                kinds = [line.split()[1] for line in lines]
                self.assertEqual(kinds, run.pair.kinds(side))

        self.run_all(self.new_runs(), check=check)

    def test_requester_first(self):
        runs = self.new_runs(text="late")
        self.start_all(runs, "requester")
        self.start_all(runs, "responder", wait_for="")
        self.finish_all(runs)

    def test_files_that_options_name(self):
        runs = self.new_runs()
        for run in runs:
            one, two, three = (self.path(f"{run.pair.name}.{i}") for i in range(3))
            resource = ("-m", three) if run.pair.resource else ()
            run.start("responder", "-ld", one, "-re", two, *resource)
            run.start("requester", "-ld", two, "-re", one, *resource)
        self.finish_all(runs)

    def paste(self, run):
        """The requester's lines go to the responder, and then its lines, in another order, back."""
        lines = run.requester.descriptors(len(run.pair.kinds("requester", **run.values)))
        run.responder.write("\n".join(reversed(lines)) + "\n")
        run.responder.wait_for(RUNNING)
        lines = run.responder.descriptors(len(run.pair.kinds("responder", **run.values)))
        run.requester.write("\n".join(reversed(lines)) + "\n")

    def run_pasted(self, runs, stdin):
        for run in runs:
            run.start("responder", "-re", self.path("nowhere"), stdin=stdin)
        self.start_deaf_requesters(runs, stdin=stdin)
        for run in runs:
            with self.of(run):
                self.paste(run)
        self.finish_all(runs)

    def test_lines_pasted_through_pipes(self):
        self.run_pasted(self.new_runs(), "pipe")

    def test_lines_pasted_on_terminals(self):
        self.run_pasted(self.new_runs(), "terminal")

    def test_lines_of_many_connections_pasted(self):
        for stdin in ("pipe", "terminal"):
            self.run_pasted(self.new_runs([MULTI], connections=5), stdin)


class Results(AllPairs):
    """What arrives, and how it is printed."""

    def test_json(self):
        self.run_all(self.new_runs(), "--json", check=Run.assert_results)

    def test_texts_arrive_byte_for_byte(self):
        def check(run):
            run.assert_results()
            for side in SIDES:
                self.assert_printable(getattr(run, side))

        for text in TEXTS:
            self.run_all(self.new_runs(WITH_TEXT, text=text), "--json", check=check)

    def test_control_characters_are_printed_as_escapes(self):
        def check(run):
            run.assert_printed(text="a\\x1b[2Jb\\nc\\t\\xe2\\x80\\xae\\x7f\\é")
            for side in SIDES:
                self.assert_printable(getattr(run, side))

        self.run_all(self.new_runs(WITH_TEXT, text="a\x1b[2Jb\nc\t\u202e\x7f\\é"), check=check)

    def test_256_bytes_are_refused(self):
        for run in self.new_runs(WITH_TEXT, text=LONGEST + "x"):
            with self.of(run):
                self.assert_one_error(
                    run.start(run.pair.text_side), "the text has 256 bytes, but at most 255", 2
                )

    def test_immediate_values_arrive(self):
        for given in ("0", "1", "0xd0ca", "4294967295", "0xffffffff"):
            runs = self.new_runs(WITH_IMMEDIATE, immediate=given)
            self.run_all(runs, "--json", check=Run.assert_results)

    def test_immediate_values_are_printed(self):
        for given in ("0", "4294967295"):
            self.run_all(self.new_runs(WITH_IMMEDIATE, immediate=given))

    def test_bad_immediate_values_are_refused(self):
        for given in ("4294967296", "99999999999999999999", "-1", "abc", "", "0x", "1 "):
            for run in self.new_runs(WITH_IMMEDIATE, immediate=given):
                with self.of(run):
                    self.assert_one_error(
                        run.start("requester"),
                        f'--immediate "{given}": must be a number from 0 to 4294967295 (0xffffffff)',
                        2,
                    )


class Connections(AllPairs):
    """The pair with several."""

    def test_numbers_of_connections(self):
        for count in (1, 2, 8, 256):
            runs = self.new_runs([MULTI], connections=count)
            self.run_all(runs, "--json", check=Run.assert_results)

    def test_many_results_are_printed(self):
        self.run_all(self.new_runs([MULTI], connections=16))

    def test_different_numbers_on_the_two_sides(self):
        more, fewer = "are to be 2, numbered from 0: is the number", "fewer lines than the number"
        for counts, messages in (((2, 3), (more, fewer)), ((3, 2), (fewer, more))):
            with self.subTest(counts=counts):
                # Each reads the other's file before that, too, has ended and removed it.
                peers = [
                    self.start(MULTI.program(side), "-nc", str(count))
                    for side, count in zip(SIDES, counts)
                ]
                for peer, message in zip(peers, messages):
                    self.assert_one_error(peer, message, 1)
                self.assert_no_files()

    def test_bad_numbers_of_connections_are_refused(self):
        for side in SIDES:
            for count in (0, 65537):
                peer = Run(self, MULTI, connections=count).start(side)
                self.assert_one_error(peer, "must be a number from 1 to 65535", 2)


class Signals(AllPairs):
    """A signal ends every program cleanly, wherever it is."""

    def assert_ended(self, peer, number, come_from):
        with self.subTest(program=peer.name):
            self.assert_ended_by(peer, number, come_from)

    def test_one_that_came_before_the_program(self):
        for peer in self.start_alone(prefix=INTERRUPTED):
            self.assert_ended(peer, signal.SIGINT, "Starting")
        self.assert_no_files()

    def test_in_starting(self):
        for numbers in ((signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)):
            with self.subTest(numbers=numbers):
                peers = self.start_alone()
                for peer in peers:
                    peer.wait_for("waiting for")
                    for number in numbers:
                        peer.signal(number)
                for peer in peers:
                    self.assert_ended(peer, numbers[0], "Starting")
                self.assert_no_files()

    def end_running(self, runs, side, count):
        for run in runs:
            peer = getattr(run, side)
            peer.wait_for(RUNNING)
            for _ in range(count):
                peer.signal(signal.SIGINT)
            self.assert_ended(peer, signal.SIGINT, "Running")
        # The other side's may be there: that was killed, or runs.
        ended = {run.pair.program(side) for run in runs}
        left = {name.partition(".")[0] for name in os.listdir(self.folder)}
        self.assertFalse(ended & left)

    def test_in_running(self):
        for count in (1, 2):
            with self.subTest(count=count, side="responder"):
                runs = self.connect_responders()
                self.end_running(runs, "responder", count)
                for run in runs:
                    run.requester.signal(signal.SIGTERM)
                    run.requester.finish(128 + signal.SIGTERM)
                self.assert_no_files()
            with self.subTest(count=count, side="requester"):
                self.end_running(self.connect_requesters(), "requester", count)

    def test_that_is_the_user_s_answer(self):
        runs = self.new_runs([pair for pair in PAIRS if pair.needs_end])
        self.start_all(runs, "responder", stdin="null")
        self.start_all(runs, "requester", wait_for="")
        for run in runs:
            with self.of(run):
                run.requester.finish(0)
                run.responder.wait_for("end this program with Ctrl-C or SIGTERM when")
                run.responder.signal(signal.SIGINT)
                run.responder.finish(130)
                run.assert_printed()
        self.assert_no_files()


class Peers(AllPairs):
    """The peer is not there, or late, or goes."""

    def test_responder_connects_late(self):
        """Its requester has sent by then, and must do so again."""
        runs = self.new_runs()
        self.start_all(runs, "responder", "-re", self.path("nowhere"))
        self.start_all(runs, "requester", wait_for=RUNNING)
        for run in runs:
            lines = run.requester.descriptors(len(run.pair.kinds("requester")))
            run.responder.write("\n".join(lines) + "\n")
        self.finish_all(runs)

    def test_no_peer(self):
        for peer in self.start_alone("--timeout", "2"):
            with self.subTest(program=peer.name):
                self.assert_one_error(peer, "came within 2 s: is it running?", 1)
        self.assert_no_files()

    def test_responder_killed(self):
        for run in self.connect_requesters():
            with self.of(run):
                run.requester.finish(1)
                errors = run.requester.errors()
                for error in errors:
                    self.assertIn("retries exceeded: the peer does not answer", error)
                self.assertIn(len(errors), (1, 2) if run.pair is MULTI else (1,))
                self.assertTrue(run.requester.said("Is that program still running"))
                self.assertTrue(run.requester.said(OVER))

    def test_requester_killed(self):
        runs = self.connect_responders("--timeout", "2", stdin="null")
        for run in runs:
            run.requester.signal(signal.SIGKILL)
        for run in runs:
            with self.of(run):
                run.requester.finish(-signal.SIGKILL)
                self.assert_one_error(run.responder, run.pair.complaint, 1)
                self.assertTrue(run.responder.said(f"in vain for {run.pair.requester}"))
                self.assertEqual(run.responder.results(), [])


if __name__ == "__main__":
    pairs.main()
