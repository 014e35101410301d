#!/usr/bin/python3
"""The RDMA read pair on the best device there is: a real one, or uroce (R-READ-1, R-READ-2, R-GEN-*)."""

import os
import shutil
import signal
import unittest

import pairs
from pairs import PairTest, result_of

REQUESTER = "rdma_read_requester"
RESPONDER = "rdma_read_responder"
READ = "Read from the responder: "

LONGEST = "h" + 127 * "é"  # 255 bytes


class ReadPair(PairTest):
    def start_responder(self, *arguments, **options):
        return self.start(RESPONDER, *arguments, **options)

    def start_requester(self, *arguments, **options):
        return self.start(REQUESTER, *arguments, **options)

    def read_once(self, responder_arguments=(), requester_arguments=()):
        """A whole run, responder first; returns the finished requester."""
        responder = self.start_responder(*responder_arguments)
        responder.wait_for("waiting for")
        requester = self.start_requester(*requester_arguments)
        requester.finish(0)
        responder.close_stdin()
        responder.finish(0)
        self.assert_no_files()
        return requester

    # How the descriptors get there

    def test_default_files(self):
        self.assertIn(READ + "Hi RDMA!", self.read_once().lines["out"])

    def test_requester_first(self):
        requester = self.start_requester()
        requester.wait_for("waiting for")
        responder = self.start_responder("-r", "late")
        requester.finish(0)
        self.assertIn(READ + "late", requester.lines["out"])
        responder.close_stdin()
        responder.finish(0)
        self.assert_no_files()

    def test_files_that_options_name(self):
        one, two, three = self.path("one"), self.path("two"), self.path("three")
        requester = self.read_once(
            ("-ld", one, "-re", two, "-m", three), ("-ld", two, "-re", one, "-m", three)
        )
        self.assertIn(READ + "Hi RDMA!", requester.lines["out"])

    def test_lines_pasted_through_pipes(self):
        nowhere = ("-re", self.path("nowhere"))
        responder = self.start_responder("-r", "pasted", *nowhere)
        requester = self.start_requester("-m", self.path("no-map"), *nowhere)
        connection, mmap = responder.descriptors(2)
        responder.write(requester.descriptors(1)[0] + "\n")
        responder.wait_for("Starting -> Running")
        requester.write(f"\n  {mmap} \r\n{connection}\n")  # any order, blanks around
        requester.finish(0)
        self.assertIn(READ + "pasted", requester.lines["out"])
        responder.write("\n")
        responder.finish(0)
        self.assert_no_files()

    def test_lines_pasted_on_terminals(self):
        nowhere = ("-re", self.path("nowhere"))
        responder = self.start_responder("-r", "typed", *nowhere, stdin="terminal")
        requester = self.start_requester("-m", self.path("no-map"), *nowhere, stdin="terminal")
        connection, mmap = responder.descriptors(2)
        responder.write("no descriptor\n")
        responder.wait_for("paste it once more")
        responder.write(requester.descriptors(1)[0] + "\n")
        responder.wait_for("press Enter")
        requester.write(f"{connection}\n{mmap}\n")
        requester.finish(0)
        self.assertIn(READ + "typed", requester.lines["out"])
        responder.write("\n")
        responder.finish(0)

    def test_descriptor_files_are_private(self):
        responder = self.start_responder()
        responder.wait_for("waiting for")
        modes = {name: os.stat(self.path(name)).st_mode & 0o777 for name in os.listdir(self.folder)}
        self.assertEqual(modes, {RESPONDER + ".conn": 0o600, RESPONDER + ".resource": 0o600})
        responder.signal(signal.SIGINT)
        responder.finish(130)

    # What arrives

    def test_texts_arrive_byte_for_byte(self):
        for text in ("", "x", LONGEST, 'it\'s "quoted"\nand has\ttwo lines\\', "\x1b[2J\u202e"):
            with self.subTest(text=text):
                requester = self.read_once(("-r", text), ("--json",))
                result = result_of(requester)
                self.assertEqual(result["text"], text)
                self.assertEqual((result["status"], result["exit_status"]), ("RS_OK", 0))

    def test_control_characters_are_printed_as_escapes(self):
        requester = self.read_once(("-r", "a\x1b[2Jb\nc\u202e"))
        self.assertIn(READ + "a\\x1b[2Jb\\nc\\xe2\\x80\\xae", requester.lines["out"])

    def test_text_that_is_not_utf8_is_reported(self):
        responder = self.start_responder("-r", "a\udcff")
        responder.wait_for("waiting for")
        self.assert_one_error(self.start_requester(), 'not valid UTF-8: "a\\xff"', 1)

    def test_256_bytes_are_refused(self):
        self.assert_one_error(
            self.start_responder("-r", LONGEST + "x"),
            "--read-string: the text has 256 bytes, but at most 255",
            2,
        )

    # Wrong options and descriptors: one clear line

    def test_unknown_device_names_those_there_are(self):
        self.assert_one_error(
            self.start_requester("-d", "nix"),
            'no RDMA device "nix" on this machine; there is: ' + pairs.DEVICES,
            1,
        )

    def test_gid_index_out_of_range_names_those_there_are(self):
        self.assert_one_error(self.start_requester("-g", "200"), "there is: 0 (rocev2 ", 1)

    def test_bad_options(self):
        for arguments, message in (
            (("-nc", "0"), '--num-connections "0": must be a number from 1'),
            (("-nc", "3"), "does not take this option"),
            (("-g", "-1"), '--gid-index "-1": must be a number from 0 to 255'),
            (("-lp", "70000"), '--listen-port "70000": must be a number from 1 to 65535'),
            (("-tt", "tcp"), '--transport-type "tcp": must be RC or DC'),
            (("-x",), 'unknown or ambiguous option "-x"'),
            (("--json=1",), "--json takes no value"),
            (("-d",), "--device: a value is missing"),
            (("rxe0",), 'unexpected argument "rxe0"'),
            (("-ld", "/a", "-re", "/a"), "are the same file"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_one_error(self.start_requester(*arguments), message, 2)

    def test_dc_is_refused(self):
        self.assert_one_error(self.start_requester("-tt", "dc"), f"device {pairs.DEVICES}", 1)

    def published_lines(self):
        responder = self.start_responder()
        return responder, responder.descriptors(2)

    def test_damaged_descriptors(self):
        _, (connection, mmap) = self.published_lines()
        for text, message in (
            (connection[:60] + "\n", "was the line cut while copying?"),
            (connection[:-1] + "\n", "CRC mismatch"),
            (connection.replace("mtu=1", "mtu=2") + "\n", "CRC mismatch"),
            (mmap + "\n", "of the wrong kind"),
            ("", "it is empty"),
            ("hello\n", 'a descriptor begins with "rdma1"'),
            (connection + "\n" + connection + "\n", "it has connection 0 twice"),
        ):
            with self.subTest(text=text):
                path = self.write_file("damaged", text)
                self.assert_one_error(self.start_requester("-re", path), message, 1)

    def test_damaged_lines_on_standard_input(self):
        _, (connection, _) = self.published_lines()
        requester = self.start_requester("-re", self.path("nowhere"))
        requester.write(connection[:-1] + "\n")
        self.assert_one_error(requester, "bad line on standard input, at character", 1)

    def test_descriptor_is_a_directory(self):
        self.assert_one_error(self.start_requester("-re", self.folder), "it is a directory", 1)

    def test_descriptor_is_a_symbolic_link(self):
        os.symlink(self.write_file("real", "rdma1"), self.path("link"))
        self.assert_one_error(
            self.start_requester("-re", self.path("link")), "it is a symbolic link", 1
        )
        self.assert_one_error(
            self.start_requester("-ld", self.path("link")), "is a symbolic link", 1
        )

    def test_descriptor_is_unreadable(self):
        path = self.write_file("secret", "rdma1")
        os.chmod(path, 0)
        # Root, too, is then bound by the mode.
        bound = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
        requester = self.start_requester("-re", path, prefix=bound if os.geteuid() == 0 else ())
        self.assert_one_error(requester, "Permission denied", 1)

    def test_descriptor_path_is_unwritable(self):
        path = self.path("no/such/folder")
        self.assert_one_error(
            self.start_requester("-ld", path), f"cannot write the descriptor file {path}", 1
        )

    def test_own_descriptor(self):
        requester = self.start_requester("-re", self.path("copy"))
        own = requester.descriptors(1)[0]
        self.write_file("copy", own + "\n")
        self.assert_one_error(requester, "the program's own descriptor", 1)

    # The peer is not there, goes, or refuses

    def test_timeout_without_a_peer(self):
        self.assert_one_error(
            self.start_requester("--timeout", "2"), "came within 2 s: is it running?", 1
        )
        self.assert_no_files()

    def test_timeout_of_the_responder_that_nobody_ends(self):
        requester = self.start_requester()
        requester.wait_for("waiting for")
        responder = self.start_responder("--timeout", "2", stdin="null")
        requester.finish(0)
        self.assert_one_error(responder, "nobody said that it has finished", 1)

    def test_files_of_a_killed_run_are_ignored(self):
        killed = self.start_responder("-r", "old")
        killed.wait_for("waiting for")
        killed.signal(signal.SIGKILL)
        killed.finish()
        requester = self.start_requester()
        requester.wait_for("left by an earlier run")
        responder = self.start_responder("-r", "new")
        requester.finish(0)
        self.assertIn(READ + "new", requester.lines["out"])
        responder.close_stdin()
        responder.finish(0)

    def connect_and_kill_responder(self):
        """A requester that knows no lines yet, and those of a responder that connected and is gone."""
        requester = self.start_requester("-re", self.path("nowhere"), "-m", self.path("no-map"))
        responder = self.start_responder()
        lines = responder.descriptors(2)
        responder.wait_for("Starting -> Running")
        responder.signal(signal.SIGKILL)
        responder.finish()
        return requester, lines

    def test_peer_killed_between_connect_and_read(self):
        requester, lines = self.connect_and_kill_responder()
        requester.write("\n".join(lines) + "\n")
        self.assert_one_error(
            requester, "read failed: retries exceeded: the peer does not answer", 1
        )
        self.assertTrue(requester.said("Is that program still running"))
        self.assertTrue(requester.said("Stopping -> Idle"))

    def test_map_that_does_not_permit_remote_read(self):
        self.refused_by("map")

    def test_instance_that_does_not_permit_remote_read(self):
        self.refused_by("instance")

    def refused_by(self, what):
        responder = self.start_strange(pairs.PAIR["read"], "responder", "closed-" + what)
        responder.wait_for("waiting for")
        requester = self.start_requester()
        self.assert_one_error(requester, "read failed: remote ", 1)
        self.assertTrue(
            requester.said("Running -> Stopping") and requester.said("Stopping -> Idle")
        )
        self.assertEqual(requester.lines["out"][1:], [])
        responder.close_stdin()
        responder.finish()

    # Ends

    def test_signals_end_it_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for program in (REQUESTER, RESPONDER):
                with self.subTest(number=number, program=program):
                    peer = self.start(program)
                    peer.wait_for("waiting for")
                    peer.signal(number)
                    peer.finish(128 + number)
                    self.assertTrue(
                        peer.said("Starting -> Stopping") and peer.said("Stopping -> Idle")
                    )
                    self.assert_no_files()

    def test_several_signals_at_once_do_not_cut_the_end_short(self):
        responder = self.start(RESPONDER)
        responder.wait_for("waiting for")
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            responder.signal(number)
        self.assertIn(responder.finish(), (129, 130, 143))
        self.assertTrue(responder.said("Stopping -> Idle"))
        self.assert_no_files()

    def test_signal_in_running(self):
        responder = self.start_responder(stdin="null")
        self.start_requester().finish(0)
        responder.signal(signal.SIGINT)
        responder.finish(130)
        self.assertTrue(
            responder.said("Running -> Stopping") and responder.said("Stopping -> Idle")
        )
        self.assert_no_files()

    @unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed")
    @unittest.skipIf("asan" in pairs.BUILD, "a sanitizer is in the program already")
    def test_valgrind_sees_no_lost_block(self):
        suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "valgrind.supp")
        valgrind = (
            "valgrind",
            "-q",
            "--leak-check=full",
            "--show-leak-kinds=definite,indirect,possible",
            "--errors-for-leak-kinds=definite,indirect,possible",
            "--error-exitcode=99",
            "--undef-value-errors=no",
            "--suppressions=" + suppressions,
        )
        responder = self.start_responder(prefix=valgrind)
        responder.wait_for("waiting for")
        requester = self.start_requester(prefix=valgrind)
        requester.finish(0)
        responder.close_stdin()
        responder.finish(0)

    def test_an_end_of_input_before_running_is_no_answer(self):
        for stdin in ("pipe", "terminal"):
            with self.subTest(stdin=stdin):
                responder = self.start_responder(stdin=stdin)
                responder.wait_for("waiting for")
                if stdin == "pipe":
                    responder.close_stdin()
                else:
                    responder.write("\x04")
                requester = self.start_requester()
                requester.finish(0)
                if stdin == "pipe":
                    responder.wait_for("end this program with Ctrl-C or SIGTERM when")
                    responder.signal(signal.SIGTERM)
                    responder.finish(128 + signal.SIGTERM)
                else:
                    responder.wait_for("press Enter when")
                    responder.write("\x04")
                    responder.finish(0)

    def test_result_that_cannot_be_printed_is_a_failure(self):
        responder = self.start_responder()
        responder.wait_for("waiting for")
        with open("/dev/full", "wb") as full:
            # Line by line, the descriptor would fail already.
            requester = self.start_requester("--json", stdout=full)
            requester.finish(1)
        self.assertTrue(requester.said("printing the result failed: No space left"))

    def test_closed_standard_descriptors(self):
        command = os.path.join(pairs.BUILD, REQUESTER, REQUESTER)
        responder = self.start_responder()
        responder.wait_for("waiting for")
        shell = self.start("/bin/sh", "-c", '"$1" <&- >&- 2>&-', "sh", command)
        shell.finish(0)

    def test_json_of_a_failure(self):
        requester = self.start_requester("--json", "-d", "nix")
        requester.finish(1)
        result = result_of(requester)
        self.assertEqual(
            (result["status"], result["exit_status"], result["text"]), ("RS_ERR_NOT_FOUND", 1, None)
        )

    def test_help_and_version(self):
        for argument, text in (
            ("--help", "--remote-resource-descriptor-path FILE"),
            ("--version", REQUESTER + " "),
        ):
            requester = self.start_requester(argument)
            requester.finish(0)
            self.assertTrue(requester.said(text, "out"), requester.output())


if __name__ == "__main__":
    pairs.main()
