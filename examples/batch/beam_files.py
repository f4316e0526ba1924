"""Translates text files with Apache Beam: a line for each line, in order.

usage: python examples/batch/beam_files.py SAVED_MODEL OUTPUT_DIR FILE... [BEAM'S OPTIONS]

Files are read in parts of some lines. The workers translate the parts' lines in whatever order,
and write each part by itself; in the end the parts of a file are joined. Files and folders may be
in any file system that Beam knows; what ends in .gz is compressed again.
"""

import argparse
import io
import logging
import shutil
import uuid

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from keras_mt.beam import Translate
from keras_mt.documents.sources import as_line, line_blocks

PART_LINES = 2000


def name_of(path):
    return FileSystems.split(path)[1]


def parts(path):
    """The parts of a file: its name, the part's number, where it begins, and its bytes."""
    with FileSystems.open(path) as file:
        number = begin = end = 0
        for line, data in enumerate(iter(file.readline, b""), 1):
            end += len(data)
            if line % PART_LINES == 0:
                yield path, number, begin, end - begin
                number, begin = number + 1, end
        if end > begin or not end:
            yield path, number, begin, end - begin


def lines(part):
    """The lines of a part with their places: the file's name, the part's number, the line's."""
    path, number, begin, size = part
    with FileSystems.open(path) as file:
        file.seek(begin)
        data = file.read(size)
    for units, _ in line_blocks(io.BytesIO(data), PART_LINES, size, number * PART_LINES + 1):
        for i, unit in enumerate(units):
            if unit.error:
                logging.warning("%s, %s is left empty: %s", path, unit.where, unit.error)
            yield (name_of(path), number, i), "" if unit.error else unit.text


def write_part(group, output):
    """Writes the translated lines of a part; returns its file's name and where it is."""
    (name, number), found = group
    path = FileSystems.join(output, "parts", f"{name}-{number:07}")
    with FileSystems.create(path) as file:
        for i, text in sorted(found):
            if i >= 0:
                file.write(as_line(text))
    return name, path


def join(group, output):
    """Writes a file from its parts; it appears whole."""
    name, paths = group
    path = FileSystems.join(output, name)
    temporary = FileSystems.join(output, "parts", f"{uuid.uuid4().hex}-{name}")
    with FileSystems.create(temporary) as file:
        for part in sorted(paths):
            with FileSystems.open(part) as translated:
                shutil.copyfileobj(translated, file)
    FileSystems.rename([temporary], [path])
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="SAVED_MODEL")
    parser.add_argument("output", metavar="OUTPUT_DIR")
    parser.add_argument("files", metavar="FILE", nargs="+")
    given, options = parser.parse_known_args()
    names = [name_of(path) for path in given.files]
    if len({*names}) < len(names):
        parser.error("two files have one name, and each is written under its name")
    for name in names:
        if FileSystems.exists(FileSystems.join(given.output, name)):
            parser.error(f"{given.output} has {name} already: give a new folder")
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    found = pipeline | beam.Create(given.files) | beam.FlatMap(parts) | beam.Reshuffle()
    # An empty file has a part, too.
    begun = found | beam.Map(lambda part: ((name_of(part[0]), part[1]), (-1, "")))
    translated = (
        found
        | beam.FlatMap(lines)
        | Translate(given.model)
        | beam.MapTuple(lambda place, text: (place[:2], (place[2], text)))
    )
    _ = (
        [begun, translated]
        | beam.Flatten()
        | beam.GroupByKey()
        | beam.Map(write_part, given.output)
        | "Files" >> beam.GroupByKey()
        | beam.Map(join, given.output)
    )
    result = pipeline.run()
    result.wait_until_finish()
    FileSystems.delete([FileSystems.join(given.output, "parts")])
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == "keras_mt":
            print(f"{counter.key.metric.name}: {counter.committed:,}")


if __name__ == "__main__":
    main()
