"""An Idempotency-Key is for one request; the fuzzer likes to send `0` with every body. A good key gets
a unique end, so that another use of it is no reuse; a bad one is left as it is."""

import re
import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    headers = case.headers or {}
    for name in list(headers):
        if name.lower() == "idempotency-key" and re.fullmatch("[!-~]{1,128}", str(headers[name])):
            headers[name] = str(headers[name])[:96] + uuid.uuid4().hex
