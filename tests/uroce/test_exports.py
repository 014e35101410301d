#!/usr/bin/python3
"""No object of ours reaches libibverbs or librdmacm: each of their functions is named in a list, and
liburoce defines those that can get one."""

import fnmatch
import os
import shutil
import subprocess
import unittest

from programs import pairs

LIBRARY = os.path.join(pairs.BUILD, "uroce", "api", "liburoce.so")
RDMACM_PROGRAM = shutil.which("rping")

# By library: the list of its functions.
LISTS = {"libibverbs": "functions.txt", "librdmacm": "cm_functions.txt"}

KINDS = {"done", "refused", "forwarded", "internal"}
OURS = {"done", "refused"}


def exports(path):
    """Names of the functions and variables that a library defines for others."""
    output = subprocess.run(
        ("nm", "-D", "--defined-only", path), check=True, capture_output=True, encoding="ascii"
    ).stdout
    fields = [line.split() for line in output.splitlines()]
    return {name.split("@")[0] for _, kind, name in fields if kind != "A"}


def path_of(library):
    """Where the dynamic loader finds it: for liburoce, or for a program that uses it."""
    user = RDMACM_PROGRAM if library == "librdmacm" else LIBRARY
    output = subprocess.run(("ldd", user), check=True, capture_output=True, encoding="utf-8").stdout
    return next(line.split()[2] for line in output.splitlines() if f"{library}.so" in line)


def functions(library):
    """(kind, name or pattern) of each line of its list."""
    path = os.path.join(pairs.ROOT, "uroce", "api", LISTS[library])
    with open(path, encoding="ascii") as file:
        lines = [line.split("#")[0].split() for line in file]
    return [tuple(line) for line in lines if line]


class Exports(unittest.TestCase):
    def test_each_function_is_named_once_and_with_a_kind(self):
        for library in LISTS:
            with self.subTest(library=library):
                names = [name for _, name in functions(library)]
                self.assertEqual(sorted(names), sorted(set(names)))
                self.assertEqual({kind for kind, _ in functions(library)} - KINDS, set())

    def test_each_function_of_the_libraries_is_named(self):
        for library in LISTS:
            patterns = [name for _, name in functions(library)]
            unknown = {
                name
                for name in exports(path_of(library))
                if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
            }
            with self.subTest(library=library):
                self.assertEqual(unknown, set(), "what shall become of these?")

    def test_each_name_is_a_function_of_its_library(self):
        for library in LISTS:
            real = exports(path_of(library))
            unused = [name for _, name in functions(library) if not fnmatch.filter(real, name)]
            with self.subTest(library=library):
                self.assertEqual(unused, [])

    def test_liburoce_defines_what_is_done_or_refused_and_nothing_else(self):
        wanted = {name for library in LISTS for kind, name in functions(library) if kind in OURS}
        self.assertEqual(exports(LIBRARY), wanted)

    def test_liburoce_does_not_need_librdmacm(self):
        output = subprocess.run(
            ("ldd", LIBRARY), check=True, capture_output=True, encoding="utf-8"
        ).stdout
        self.assertNotIn("librdmacm", output)


if __name__ == "__main__":
    pairs.main()
