"""Files of clients, by models without processes."""

import asyncio
import contextlib
import io

import pytest
from served import Capitals
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from keras_mt.serving.app import Service, Settings
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.texts import Wish


def files_of(folder, *pools):
    return Service(Catalogue(pools or [Capitals()]), Settings(folder), Glossaries()).files


async def begun(files, name, data, source="en", target="de"):
    return await files.begin(UploadFile(io.BytesIO(data), filename=name), Wish(source, target), "")


async def translated(files, *arguments, **wishes):
    file = await begun(files, *arguments, **wishes)
    counts = await file.task
    return files.take(file), counts


def run(folder, *arguments, **wishes):
    return asyncio.run(translated(files_of(folder), *arguments, **wishes))


def test_a_file_keeps_its_form_and_leaves_nothing_behind(tmp_path):
    page = b'<p>A <b>dog</b> runs. It barks.</p><pre>a = 1</pre><img alt="A cat">'
    assert run(tmp_path, "PAGE.HTML", page)[0] == (
        b'<p>A <b>DOG</b> RUNS. IT BARKS.</p><pre>a = 1</pre><img alt="A CAT">'
    )
    assert run(tmp_path, "a.txt", b"One dog. Two dogs.\n\nthree\n")[0] == (
        b"ONE DOG. TWO DOGS.\n\nTHREE\n"
    )
    assert not [*tmp_path.iterdir()]


def test_what_is_refused_is_said_without_paths_of_the_server(tmp_path):
    for name, data in (
        ("a.docx", b"no zip"),
        ("a.txt.gz", b""),
        ("../a", b""),
        (".srt", b""),
        ("", b""),
    ):
        with pytest.raises(HTTPException) as error:
            run(tmp_path, name, data)
        assert error.value.status_code == 400 and str(tmp_path) not in error.value.detail, name
    data, counts = run(tmp_path, "a.txt", b"one\nrefuse this\n")
    assert (data, counts["refused"]) == (b"ONE\n\n", 1)


def test_a_file_of_no_named_language_has_that_of_its_texts(tmp_path):
    files = files_of(tmp_path, Capitals("en", "fr"), Capitals("de", "fr"))

    async def source(text):
        file = await begun(files, "a.txt", text, source="", target="fr")
        await file.task
        return file.wish.source

    assert asyncio.run(source(b"The dog runs through the park with its owner.\n")) == "en"
    assert asyncio.run(source(b"Der Hund rennt mit seinem Besitzer durch den Park.\n")) == "de"


def test_a_sender_who_goes_away_frees_the_workers_and_the_disk(tmp_path):
    pool = Capitals(held=True)

    async def leave():
        file = await begun(files_of(tmp_path, pool), "a.txt", b"one\n")
        while not pool.running:
            await asyncio.sleep(0.01)
        file.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await file.task
        while pool.running or [*tmp_path.iterdir()]:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(leave(), 60))
