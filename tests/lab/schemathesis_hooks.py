"""What the fuzzer cannot know of the lease API from its document."""

import re
import uuid

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


@schemathesis.hook
def before_call(context, case, kwargs):
    """An Idempotency-Key is for one request; the fuzzer likes to send `0` with every body. A good key
    gets a unique end, so that another use of it is no reuse; a bad one is left as it is."""
    headers = case.headers or {}
    for name in list(headers):
        if name.lower() == "idempotency-key" and re.fullmatch("[!-~]{1,128}", str(headers[name])):
            headers[name] = str(headers[name])[:96] + uuid.uuid4().hex
