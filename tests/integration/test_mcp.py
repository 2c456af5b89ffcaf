"""`profkit mcp`: the real client of the protocol starts the real server, and gets what commands print."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.capturing import in_process
from tests.requirements import imported

SAMPLES = Path(__file__).resolve().parents[2] / "sample_profiles" / "train_mlp"
SIDES = {"baseline": str(SAMPLES / "clean-1.prof"), "candidate": str(SAMPLES / "oversubscribed.prof")}
#: Each tool with its arguments, and the command that prints the same.
SAME: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("diff", SIDES, ("diff", *SIDES.values(), "--limit", "20")),
    ("show", {"run": SIDES["candidate"], "limit": 3}, ("show", SIDES["candidate"], "--limit", "3")),
    ("explain", {**SIDES, "limit": 2}, ("diff", *SIDES.values(), "--explain", "--limit", "2")),
    ("doctor", {"ranks": 4, "threads": 64}, ("doctor", "--ranks", "4", "--threads", "64")),
)


async def answers(mcp: Any) -> tuple[set[str], list[Any]]:
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "profkit", "mcp"])
    async with mcp.Client(server) as client:
        listed = (await client.list_tools()).tools
        assert all(tool.annotations.read_only_hint for tool in listed)
        calls = [*((tool, given) for tool, given, _ in SAME), ("show", {"run": "missing.prof"})]
        return {tool.name for tool in listed}, [await client.call_tool(tool, given) for tool, given in calls]


def test_tools_answer_as_the_command_line_does() -> None:
    names, (*found, missing) = asyncio.run(answers(imported("mcp")))
    assert names == {tool for tool, _, _ in SAME}
    for answer, (tool, _, words) in zip(found, SAME, strict=True):
        printed = json.loads(in_process(Path(), *words, "--format", "json").stdout)
        assert not answer.is_error, tool
        assert answer.structured_content == json.loads(answer.content[1].text) == printed
        said = printed.get("text") or printed["verdict"]
        assert answer.content[0].text == f"{said['headline']}. {said['summary']}"
    assert missing.is_error
    assert (
        in_process(Path(), "show", "missing.prof", status=2).stderr
        == f"profkit: error: {missing.content[0].text}\n"
    )
