"""The OpenAPI document is kept with the docs: a change of the API is seen where it is made."""

import json
import os
import re
from pathlib import Path

from holdfast.config import Settings
from holdfast.http.application import create
from holdfast.http.problems import TITLES

DOCS = Path(__file__).parent.parent.parent / "docs"
DOCUMENT = DOCS / "reference" / "openapi.json"


def test_the_document_is_what_the_code_says() -> None:
    made = create(Settings(database_url="")).openapi()
    made["info"]["version"] = "of the package"
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    if os.environ.get("HOLDFAST_WRITE_DOCS"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "HOLDFAST_WRITE_DOCS=1 pytest tests/http_api/test_document.py"


def test_every_operation_refers_to_the_one_problem() -> None:
    document = json.loads(DOCUMENT.read_text())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            success, problem = sorted(operation["responses"])
            assert success.startswith("2"), (method, path)
            assert operation["responses"][problem]["$ref"] == "#/components/responses/Problem", (method, path)


def test_every_status_of_a_problem_is_in_the_guide() -> None:
    _, _, guide = (DOCS / "how-to" / "http.md").read_text().partition("## When it is refused\n")
    listed = re.findall(r"^\| (\d{3}) \|", guide.partition("\n## ")[0], re.MULTILINE)
    assert [int(status) for status in listed] == sorted(TITLES)
