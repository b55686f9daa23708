"""Helpers that scripts import from the vendor's compiler."""
