"""The fields that soma.insn writes are those of the library's forms, in their order."""
import inspect
import unittest

import nki.isa as nisa
from soma import insn, kernel, words


class Forms(unittest.TestCase):
    def test_fields_are_those_of_the_library(self):
        for name, fields in insn.FORMS.items():
            self.assertEqual(fields.split(), [f for f, _ in kernel.form(name)], name)

    def test_what_messages_call_an_operand_is_an_argument_of_the_call(self):
        for name, (call, operands) in words._CALLS.items():
            self.assertLessEqual(set(operands), set(dict(kernel.form(name))), name)
            arguments = inspect.signature(getattr(nisa, call)).parameters
            self.assertLessEqual(set(operands.values()), set(arguments), name)

    def test_every_operator_and_function_has_a_code(self):
        from soma import ops
        for name in set(ops._ALU.values()):
            self.assertIn(name, insn.ALU)
        for name in insn.ACT:
            self.assertEqual(ops.act(name), insn.ACT[name])


if __name__ == "__main__":
    unittest.main()
