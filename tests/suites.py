"""The suites, and which flavour of a build runs which of them.

A name is `unit/test_x`, `fuzz/replay_x`, `cli/x`, `interop/test_x` and so on; the flavour comes
before it in reports (`asan: cli/index`). What is left out of a flavour is named here, with the
reason.
"""
import pathlib
import shlex

from schedule import Job

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"  # has the real packages the interop tests run against
PEERS = ROOT / ".venv-peers/bin/python"  # has large packages as well
CORPUS = ROOT / "build-corpus"
KINDS = ("unit", "fuzz", "cli", "interop", "faults", "hostile", "python", "docs")

# These start first, so that no long one is left alone at the end.
LONG = (
    "python/test_docs", "python/test_chains", "interop/test_tar_programs", "hostile/test_limits",
    "faults/test_write", "faults/test_calls", "docs/test_demo", "docs/test_guides",
    "interop/test_http", "interop/test_fetch", "interop/test_s3", "interop/test_store_tasks", "python/test_wds_reader", "python/test_torch",
    "unit/test_memory", "unit/test_filters", "unit/test_loader_memory", "faults/test_processes",
    "interop/test_image", "interop/test_png", "interop/test_pack", "interop/test_webdataset_writer",
    "unit/test_dataset", "hostile/test_changed", "unit/test_cold", "unit/test_damage_fold",
)

# The sanitizers see C code. These suites judge results (against other packages, by order, by
# text, by what a kill or a power failure leaves on the disk), and the same C code runs in the
# suites that stay.
NOT_ASAN = {
    "faults/test_power", "faults/test_power_cache", "faults/test_write", "hostile/test_execution", "python/test_torch",
    "python/test_wds_names",
    "interop/test_braces", "interop/test_dataset_reference", "interop/test_formats",
    "interop/test_iac", "interop/test_order", "interop/test_random", "interop/test_reference",
    "interop/test_webdataset_reading", "interop/test_webdataset_writer",
    "docs/test_demo", "docs/test_guides", "docs/test_links",
}
# These unit programs start no thread (strace -f -e trace=clone,clone3 shows none).
NOT_TSAN = {
    "unit/test_array", "unit/test_arrow", "unit/test_calls", "unit/test_chain",
    "unit/test_coders", "unit/test_collect", "unit/test_costs", "unit/test_damage_fields", "unit/test_fetch",
    "unit/test_damage_files", "unit/test_damage_fold", "unit/test_damage_repair",
    "unit/test_damage_tables", "unit/test_edges", "unit/test_fields", "unit/test_filters",
    "unit/test_gnz", "unit/test_gnz_read", "unit/test_headers", "unit/test_iac_damage",
    "unit/test_iac_write", "unit/test_json", "unit/test_memory", "unit/test_message",
    "unit/test_null", "unit/test_order_random", "unit/test_order_state", "unit/test_pack",
    "unit/test_parse", "unit/test_place", "unit/test_png", "unit/test_random",
    "unit/test_recover", "unit/test_regular", "unit/test_remote_fold", "unit/test_s3", "unit/test_samples",
    "unit/test_schedule", "unit/test_schema", "unit/test_settle", "unit/test_shardcache", "unit/test_stream", "unit/test_structs",
    "unit/test_tar", "unit/test_urls",
    "unit/test_oom_read", "unit/test_oom_write",  # ThreadSanitizer's malloc cannot be made to fail
}

# This one demands that io_uring is used, which qemu does not have.
NOT_QEMU = {"unit/test_cold"}

# What `make check` leaves to `make test`: type checking and every example, torch, the other
# package's own programs, leaks and limits, measuring, and large compressed streams.
NOT_QUICK = {
    "python/test_docs", "python/test_torch", "python/test_iac_real", "python/test_files_leaks",
    "python/test_wds_reader", "python/test_limits", "python/test_bench", "unit/test_filters", "cli/bench",
}


def programs(build, folder, start, prefix):
    """The program of every source, built or not: one that was not built fails."""
    for source in sorted((ROOT / folder).glob(start + "*.c")):
        yield build / "tests" / (prefix + source.stem.removeprefix(start))


def commands(build, kind, wrap=()):
    """(name, command) of every suite of a kind."""
    if kind == "unit":
        for program in programs(build, "tests/unit", "test_", "test_"):
            yield f"unit/{program.name}", [*wrap, str(program)]
    elif kind == "fuzz":
        for program in programs(build, "fuzz", "fuzz_", "replay_"):
            target = program.name.removeprefix("replay_")
            yield f"fuzz/{program.name}", [*wrap, str(program), str(CORPUS / target)]
    elif kind == "cli":
        for script in sorted((ROOT / "tests/cli").glob("*.sh")):
            yield f"cli/{script.stem}", [str(PYTHON), str(ROOT / "tests/cli/run.py"), script.stem]
    elif kind == "python":
        for script in sorted((ROOT / "tests/python").glob("test_*.py")):
            yield f"python/{script.stem}", [str(PYTHON), str(ROOT / "tests/python/run.py"), str(script)]
    elif kind == "peers":
        for script in sorted((ROOT / "tests/peers").glob("test_*.py")):
            yield f"peers/{script.stem}", [str(PEERS), str(script)]
    elif kind in KINDS:
        for script in sorted((ROOT / "tests" / kind).glob("test_*.py")):
            yield f"{kind}/{script.stem}", [str(PYTHON), str(script)]
    else:
        raise SystemExit(f"run.py: no suites of kind {kind} (there are {', '.join(KINDS)})")


def environment(build):
    return {"CMOCKA_MESSAGE_OUTPUT": "TAP", "TARN": str(build / "tarn"), "TARN_BUILD": str(build),
            "TARN_DATA": str(ROOT / "tests/data"), "TARN_CORPUS": str(CORPUS)}


def suites(build, kinds=KINDS, wrap="", flavour="", more=(), leave_out=(), needs=()):
    """Jobs for the suites of some kinds in a build folder, the long ones first."""
    jobs = [Job(f"{flavour}: {name}" if flavour else name, command, "suite",
                {**environment(build), **dict(more)}, tuple(needs))
            for kind in kinds for name, command in commands(build, kind, shlex.split(wrap))
            if name not in leave_out]
    rank = {name: number for number, name in enumerate(LONG)}
    return sorted(jobs, key=lambda job: rank.get(job.name.split(": ")[-1], len(LONG)))
