#!/usr/bin/env python3
"""huggingface_hub and tarn read the same repository of the fake Hub that tests/interop uses, and ask for the
same things."""
import os
import pathlib
import sys
import tempfile

import peer

HOME = tempfile.TemporaryDirectory()
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "interop"))

from store_servers import Files, Hub  # noqa: E402
from url_support import good, read, urlcat  # noqa: E402

HUB = Hub(Files())
os.environ.update(HF_ENDPOINT=HUB.url, HF_HOME=HOME.name, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1",
                  no_proxy="*")
peer.needs("huggingface_hub")

import huggingface_hub  # noqa: E402

REPO, NAMES = "org/private-set", ["train/0.tar", "train/a b+ü.tar", "train/deep/1.tar"]
ENV = {"HF_ENDPOINT": HUB.url, "HF_TOKEN": Hub.TOKEN, "HOME": HOME.name}
for name in NAMES:
    for rev in ("main", "refs/pr/7"):
        HUB.objects[REPO, rev, name] = (rev + name).encode()


def asked():
    """The paths, queries and tokens of requests, without those that only one of the two needs."""
    return sorted({(path, tuple(sorted((k, v.lower()) for k, v in query.items() if k != "expand")),
                    headers.get("Authorization") or headers.get("authorization"))
                   for _, path, query, headers in HUB.take_log()})


def files_are_downloaded_from_the_same_urls(_):
    for rev, given in ((None, ""), ("refs/pr/7", "@refs/pr/7")):
        for name in NAMES:
            HUB.take_log()
            path = huggingface_hub.hf_hub_download(REPO, name, repo_type="dataset", revision=rev, token=Hub.TOKEN)
            data, theirs = pathlib.Path(path).read_bytes(), asked()
            good(read(f"hf://datasets/{REPO}{given}/{name}", env=ENV), data)
            assert asked() == theirs, theirs
    assert not HUB.files.complaints, HUB.files.complaints


def folders_are_listed_with_the_same_requests(_):
    for HUB.page in (1000, 2):
        for folder, deep in (("train", False), ("train", True)):
            HUB.take_log()
            theirs = [(f"hf://datasets/{REPO}/{f.path}", f.size) for f in huggingface_hub.HfApi().list_repo_tree(
                REPO, folder, repo_type="dataset", recursive=deep, token=Hub.TOKEN) if hasattr(f, "size")]
            requests = asked()
            outcome = urlcat("list", f"deep={int(deep)}", f"hf://datasets/{REPO}/{folder}/", env=ENV)
            good(outcome)
            rows = [line.split("\t") for line in outcome.out.decode().splitlines()]
            assert [(url, int(size)) for size, _, url in rows] == sorted(theirs), (rows, theirs)
            assert asked() == requests, requests


peer.run(files_are_downloaded_from_the_same_urls, folders_are_listed_with_the_same_requests)
