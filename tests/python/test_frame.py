"""The package as a whole: import cost, exceptions, the command."""
import errno
import pickle
import subprocess
import sys

import pytest
from tool import tool

import tarn
from tarn import _tarn, errors


def run(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True, **more).stdout


def test_import_brings_in_neither_torch_nor_pyarrow_nor_pillow():
    out = run("import sys, tarn; print([m for m in ('torch', 'pyarrow', 'PIL', 'json') "
              "if m in sys.modules])")
    assert out == "[]\n"


def test_only_public_names_are_shown():
    modules = {"gnz", "iac", "itar", "ray", "torch", "wds"}
    assert set(dir(tarn)) == {*tarn.__all__, *modules, "__version__"}
    assert not [name for name in dir(tarn) if name.startswith("_") and name != "__version__"]
    assert all(hasattr(tarn, name) for name in tarn.__all__)
    with pytest.raises(AttributeError):
        tarn.dataset  # noqa: B018


def test_help_works_without_optional_packages():
    code = ("import sys\nsys.modules.update(dict.fromkeys(['torch', 'pyarrow', 'PIL', 'webdataset']))\n"
            "import inspect, pydoc, tarn\n"
            "print([name for name, _ in inspect.getmembers(tarn) if name in ('torch', 'wds')])\n"
            "print(pydoc.render_doc(tarn)[:42])\n"
            "try: tarn.torch\nexcept ModuleNotFoundError as error: print(error)")
    out = run(code)
    assert out.startswith("['wds']\nPython Library Documentation: package tarn") and "torch" in out


def test_version_is_the_librarys():
    assert tarn.__version__ == _tarn.__version__
    assert tool("--version") == f"tarn {tarn.__version__}\n"


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "tarn", "--version"], capture_output=True,
                          text=True)
    assert (done.returncode, done.stdout) == (0, f"tarn {tarn.__version__}\n")
    done = subprocess.run([sys.executable, "-m", "tarn", "frob"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown subcommand frob" in done.stderr


BUILT_IN = {
    errors.UsageError: ValueError, errors.NoMemoryError: MemoryError,
    errors.InputOutputError: OSError, errors.AccessError: PermissionError,
    errors.FormatError: ValueError, errors.TruncatedError: EOFError,
    errors.UnsupportedError: ValueError, errors.LimitError: ValueError,
    errors.PathNotFoundError: FileNotFoundError, errors.KeyNotFoundError: KeyError,
    errors.AmbiguousError: ValueError, errors.StaleError: ValueError,
    errors.ChecksumError: ValueError, errors.CancelledError: RuntimeError,
    errors.ExistsError: FileExistsError, errors.PartExistsError: FileExistsError, errors.NotFoundError: Exception,
    errors.WorkerError: RuntimeError,
}


def test_every_exception_is_an_error_and_a_built_in():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, tarn.Error)
        assert getattr(tarn, name) is kind
        if kind is not tarn.Error:
            assert issubclass(kind, BUILT_IN[kind])


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.__name__)
def test_exceptions_tell_their_message_and_pickle(kind):
    error = kind("a.tar: offset 512: no header")
    error.path, error.offset, error.code = "a.tar", 512, "format"
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is kind
    assert str(other) == "a.tar: offset 512: no header"
    assert (other.path, other.offset, other.code) == ("a.tar", 512, "format")


def test_class_of_a_status():
    assert errors._class_of("not-found", 0, True) is errors.KeyNotFoundError
    assert errors._class_of("not-found", 0, False) is errors.PathNotFoundError
    for key in (False, True):
        assert errors._class_of("no-file", errno.ENOENT, key) is errors.PathNotFoundError
        assert errors._class_of("no-fold", 0, key) is errors.PathNotFoundError
        assert errors._class_of("no-sample", 0, key) is errors.KeyNotFoundError
        assert errors._class_of("no-field", 0, key) is errors.KeyNotFoundError
    assert errors._class_of("io", errno.EACCES, False) is errors.AccessError
    assert errors._class_of("io", errno.EIO, False) is errors.InputOutputError


def test_a_broken_field_tells_where():
    with pytest.raises(tarn.FormatError) as caught:
        _tarn.decode("json", b"[1, 2")
    assert caught.value.offset == 5
    assert caught.value.code == "format"
    assert "expected ',' or ']'" in str(caught.value)
