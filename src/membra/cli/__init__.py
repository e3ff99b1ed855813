"""The command line: one file per group of commands, which parse, call and print."""

from membra.cli.commands import cli as cli
from membra.cli.commands import main as main
