"""The names of tarn.wds next to those of the real webdataset, module by module: every public name,
the parameters and defaults of functions and methods, and the bases of exceptions. What differs is
listed here and in docs/compat.md."""
import importlib
import inspect
import types

import pytest

real = pytest.importorskip("webdataset")
pytest.importorskip("numpy")

MODULES = ("", "autodecode", "cache", "compat", "extradatasets", "filters", "gopen", "handlers", "mix",
           "pipeline", "pytorch", "shardlists", "tariterators", "tenbin", "utils", "writer")

# Names that programs have no use for: helpers of one function, and what never worked.
MISSING = {
    "cache.get_filetype",  # runs the program `file`; magic_filetype does not
    "gopen.gopen_htgs",  # runs curl on gs://, which curl does not know
    "pipeline.add_length_method",  # len() needs no other class
    "tenbin.check_acceptable_input_type",  # never called, and refuses what it should accept
    "utils.lookup_sym", "utils.safe_eval",
    "writer.gopen",  # of the module gopen
    "Pipe.check_status", "Pipe.readLine", "Pipe.wait_for_child",
    "WebDataset.create_url_iterator", "WebDataset.update_cache_info",
}
DIFFERENT = {
    "filters.info",  # the default is sys.stderr when it is used, not when the module is imported
    "gopen.Pipe",  # mode has no default that works in webdataset
    "Pipe.read", "Pipe.write",  # (size) and (data) instead of anything
    "ShardWriter.write", "TarWriter.write",  # in C: positional only
    "ShardWriter.__exit__", "TarWriter.__exit__", "WebDataset.__exit__", "Pipe.__exit__",  # names
}


def module(package, name):
    return importlib.import_module(f"{package}.{name}" if name else package)


def public(of):
    """The names that a module defines: functions, classes and values, not what it imports."""
    for name, value in vars(of).items():
        if name.startswith("_") or isinstance(value, types.ModuleType) or name in ("annotations",):
            continue
        home = getattr(value, "__module__", None)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and not str(home).startswith("webdataset"):
            continue
        if home == "typing" or name == "PIPE":
            continue
        yield name, value


def parameters(function):
    """[(name, kind, default)] without what takes any further arguments; None if unknown."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind, shown(p.default)) for p in found]


def shown(default):
    if isinstance(default, (types.FunctionType, type, types.ModuleType)):
        return default.__name__
    if isinstance(default, list) and default and isinstance(default[0], tuple):
        return [(pattern, function.__name__) for pattern, function in default]
    return default


def same(theirs, ours):
    """Whether a call that one accepts means the same to the other. Ours may have more keywords."""
    expected, found = parameters(theirs), parameters(ours)
    if expected is None or found is None:  # a function in C, such as itertools.islice
        return expected is None
    known = {name for name, _, _ in expected}
    return [p for p in found if p[0] in known or p[1] != inspect.Parameter.KEYWORD_ONLY
            and p[1] != inspect.Parameter.VAR_KEYWORD] == expected


def differences(name, theirs, ours):
    """Names of what is missing or different in a function or class."""
    if not callable(theirs):
        return
    if not same(theirs, ours):
        yield name, "different"
    if not isinstance(theirs, type):
        return
    for method, function in vars(theirs).items():
        full = f"{name.rpartition('.')[2]}.{method}"
        if not callable(function) or method.startswith("_") and method != "__exit__":
            continue
        if not hasattr(ours, method):
            yield full, "missing"
        elif not same(getattr(theirs, method), getattr(ours, method)):
            yield full, "different"


def test_every_name_is_there_with_its_parameters():
    missing, different = set(), set()
    for part in MODULES:
        mine = module("tarn.wds", part)
        for name, theirs in public(module("webdataset", part)):
            full = f"{part}.{name}" if part else name
            if not hasattr(mine, name):
                missing.add(full)
                continue
            for what, how in differences(full, theirs, getattr(mine, name)):
                (missing if how == "missing" else different).add(what)
    home = {name.rpartition(".")[2]: name for name in DIFFERENT if name[0].islower()}
    different = {home.get(name.rpartition(".")[2], name) if name[0].islower() or "." not in name
                 else name for name in different}
    assert missing == MISSING
    assert different == DIFFERENT


def test_the_version_can_be_compared():
    import packaging.version

    from tarn import wds

    assert packaging.version.parse(wds.__version__) == packaging.version.parse(real.__version__)


def test_exceptions_can_be_caught_as_theirs():
    from tarn import wds

    assert issubclass(wds.ReadError, module("webdataset", "tariterators").tarfile.ReadError)
    assert issubclass(wds.DecodingError, Exception) and issubclass(wds.NotAllowedError, ValueError)
    assert issubclass(wds.utils.ObsoleteException, Exception)
