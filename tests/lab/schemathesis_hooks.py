"""What the fuzzer cannot know of the lease API from its document."""

import json
import re
import uuid
from pathlib import Path

import jsonschema_rs
import schemathesis
from hypothesis import strategies as st

LABEL = st.from_regex("[A-Za-zäöüéñ0-9]([A-Za-zäöü0-9-]{0,8}[a-zé0-9])?", fullmatch=True)
HOST = st.builds(
    lambda labels, top, dot, port: ".".join([*labels, top]) + dot + port,
    st.lists(LABEL, max_size=3),
    st.from_regex("[a-z]{2,6}", fullmatch=True),
    st.sampled_from(["", "."]),
    st.one_of(st.just(""), st.integers(0, 65535).map(":{}".format)),
)
# Targets: a format of the API's own.
schemathesis.openapi.format("host", HOST)
# What is fuzzed, as the script that starts the fuzzer left it.
DOCUMENT = json.loads(Path("openapi.json").read_text())


@schemathesis.hook
def filter_case(context, case):
    """A body whose only fault is its target is left out: the fuzzer takes any text that it did not make
    itself for no host, also `\u00b0`, which is one. Nobody here can tell, for it would take the API's own rules."""
    if case.meta is None or case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return True
    elsewhere = [part.mode for place, part in case.meta.components.items() if place.value != "body"]
    if any(mode.is_negative for mode in elsewhere):
        return True
    operation = DOCUMENT["paths"][case.operation.path][case.operation.method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    # A validator that does not know the format passes over it.
    return not jsonschema_rs.is_valid({**schema, "components": DOCUMENT["components"]}, case.body)


@schemathesis.hook
def before_call(context, case, kwargs):
    """An Idempotency-Key is for one request; the fuzzer likes to send `0` with every body. A good key
    gets a unique end, so that another use of it is no reuse; a bad one is left as it is."""
    headers = case.headers or {}
    for name in list(headers):
        if name.lower() == "idempotency-key" and re.fullmatch("[!-~]{1,128}", str(headers[name])):
            headers[name] = str(headers[name])[:96] + uuid.uuid4().hex
