"""Passwords and signed queries of URLs are never shown: not by any command, exception, warning,
repr or HTML. Every subcommand and every public callable is given URLs with a secret in them."""
import contextlib
import http.server
import importlib
import inspect
import io
import os
import subprocess
import tarfile
import threading
import traceback
import warnings

import pytest

import tarn
from tool import tool

SECRET = "SeCrEtWoRd"
COMMANDS = ["index", "info", "ls", "get", "extract", "verify", "pack", "convert", "split", "merge",
            "bench", "help"]
MODULES = ["tarn", "tarn.gnz", "tarn.iac", "tarn.itar", "tarn.torch", "tarn.wds", "tarn.errors"]


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("a.txt", "b.txt"):
            tar.addfile(tarfile.TarInfo(name))
    return out.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    """Knows archives, and stores nothing; other names do not exist."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.command == "PUT" or ".tar" in self.path and "new" not in self.path
        body = archive() if found else b"<html>no</html>"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture(name="host", scope="module")
def fixture_host():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def urls(host):
    """URLs of every kind, valid and not."""
    login = f"http://user:{SECRET}@{host}"
    return [f"{login}/x.tar", f"{login}/x{{0,1}}.tar", f"{login}/missing.gnz",
            f"{login}/missing.iac", f"{login}/new.tar", f"{login}/new_%d.tar", f"{login}/x",
            f"http://{host}/x.tar?X-Amz-Signature={SECRET}", f"http://{host}/x.gnz?sig={SECRET}",
            f"http://{host}/missing?token={SECRET}", f"http://user:{SECRET}@{host}:port/x.tar",
            f"s3://key:{SECRET}@bucket/x.tar", f"ftp://user:{SECRET}@{host}/x.tar",
            f"{login}/x.tar::{login}/x.tar", f"{login}/{{", f"http:/user:{SECRET}@{host}/x.tar",
            "az://container/missing.tar", f"hf://user:{SECRET}@datasets/o/n/x.tar"]


@pytest.fixture(autouse=True)
def fixture_quiet(monkeypatch, tmp_path, host):
    """Without proxies, with credentials that must not be shown either, in an empty folder."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("AWS_"):
            monkeypatch.delenv(name)
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET,
                   "STORAGE_EMULATOR_HOST": host, "GS_ACCESS_KEY_ID": SECRET, "GS_SECRET_ACCESS_KEY": SECRET,
                   "AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ENDPOINT": f"http://{host}",
                   "AZURE_STORAGE_SAS_TOKEN": f"sig={SECRET}", "HF_TOKEN": SECRET, "HF_ENDPOINT": f"http://{host}"}
    for name, value in credentials.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("GOPEN_VERBOSE", "1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_secret(command, host):
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    options = [[], ["--json"]]
    for url in urls(host):
        lines = [[url], ["k", url], [url, "k"], [url, url, "-o", "out"], [url, "-o", url]]
        lines += {"ls": [[url, "--order", "shuffle"]], "get": [[url, "a", "txt"]],
                  "bench": [[url, "--" + url]], "pack": [[".", "-o", url, "--overwrite"]],
                  "convert": [["x.tar", url], ["x.tar", "--output", url, "--fold", url]],
                  "merge": [["-o", "x.tar", url, url]]}.get(command, [])
        for line in lines:
            for more in options if line in ([url], [url, "-o", url]) else [[]]:
                done = subprocess.run([os.environ["TARN"], command, *line, *more], env=env,
                                      capture_output=True, stdin=subprocess.DEVNULL, check=False)
                told = (done.stdout + done.stderr).decode("utf-8", "replace")
                assert SECRET not in told, (line, more)
                assert told or done.returncode == 0, (line, more)


def told_about(made):
    """What a notebook or a log would show of an object of tarn. Strings, lists and so on are the
    caller's own arguments, or data."""
    if not type(made).__module__.startswith(("tarn", "_io")):
        return
    yield repr(made)
    yield str(made)
    for name in ("_repr_html_", "info"):
        with contextlib.suppress(Exception):
            part = getattr(made, name)
            yield str(part() if callable(part) else part)
    if hasattr(made, "read"):
        made.read(1)
    elif hasattr(made, "__next__") or "wds" in type(made).__module__:
        for _ in zip(range(3), made):
            pass
    if type(made).__name__ == "Dataset":
        yield repr(made.loader(batch=1))
        yield repr(tarn.mix(made, made))
    if hasattr(made, "close"):
        made.close()


def outcomes(call, *args, **more):
    """All texts that a call leads to."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            yield from told_about(call(*args, **more))
        except Exception as error:
            lines = traceback.TracebackException.from_exception(error)
            yield "".join(lines.format_exception_only())
            while error is not None:
                yield f"{error} {error!r} {error.args} {vars(error)} {getattr(error, 'filename', '')}"
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    yield from (str(warning.message) for warning in said)


# These take no path or URL; what is wrong with their arguments is quoted.
WITHOUT_PATHS = {
    "tarn.Packed", "tarn.Ragged", "tarn.iac.BrotliCodec", "tarn.iac.GzipCodec", "tarn.iac.PatientTextPairs",
    "tarn.iac.ZstdCodec", "tarn.iac.get_codec", "tarn.itar.EncoderDecoder", "tarn.itar.decoder_for",
    "tarn.itar.encoder_for",
    "tarn.wds.Decoder", "tarn.wds.imagehandler", "tarn.wds.WebLoader",
}


def callables():
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            full = f"{module_name}.{name}"
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if callable(value) and name[0] != "_" and not is_error and full not in WITHOUT_PATHS:
                yield pytest.param(value, id=full)


def takes_target(function):
    """Whether the second argument is a path, too."""
    try:
        name = list(inspect.signature(function).parameters)[1]
    except (IndexError, TypeError, ValueError):
        return False
    return any(word in name for word in ("path", "target", "out", "dest", "url", "file"))


@pytest.mark.parametrize("function", callables())
def test_no_function_shows_a_secret(function, host, capfd):
    """The arguments need not make sense."""
    for url in urls(host):
        seconds = [("x", url), ([url], url)] if takes_target(function) else []
        for args in ((url,), (url, "wb"), (url, {"x": 1}), ([url],), *seconds):
            for text in outcomes(function, *args):
                assert SECRET not in text, (args, text)
    out, err = capfd.readouterr()
    assert SECRET not in out + err


def test_options_show_no_secret(host, tmp_path, capfd):
    """Functions that need more arguments to get far."""
    from tarn import wds

    def writes(made):
        with made as out:
            out.write({"__key__": "a", "txt": b"x"})

    for number, url in enumerate(urls(host)):
        cache = tmp_path / str(number)
        tries = [
            (tarn.open, (url,), {"cache": cache}), (tarn.open, (url, "train"), {"cache": cache}),
            (tarn.open, (url,), {"cache": url}),
            (wds.WebDataset, (url,), {"shardshuffle": False, "handler": wds.warn_and_continue}),
            (wds.WebDataset, (url,), {"shardshuffle": False, "cache_dir": str(cache)}),
            (wds.WebDataset, (url,), {"shardshuffle": False, "verbose": True}),
            (wds.FileCache(str(cache)).get_file, (url,), {}),
            (tarn.open_source, (url,), {"compress": "gz", "retries": 0}),
            (tarn.open_source, (url, "wb"), {"overwrite": True}),
            (tarn.pack, ("x", url), {"overwrite": True}), (tarn.pack, ([url], "out"), {}),
            (writes, (lambda u=url: tarn.TarWriter(u, overwrite=True),), {}),
        ]
        for call, args, more in tries:
            if call is writes:
                call, args = (lambda make: writes(make())), args
            for text in outcomes(call, *args, **more):
                assert SECRET not in text, (args, more, text)
    for make in (tarn.ShardWriter, wds.ShardWriter, wds.TarWriter):
        for url in urls(host):
            for text in outcomes(lambda u=url, m=make: writes(m(u))):
                assert SECRET not in text, (make, url, text)
    out, err = capfd.readouterr()
    assert SECRET not in out + err


def test_an_unreachable_url_gives_one_clear_error():
    for url in (f"http://user:{SECRET}@127.0.0.1:1/x.tar", f"http://127.0.0.1:1/x.tar?sig={SECRET}"):
        with pytest.raises(OSError, match="127.0.0.1") as caught:
            tarn.open_source(url, retries=0)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_exception_hides_what_its_caller_put_into_it():
    for error in (tarn.UsageError(f"http://user:{SECRET}@h/x: no"), tarn.ExistsError(17, f"http://h/?s={SECRET}")):
        assert SECRET not in f"{error} {error!r} {error.args}" and "http://h/" in str(error)
    assert str(tarn.Error("a\0b: http://h/x?a=b \udc80")) == "a\\0b: http://h/x?... \udc80"


def test_what_is_shown_can_still_be_recognised(host, tmp_path):
    (tmp_path / "x.tar").write_bytes(archive())
    tool("index", tmp_path)
    data = tarn.open(f"http://user:{SECRET}@{host}/x.tar?sig={SECRET}", cache=tmp_path,
                     index=tmp_path / "x.taridx")
    assert f"http://{host}/x.tar?..." in repr(data) and f"http://{host}/x.tar" in data._repr_html_()
    with tarn.open_source(f"http://user:{SECRET}@{host}/x.tar") as source:
        assert f"http://{host}/x.tar" in repr(source)
