"""The command with a terminal or a closed pipe as its output."""
import os
import signal
import subprocess
import sys


def test_the_command_that_pip_installs_ends_silently_when_its_reader_has_left(birds):
    """Python ignores SIGPIPE, so this would be an error message otherwise."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "tarn", "ls", str(birds)], stdout=writer,
                          stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
