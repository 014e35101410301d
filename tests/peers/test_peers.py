#!/usr/bin/python3
"""Programs of others on uroce and on the kernel's rxe, against docs/compatibility.md.

uroce is tried here, and once more beside rxe in a virtual machine. What comes of each program is in
the page; what is found otherwise fails, and is shown as a difference of the page. With --update as
the only argument the page is written anew from what is found.
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
from run_peers import MANY, RDMA_CORE
from sides import HERE

import pairs  # noqa: E402, found by sides

RUN = os.path.join(HERE, "run_peers.py")
MACHINE = os.path.join(HERE, "..", "rxe_vm", "run.sh")
MACHINE_PATIENCE = "900"

# In the machine: both at once, since each waits most of the time.
BOTH = """
for side in uroce rxe; do
	/usr/bin/python3 "$1" --on $side --json "$2/$side" & pids="$pids $!"
done
for pid in $pids; do wait $pid || exit; done
"""

NO_MW, NO_UC = "memory windows are not there", "UC queue pairs are not there"

# Tests of rdma-core that pass on rxe and not on uroce, or that fail there, and why. One that comes to
# pass has to go from here, too.
KNOWN_GAPS = {
    "test_device.DeviceTest.test_query_gid_ex_bad_flow": "no entry of its GID table is empty",
    "test_mr.MRTest.test_mr_rereg_addr": "ibv_rereg_mr leaves the queue pair in an error",
    "test_mr.MRTest.test_mr_rereg_pd": "ibv_rereg_mr leaves the queue pair in an error",
    "test_mr.MWTest.test_invalidate_mw_type1": NO_MW,
    "test_mr.MWTest.test_mw_type1": NO_MW,
    "test_mr.MWTest.test_mw_type2": NO_MW,
    "test_mr.MWTest.test_mw_type2_invalidate_dealloc": NO_MW,
    "test_mr.MWTest.test_mw_type2_invalidate_local": NO_MW,
    "test_mr.MWTest.test_mw_type2_invalidate_remote": NO_MW,
    "test_mr.MWTest.test_reg_mw_wrong_type": NO_MW,
    "test_qpex.QpExTestCase.test_qp_ex_rc_bind_mw": NO_MW,
    "test_qp.QPTest.test_create_uc_qp_ex_no_attr": NO_UC,
    "test_qp.QPTest.test_create_uc_qp_ex_with_attr": NO_UC,
    "test_qp.QPTest.test_create_uc_qp_no_attr": NO_UC,
    "test_qp.QPTest.test_create_uc_qp_with_attr": NO_UC,
    "test_qp.QPTest.test_query_uc_qp": NO_UC,
    "test_shared_pd.SharedPDTestCase.test_imported_rc_ex_rdma_write": "a device is not imported",
}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_here(folder):
    """What comes of everything on uroce."""
    path = os.path.join(folder, "here")
    subprocess.run([sys.executable, RUN, "--on", "uroce", "--json", path], check=True)
    return load(path)


def run_in_machine(folder):
    """What comes of everything on both, in one boot; {side: found}."""
    variables = ("--env", "PYTHONDONTWRITEBYTECODE=1", "--env", f"BUILD={pairs.BUILD}")
    options = ("--timeout", MACHINE_PATIENCE, "--memory", "3072", "--out", folder, *variables)
    subprocess.run([MACHINE, *options, "sh", "-c", BOTH, "sh", RUN, folder], check=True)
    return {side: load(os.path.join(folder, side)) for side in document.SIDES}


def versions_of(found):
    return {package: of_package["version"] for package, of_package in found.items()}


def cells_of(found):
    """What was found, {side: found}, and of a side that was not tried, what the page says."""
    known = document.read()
    return {
        side: document.cells_of(found[side]) if side in found else known[side]
        for side in document.SIDES
    }


def page_of(found):
    return document.make(cells_of(found), versions_of(found["uroce"]))


class Peers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="peers.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_uroce(self):
        found = run_here(self.folder)
        self.check({"uroce": found})

    def test_both_in_one_boot(self):
        self.check(run_in_machine(self.folder))

    def check(self, found):
        for side, of_side in found.items():
            self.check_rows(side, of_side)
        with self.subTest("rdma-core's tests"):
            self.check_tests(cells_of(found))
        with open(PATH, encoding="utf-8") as file:
            self.assertMultiLineEqual(file.read(), page_of(found))

    def check_rows(self, side, found):
        """Each row ends as the table says."""
        for package, rows in ROWS.items():
            for row in rows:
                with self.subTest(side=side, row=row.name):
                    self.assertEqual(found[package]["runs"][row.name], row.expected(side))

    def check_tests(self, cells):
        """None of rdma-core's fails on uroce, and what passes on rxe passes there."""
        gaps = {
            name
            for (package, name), cell in cells["uroce"].items()
            if package == RDMA_CORE and not name.endswith(MANY) and not is_good(cell)
            if not cell.startswith("skipped") or is_good(cells["rxe"].get((package, name)))
        }
        self.assertEqual(gaps, set(KNOWN_GAPS))


def update():
    with tempfile.TemporaryDirectory(prefix="peers.") as folder:
        page = page_of(run_in_machine(folder))
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        pairs.main()
