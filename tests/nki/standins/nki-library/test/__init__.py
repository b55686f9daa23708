"""What the tests of nki-library's collectives import of its own `test`; they run in worlds here."""
