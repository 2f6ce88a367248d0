"""Writes documents from a pipeline of datatrove as one fold; each task of the pipeline is a task.

    python datatrove_writer.py DOCUMENTS FOLDER TASKS

DOCUMENTS is a folder of .jsonl files. Run it again if it was interrupted.
"""
import sys

import tarn
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader

LETTERS = str.maketrans("./", "--")  # of an id that a key must not have


class FoldWriter(PipelineStep):
    """Writes the documents of a task as a part of a fold. Commit when all tasks are complete."""

    type = "💽 - WRITER"
    name = "tarn"

    def __init__(self, folder, job="datatrove"):
        super().__init__()
        self.folder, self.job = folder, job

    def run(self, data, rank=0, world_size=1):
        try:
            out = tarn.DatasetWriter(self.folder, task=(rank, world_size), job=self.job)
        except tarn.PartExistsError:  # the task was interrupted after it had written its part
            return
        with out:
            for document in data:
                with self.track_time():
                    out.write({"__key__": document.id.translate(LETTERS), "txt": document.text,
                               "json": {"id": document.id, **document.metadata}})
                self.update_doc_stats(document)
                yield document


if __name__ == "__main__":
    documents, folder, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    LocalPipelineExecutor([JsonlReader(documents), LambdaFilter(lambda document: len(document.text) > 3),
                           FoldWriter(folder)], tasks=tasks, workers=2, logging_dir=folder + ".logs").run()
    print(tarn.commit(folder).samples, "samples")
