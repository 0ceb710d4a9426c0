"""The OpenAPI document is kept with the docs: a change of the API is seen where it is made."""

import json
import os
from pathlib import Path

from holdfast.config import Settings
from holdfast.http.application import create

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "reference" / "openapi.json"


def test_the_document_is_what_the_code_says() -> None:
    made = create(Settings(database_url="")).openapi()
    made["info"]["version"] = "of the package"
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    if os.environ.get("HOLDFAST_WRITE_DOCS"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "HOLDFAST_WRITE_DOCS=1 pytest tests/http_api/test_document.py"
