"""The evaluator against answers recorded from SBCL (evaluator.cases)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.lisp.batch import Batch

CASES = Path(__file__).with_name("evaluator.cases")


def _cases() -> list[tuple[str, str]]:
    lines = [
        line
        for line in CASES.read_text(encoding="utf-8").splitlines()
        if not line.startswith(";;") and line.strip()
    ]
    return list(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


@pytest.fixture(scope="module")
def answers() -> list[str]:
    batch = Batch()

    def all_answers() -> list[str]:
        given: list[str] = []
        for form, expected in _cases():
            answer = batch.answer(form)
            if "values" in answer:
                given.append("=> " + " ; ".join(answer["values"]))
            else:
                types = answer["error"].get("condition", [])
                wanted = expected.removeprefix("!! ")
                found = wanted if wanted in types else f"{types} {answer['error']['code']}"
                given.append(f"!! {found}")
        return [text.strip() for text in given]

    return batch.session.run(all_answers)


@pytest.mark.parametrize("index", range(len(_cases())))
def test_same_as_sbcl(index: int, answers: list[str]) -> None:
    form, expected = _cases()[index]
    assert answers[index] == expected, form
