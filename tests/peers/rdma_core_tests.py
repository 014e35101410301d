#!/usr/bin/python3
"""Runs the tests that rdma-core brings along, and says of each, by its full name, what came of it.

usage: rdma_core_tests.py FOLDER [OPTION OF THEIRS]...

FOLDER is where they lie. Each test gives one line on standard output: an object with its name, its
outcome (passed, skipped, failed, error) and a reason. What they print themselves goes to standard
error.
"""

import importlib
import json
import os
import random
import sys
import unittest


class Record(unittest.TestResult):
    """Says each outcome at once, so that what was found stays if a test takes the process along."""

    def __init__(self, out):
        super().__init__()
        self.out = out

    def say(self, test, outcome, reason=""):
        json.dump({"test": test.id(), "outcome": outcome, "reason": str(reason)}, self.out)
        self.out.write("\n")

    def startTest(self, test):
        """They choose attributes at random, and skip what a device refuses: the same each time."""
        super().startTest(test)
        random.seed(test.id())

    def addSuccess(self, test):
        self.say(test, "passed")

    def addSkip(self, test, reason):
        self.say(test, "skipped", reason)

    def addFailure(self, test, error):
        self.say(test, "failed", error[1])

    def addError(self, test, error):
        self.say(test, "error", error[1])


def main():
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    folder = sys.argv.pop(1)
    sys.path.insert(0, os.path.dirname(folder))
    sys.path.insert(0, folder)
    importlib.import_module("args_parser").parser.parse_args()
    tests = importlib.import_module(os.path.basename(folder))
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(Record(out))


if __name__ == "__main__":
    main()
