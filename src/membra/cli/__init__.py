"""The command line: one file a group of commands. They parse, call, and print."""

from membra.cli.commands import cli as cli
from membra.cli.commands import main as main
