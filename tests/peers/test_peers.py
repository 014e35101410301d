#!/usr/bin/python3
"""Programs of others on uroce and on the kernel's rxe, against docs/compatibility.md.

uroce is tried here, rxe in a virtual machine. What comes of each program is in the page; what is found
otherwise fails, and is shown as a difference of the page. test_both_in_one_boot, by its name, tries
uroce's programs in the machine, too. With --update as the only argument the page is written anew from
what is found in one boot.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import document
from document import PATH, is_good
from rows import ROWS
import run_peers
from run_peers import MANY, RDMA_CORE
from sides import HERE

import pairs  # noqa: E402, found by sides

RUN = os.path.join(HERE, "run_peers.py")
MACHINE = os.path.join(HERE, "..", "rxe_vm", "run.sh")
MACHINE_PATIENCE = "1200"

# In the machine, both at once. Not rdma-core's tests on uroce: emulated, they take many minutes.
RXE = '/usr/bin/python3 "$1" --on rxe --json "$2/rxe"'
BOTH = f"""
/usr/bin/python3 "$1" --on uroce --json "$2/uroce" --packages {" ".join(ROWS)} & uroce=$!
{RXE} && wait $uroce
"""


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_here(folder):
    """What comes of everything on uroce."""
    path = os.path.join(folder, "here")
    subprocess.run([sys.executable, RUN, "--on", "uroce", "--json", path], check=True)
    return load(path)


def run_in_machine(folder, script, *sides):
    """What comes of a script on these sides in one boot; {side: found}."""
    variables = ("--env", "PYTHONDONTWRITEBYTECODE=1", "--env", f"BUILD={pairs.BUILD}")
    options = ("--timeout", MACHINE_PATIENCE, "--memory", "3072", "--out", folder, *variables)
    subprocess.run([MACHINE, *options, "sh", "-c", script, "sh", RUN, folder], check=True)
    return {side: load(os.path.join(folder, side)) for side in sides}


def run_both(folder):
    return run_in_machine(folder, BOTH, *document.SIDES)


def cells_of(found):
    """What was found, {side: found}, and of what was not tried, what the page says."""
    cells = document.read()
    for side, of_side in found.items():
        untried = {key: cell for key, cell in cells[side].items() if key[0] not in of_side}
        cells[side] = {**untried, **document.cells_of(side, of_side)}
    return cells


def page_of(found):
    versions = {package: run_peers.version(package) for package in run_peers.PACKAGES}
    return document.make(cells_of(found), versions)


class Peers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="peers.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_uroce(self):
        self.check({"uroce": run_here(self.folder)})

    def test_rxe(self):
        self.check(run_in_machine(self.folder, RXE, "rxe"))

    def test_both_in_one_boot(self):
        self.check(run_both(self.folder))

    def check(self, found):
        for side, of_side in found.items():
            self.check_rows(side, of_side)
        with self.subTest("rdma-core's tests"):
            self.check_tests(cells_of(found))
        with open(PATH, encoding="utf-8") as file:
            self.assertMultiLineEqual(file.read(), page_of(found))

    def check_rows(self, side, found):
        """Each row ends as the table says."""
        for package in found.keys() & ROWS.keys():
            for row in ROWS[package]:
                with self.subTest(side=side, row=row.name):
                    self.assertEqual(found[package][row.name], row.expected(side))

    def check_tests(self, cells):
        """None of rdma-core's fails on uroce, and what passes on rxe passes there."""
        gaps = {
            name
            for (package, name), cell in cells["uroce"].items()
            if package == RDMA_CORE and not name.endswith(MANY) and not is_good(cell)
            if not cell.startswith("skipped") or is_good(cells["rxe"].get((package, name)))
        }
        self.assertEqual(gaps, set())


def update():
    with tempfile.TemporaryDirectory(prefix="peers.") as folder:
        here, in_machine = run_here(folder), run_both(folder)
        page = page_of({**in_machine, "uroce": {**here, **in_machine["uroce"]}})
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        pairs.main()
