"""The fields that soma.insn writes are those of the library's forms, in their order."""
import unittest

from soma import insn, kernel


class Forms(unittest.TestCase):
    def test_fields_are_those_of_the_library(self):
        for name, fields in insn.FORMS.items():
            self.assertEqual(fields.split(), kernel.fields(name), name)

    def test_every_operator_and_function_has_a_code(self):
        from soma import ops
        for name in set(ops._ALU.values()):
            self.assertIn(name, insn.ALU)
        for name in insn.ACT:
            self.assertEqual(ops.act(name), insn.ACT[name])


if __name__ == "__main__":
    unittest.main()
