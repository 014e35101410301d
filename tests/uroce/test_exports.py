#!/usr/bin/python3
"""No object of ours reaches libibverbs: each of its functions is named in functions.txt, and liburoce
defines those that can get one."""

import fnmatch
import os
import subprocess
import unittest

from programs import pairs

LIBRARY = os.path.join(pairs.BUILD, "uroce", "api", "liburoce.so")
FUNCTIONS = os.path.join(pairs.ROOT, "uroce", "api", "functions.txt")

KINDS = {"done", "refused", "forwarded", "internal"}
OURS = {"done", "refused"}


def exports(path):
    """Names of the functions and variables that a library defines for others."""
    output = subprocess.run(
        ("nm", "-D", "--defined-only", path), check=True, capture_output=True, encoding="ascii"
    ).stdout
    fields = [line.split() for line in output.splitlines()]
    return {name.split("@")[0] for _, kind, name in fields if kind != "A"}


def real_library():
    """Where the dynamic loader finds libibverbs."""
    output = subprocess.run(
        ("ldd", LIBRARY), check=True, capture_output=True, encoding="utf-8"
    ).stdout
    return next(line.split()[2] for line in output.splitlines() if "libibverbs.so" in line)


def functions():
    """(kind, name or pattern) of each line."""
    with open(FUNCTIONS, encoding="ascii") as file:
        lines = [line.split("#")[0].split() for line in file]
    return [tuple(line) for line in lines if line]


class Exports(unittest.TestCase):
    def test_each_function_is_named_once_and_with_a_kind(self):
        names = [name for _, name in functions()]
        self.assertEqual(sorted(names), sorted(set(names)))
        self.assertEqual({kind for kind, _ in functions()} - KINDS, set())

    def test_each_function_of_libibverbs_is_named(self):
        patterns = [name for _, name in functions()]
        unknown = {
            name
            for name in exports(real_library())
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        }
        self.assertEqual(unknown, set(), "what shall become of these?")

    def test_each_name_is_a_function_of_libibverbs(self):
        real = exports(real_library())
        unused = [name for _, name in functions() if not fnmatch.filter(real, name)]
        self.assertEqual(unused, [])

    def test_liburoce_defines_what_is_done_or_refused_and_nothing_else(self):
        wanted = {name for kind, name in functions() if kind in OURS}
        self.assertEqual(exports(LIBRARY), wanted)


if __name__ == "__main__":
    pairs.main()
