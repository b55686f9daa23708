"""Every public name of NKI is there; what is refused says so; the README's tables are up to
date."""
import importlib
import os
import sys
import unittest

import neuronxcc.nki  # noqa: F401
import nki
from soma import launch, record
from soma.errors import NotBuilt

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(nki.__file__)), ".."))
import table  # noqa: E402


def find(module, name):
    parts = module.split(".")
    x = importlib.import_module(parts[0])
    for p in parts[1:] + [name]:
        x = getattr(x, p)
    return x


class Names(unittest.TestCase):
    def test_every_public_name_is_there(self):
        missing = []
        for module, name in table.public():
            try:
                find(module, name)
            except AttributeError:
                missing.append("%s.%s" % (module, name))
        self.assertEqual(missing, [])
        self.assertGreater(len(table.public()), 300)

    def test_what_is_refused_raises_not_implemented_with_its_name(self):
        rec = record.Recorder(launch.plain_machine("trn2"), "trn2")
        rec.cores = 2
        with record.building(rec):
            for full in table.refusals():
                module, name = full.rsplit(".", 1)
                with self.assertRaises(NotBuilt, msg=full) as caught:
                    find(module, name)(None, None)
                self.assertIsInstance(caught.exception, NotImplementedError)
                self.assertIn(name, str(caught.exception))

    def test_the_tables_of_the_readme_are_up_to_date(self):
        with open(os.path.join(table.HERE, "README.md")) as f:
            text = f.read()
        self.assertIn(table.BEGIN + "\n" + table.table(), text)


if __name__ == "__main__":
    unittest.main()
