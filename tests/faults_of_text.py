"""Faults in what keeps text and payloads of others from stopping, showing or hiding anything."""

from tests.fault import Fault

UNREADABLE = "    except JsonUnreadable:\n        return None\n"

TEXT = {
    "redaction-scans-again": Fault("core.redact", 'r"://(?:', 'r"(?<=[a-z])[a-z-]*://(?:'),
    "redaction-of-all-of-a-text": Fault("redact.redact", "= LOOKED_AT * characters_max", "= 10**9"),
    "cut-shows-half-a-secret": Fault("redact.redact", "text[:-SECRET_CHARACTERS_MAX] + CUT", "text + CUT"),
    "secrets-are-sought-in-what-was-put-in": Fault(
        "redact.redact",
        "    text = _without(text if whole else text[: looked_at - SECRET_CHARACTERS_MAX], spans)\n",
        "    for one in secrets:\n        text = text.replace(one, STRUCK)\n",
    ),
    "secrets-are-sought-after-patterns": Fault(
        "Failure.without", "self.raw or (self.message, self.stack)", "(self.message, self.stack)"
    ),
    "undeclared-payload-in-messages": Fault(
        "HttpWorkers._verdict",
        "self._policies.judge_without(claim, outcome, None)",
        "self._policies.judge(claim, outcome)",
    ),
    "exceptions-end-their-executor": Fault(
        "tracebacks.tried",
        "except BaseException:  # noqa: BLE001 (the user",
        "except KeyError:  # noqa: BLE001 (the user",
    ),
    "all-errors-of-a-validation-are-read": Fault(
        "tracebacks.why_invalid", "count > ERRORS_READ_MAX", "count < 0"
    ),
    "secret-names-by-case": Fault(
        "redact._values", "name.casefold() in names) for name", "name in names) for name"
    ),
    "unreadable-payload-raises": Fault(
        "redact.secrets_in", UNREADABLE, "    except KeyError:\n        return None\n"
    ),
    "unreadable-payload-has-no-secrets": Fault(
        "redact.secrets_in", UNREADABLE, "    except JsonUnreadable:\n        return []\n"
    ),
    "controls-reach-the-terminal": Fault(
        "output.printable",
        "return _UNPRINTABLE.sub(lambda found: _ESCAPES[ord(found[0])], text)",
        "return text",
    ),
    "newlines-forge-lines": Fault("output.one_line", '.replace("\\n", "\\\\n")', ""),
    "reserved-kinds-are-edited": Fault(
        "DeadLetters.edit", '        refuse_reserved(before.kind, "edited")\n', ""
    ),
    "controls-reach-the-terminal-in-tables": Fault(
        "output._cell", "return one_line(text if", "return str(text if"
    ),
    "outside-worker-is-given-what-nobody-can-read": Fault(
        "HttpWorkers.claim", "except JsonUnreadable as error", "except KeyError as error"
    ),
    "payload-is-read-before-it-is-recorded": Fault(
        "Runs.start",
        "        self._flight.start(claim.id, claim.fence, run.deadline_at)\n        task =",
        "        task =",
    ),
    "payload-is-shown-unread": Fault(
        "stored_json.shown_json", "    except JsonUnreadable as error:\n", "    except KeyError as error:\n"
    ),
    "stored-json-of-any-size": Fault(
        "stored_json.read_json", "    check_json(text, values_max=VALUES_MAX)\n", ""
    ),
}
