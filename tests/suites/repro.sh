#!/bin/sh
# The same bits from other builds: the short form of `make repro`.
exec tests/repro.sh smoke
