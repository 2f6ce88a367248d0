"""Writes the lines of text files as samples with Spark; each partition is a task.

    spark-submit spark_writer.py LINES FOLDER
"""
import sys
import uuid

import tarn


def write_fold(samples, folder):
    """Writes an RDD of samples as a fold. Spark runs tasks again whose worker died, and with speculation
    also runs them twice at once; one part remains of each."""
    tasks, job = samples.getNumPartitions(), uuid.uuid4().hex

    def write(task, part):
        try:
            out = tarn.DatasetWriter(folder, task=(task, tasks), job=job)
        except tarn.PartExistsError:  # from an attempt whose result was lost
            return
        with out:
            out.write_many(part)
        yield task

    try:
        samples.mapPartitionsWithIndex(write).count()
    except Exception:
        tarn.commit(folder, discard=True)
        raise
    return tarn.commit(folder)


def sample(line):
    text, number = line
    return {"__key__": f"line{number:09}", "txt": text}


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("tarn").getOrCreate()
    lines = spark.sparkContext.textFile(sys.argv[1], minPartitions=4)
    print(write_fold(lines.zipWithIndex().map(sample), sys.argv[2]).samples, "samples")
    spark.stop()
