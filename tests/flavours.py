"""The flavours of a test run: what each builds, and which suites it runs."""
from schedule import Job
from suites import KINDS, NOT_ASAN, NOT_QEMU, NOT_QUICK, NOT_TSAN, ROOT, suites

PLAIN, ASAN, TSAN, CLANG, ARM64 = (ROOT / f"build-{name}" for name in ("plain", "asan", "tsan", "clang", "arm64"))
ASAN_ENV = {"ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
TSAN_ENV = {"TSAN_OPTIONS": "halt_on_error=1"}
QEMU = f"qemu-aarch64-static -L {ROOT}/build-arm64-root"
MEMCHECK = "valgrind -q --error-exitcode=9 --leak-check=full"


def build(name, *targets):
    return Job(f"build {name}", [str(ROOT / "scripts/build.sh"), name, *targets], "build")


def script(name, path, *args, needs=()):
    return Job(name, [str(ROOT / path), *args], "test", {}, needs)


def of(name, folder, kinds=KINDS, more=(), leave_out=(), wrap="", match=""):
    """A build and its suites."""
    jobs = suites(folder, kinds, wrap, name, more, leave_out, [f"build {folder.name.removeprefix('build-')}"])
    return [build(folder.name.removeprefix("build-"))] + [job for job in jobs if match in job.name]


def quick():
    """The suites that answer in a minute."""
    return [*format_check(), *words(),
            *of("plain", PLAIN, ("unit", "cli", "python"), {"TARN_CHAINS": "200"}, NOT_QUICK)]


def format_check():
    return [script("format", "scripts/format.sh", "--check"), script("runner", "tests/check_runner.py")]


def words():
    return [script("words", "scripts/words.py", "--check"), script("words find each phrase", "scripts/words.py", "--test")]


def fuzz():
    return [build("fuzz"), Job("fuzz", [str(ROOT / "scripts/fuzz.sh"), "short"], "suite", {}, ("build fuzz",))]


def install():
    return [script("install", "tests/install.sh"), script("wheel", "tests/wheel.sh")]


def docs():
    return [build("plain"), script("docs site", "scripts/docs.py", needs=("build plain",))]


def tsan():
    """Builds the programs that it runs, and no others."""
    jobs = of("tsan", TSAN, ("unit",), TSAN_ENV, NOT_TSAN)
    return [build("tsan", *(f"tests/{job.name.split('/')[-1]}" for job in jobs[1:])), *jobs[1:]]


def faults():
    """Needs TARN_FULL=1 in the environment to be in full."""
    full = {"TARN_FULL": "1"}
    return [*of("plain", PLAIN, ("unit",), full, match="oom"), *of("asan", ASAN, ("unit",), {**ASAN_ENV, **full}, match="oom"),
            *of("tsan", TSAN, ("unit",), {**TSAN_ENV, **full}, match="threads"), *of("plain", PLAIN, ("faults",), full)]


FLAVOURS = {
    "check": quick,
    "format": format_check,
    "words": words,
    "plain": lambda: of("plain", PLAIN, more={"TARN_CHAINS": "10000"}),
    "asan": lambda: of("asan", ASAN, more={"TARN_INTEROP_COUNT": "100", "TARN_CHAINS": "100", **ASAN_ENV},
                       leave_out=NOT_ASAN),
    "tsan": tsan,
    "fuzz": fuzz,
    "docs": docs,
    "install": install,
    "clang": lambda: of("clang", CLANG, ("unit",)),
    "arm64": lambda: of("arm64", ARM64, ("unit",), wrap=QEMU, leave_out=NOT_QEMU),
    "peers": lambda: of("plain", PLAIN, ("peers",), {"PYTHONPATH": str(PLAIN / "python")}),
    "valgrind": lambda: of("memcheck", PLAIN, ("unit",), wrap=MEMCHECK),
    "hostile": lambda: of("plain", PLAIN, ("hostile",), {"TARN_FULL": "1"}),
    "faults": faults,
}


def jobs_of(names):
    """The jobs of some flavours: each build once, one after the other and before all else."""
    jobs = {job.name: job for name in names for job in FLAVOURS[name]()}
    builds = [job for job in jobs.values() if job.kind == "build"]
    for before, job in zip(builds, builds[1:]):
        job.needs = (before.name,)
    return [*builds, *(job for job in jobs.values() if job.kind != "build")]
