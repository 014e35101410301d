#!/usr/bin/python3
"""What uroce-run does with its options."""

import os
import subprocess
import unittest

from programs import RUN, pairs

LIBRARY = os.path.join(pairs.BUILD, "uroce", "api", "liburoce.so")

VARIABLES = ("LD_PRELOAD", "UROCE_PCAP", "UROCE_FAULTS", "UROCE_LOG", "UROCE_COUNTERS")

# A library with sanitizers comes too late for programs without; it does not matter here.
SANITIZERS = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}


def run(*arguments, **environment):
    plain = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.run(
        (RUN, *arguments),
        env={**plain, **SANITIZERS, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


class UroceRun(unittest.TestCase):
    def variables(self, *options, **environment):
        """What a program finds in its environment."""
        result = run(*options, "env", **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.partition("=") for line in result.stdout.splitlines()]
        return {name: value for name, _, value in lines if name in VARIABLES}

    def assert_wrong(self, reason, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith(f"uroce-run: {reason}\n"), result.stderr)
        self.assertIn("usage: uroce-run", result.stderr)

    def test_a_program_gets_the_library(self):
        self.assertEqual(self.variables(), {"LD_PRELOAD": LIBRARY})

    def test_a_library_that_is_there_stays_first(self):
        preloaded = self.variables(LD_PRELOAD="libnothing.so")["LD_PRELOAD"]
        self.assertEqual(preloaded, f"libnothing.so:{LIBRARY}")

    def test_options_become_variables(self):
        self.assertEqual(
            self.variables(
                "--pcap", "a b.pcap", "--faults", "drop=5%,seed=7", "--log", "debug", "--counters"
            ),
            {
                "LD_PRELOAD": LIBRARY,
                "UROCE_PCAP": "a b.pcap",
                "UROCE_FAULTS": "drop=5%,seed=7",
                "UROCE_LOG": "debug",
                "UROCE_COUNTERS": "1",
            },
        )

    def test_what_follows_the_program_is_its_own(self):
        result = run("echo", "--log", "a  b", "--help")
        self.assertEqual((result.returncode, result.stdout), (0, "--log a  b --help\n"))
        result = run("--", "echo", "--")
        self.assertEqual((result.returncode, result.stdout), (0, "--\n"))

    def test_the_exit_status_is_the_program_s(self):
        self.assertEqual(run("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("/nonexistent").returncode, 127)

    def test_help_is_asked_for(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for option in ("--pcap", "--faults", "--log", "--counters"):
            self.assertIn(option, result.stdout)

    def test_wrong_use_is_explained(self):
        self.assert_wrong("no program")
        self.assert_wrong("no program", "--counters")
        self.assert_wrong("there is no option --nonsense", "--nonsense", "true")
        for option in ("--pcap", "--faults", "--log"):
            self.assert_wrong(f"{option} needs a value", option)


if __name__ == "__main__":
    pairs.main()
