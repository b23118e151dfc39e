"""Completion scripts, one file a shell: all words are in them, so that nothing is run for a key."""

from spillcast.cli.shells.bash import bash_script
from spillcast.cli.shells.fish import fish_script
from spillcast.cli.shells.zsh import zsh_script

__all__ = ["bash_script", "fish_script", "zsh_script"]
