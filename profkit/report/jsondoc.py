"""Results as JSON for scripts, neither shortened nor formatted (schemas: docs/schema).

Times are seconds; unknown values and NaN are null. Lists are cut to the limit, beside their full length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profkit.compare.result_types import DiffTable, SideSummary, SideTable
from profkit.measure.import_table import imports_of
from profkit.measure.inventory import inventory
from profkit.measure.iterations import IterationNames, iteration_model
from profkit.measure.range_functions import range_functions
from profkit.measure.range_stats import range_rows
from profkit.model import Process, Profile, Run, Thread
from profkit.model.surrogates import spelled_out
from profkit.report.document import VerdictBlock
from profkit.report.estimates import OF_SHARES, estimate_object
from profkit.report.functions import Ranked, ranked, ranked_run
from profkit.report.imports import import_changes_object
from profkit.report.inventory_sections import inventory_object
from profkit.report.iterations import change_object
from profkit.report.jsonvalues import json_number, known_interval, members, next_command, plain
from profkit.report.machine import machine_object
from profkit.report.range_sections import change_objects, range_objects
from profkit.report.wording.accounts import bucket_title
from profkit.report.wording.advice import advice_command, advice_text
from profkit.report.wording.evidence import evidence_texts
from profkit.report.wording.functions import moved_text
from profkit.report.wording.summaries import summary_of
from profkit.report.wording.verdicts import comparison_block, verdict_block
from profkit.verdict.account import Account
from profkit.verdict.types import Advice, Diff, Evidence, Finding, RunVerdict, Verdict

DIFF_SCHEMA = "profkit.diff/2"
SHOW_SCHEMA = "profkit.show/2"
#: Columns of a side's table that a function has.
_COLUMNS = ("rank", "ncalls", "primitive_calls", "tottime", "active", "cumtime", "share", "wait", "cumwait")

#: Members of what a process needs.
_NEEDS = "expected_cores observed_cores demand_cores available_cpus pools"


def diff_object(diff: Diff, limit: int = 50, *, explain: bool = False) -> dict[str, Any]:
    table = diff.table
    return {
        "schema": DIFF_SCHEMA,
        "baseline": _side(diff.baseline),
        "candidate": _side(diff.candidate),
        "comparability": plain(diff.comparability),
        "verdict": _verdict(diff.verdict, comparison_block(diff)),
        "account": {**_account(diff.account), "calls_unknown_share": json_number(diff.account.calls_unknown)},
        "lines": plain(diff.lines),
        "next_commands": _next_commands(diff.verdict.advice),
        **({"checks": plain(diff.verdict.checks)} if explain else {}),
        "ranking": members(
            diff.ranking,
            "by rbo total_variation reordered noise_floor rbo_interval displacement",
            rbo_interval=known_interval(*diff.ranking.rbo_interval),
        ),
        "by_share": table.by_share,
        "slowdown": plain(diff.slowdown),
        "functions_total": len(table),
        "functions": [_diff_row(table, row) for row in range(len(table))[: limit or None]],
        "ranges_total": len(diff.ranges),
        "ranges": change_objects(diff.ranges, limit),
        "iterations": change_object(diff.iterations),
        "residue": plain(diff.residue),
        "imports": import_changes_object(diff),
        "settings": plain(diff.settings),
        "warnings": plain(diff.warnings),
    }


def _side(side: SideSummary) -> dict[str, Any]:
    return members(
        side,
        "label runs files wall_s cpu_s total_s run_queue_wait_s host python processes skipped inventory command",
        inventory=None if side.inventory is None else inventory_object(side.inventory),
    )


def _verdict(verdict: Verdict, block: VerdictBlock, *, alone: bool = False) -> dict[str, Any]:
    return members(
        verdict,
        "cause kind rule subject confidence headline summary numbers evidence advice findings",
        headline=spelled_out(block.headline),
        findings=[_finding(finding, alone) for finding in verdict.findings],
        **_grounds(verdict, alone),
    )


def _finding(finding: Finding, alone: bool) -> dict[str, Any]:
    return members(
        finding,
        "rule cause kind subject confidence bucket? seconds severity summary numbers evidence advice",
        confidence=json_number(finding.confidence) if finding.calibrated else None,
        **_grounds(finding, alone),
    )


def _grounds(found: Verdict | Finding, alone: bool) -> dict[str, Any]:
    return {
        "summary": spelled_out(summary_of(found, alone=alone)),
        "evidence": [_evidence(item) for item in found.evidence],
        "advice": [_advice(item) for item in found.advice],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return members(
        item,
        "signal subject unit baseline candidate whole threshold reading numbers text",
        text=plain(evidence_texts(item)._asdict()),
    )


def _advice(item: Advice) -> dict[str, Any]:
    return members(
        item,
        "kind argv env cures? predicted_gain_s least_gain_s subject numbers where text",
        argv=plain((*item.argv, *item.files)),
        where=item.where and members(item, "function=where.qualname file=where.path line?"),
        text=spelled_out(advice_text(item)),
    )


def _next_commands(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    commands = [(*advice_command(item), item.env) for item in advice]
    return [next_command(argv, why, env) for argv, why, env in commands if argv]


def _account(account: Account) -> dict[str, Any]:
    return {
        **members(account, "baseline_s candidate_s added_s merged basis"),
        "buckets": [
            members(
                bucket,
                "name title seconds interval=low,high share parts waited",
                title=bucket_title(bucket, account),
            )
            for bucket in account.buckets
        ],
    }


def _diff_row(table: DiffTable, row: int) -> dict[str, Any]:
    return {
        "name": spelled_out(table.name[row]),
        "file": spelled_out(table.file[row]),
        "line": int(table.line[row]),
        "root": table.keys[row].root,
        "path": spelled_out(table.keys[row].path),
        "match": table.match[row],
        "same_source": table.same_source[row],
        "anomalous": bool(table.anomalous[row]),
        "reason": spelled_out(moved_text(table, row)) if table.anomalous[row] else "",
        "baseline": _diff_side(table, table.baseline, row),
        "candidate": _diff_side(table, table.candidate, row),
        "per_call_ratio": json_number(table.per_call_ratio[row]),
        "p_value": json_number(table.p_value[row]),
    }


def _diff_side(table: DiffTable, side: SideTable, row: int) -> dict[str, Any] | None:
    if not side.present[row]:
        return None
    columns = {name: getattr(side, name) for name in _COLUMNS}
    return {
        **{name: None if column is None else plain(column[row]) for name, column in columns.items()},
        **(OF_SHARES if table.by_share else estimate_object(*side.estimate(row))),
    }


def show_object(
    run: Run,
    *,
    limit: int = 50,
    by: str = "tottime",
    judged: RunVerdict,
    names: IterationNames | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    functions = ranked_run(run, by)
    verdict = judged.verdict
    ranges = range_rows(run.processes)
    taken = inventory(run)
    return {
        "schema": SHOW_SCHEMA,
        "file": spelled_out(run.path),
        "manifest": plain(run.manifest),
        "verdict": verdict and _verdict(verdict, verdict_block(verdict, alone=True), alone=True),
        "account": _account(judged.account),
        "lines": plain(judged.lines),
        "next_commands": _next_commands(() if verdict is None else verdict.advice),
        **({"checks": plain(judged.checks)} if explain else {}),
        "processes_total": len(run.processes),
        "processes": [
            {**_process(process, limit, by), **members(need, _NEEDS)}
            for process, need in zip(run.processes[: limit or None], taken.processes, strict=False)
        ],
        "inventory": inventory_object(taken),
        "windows_total": len(run.windows),
        "windows": plain(run.windows[: limit or None]),
        "functions_total": len(functions),
        "functions": _functions(functions, limit),
        "ranges_total": len(ranges),
        "ranges": range_objects(ranges, range_functions(run), limit),
        "iterations": plain(iteration_model(run, names)),
        "imports": plain(imports_of(run, run.processes)),
        "machine": None if run.machine is None else machine_object(run.machine),
        "machines": {spelled_out(name): machine_object(machine) for name, machine in run.machines.items()},
        **({} if run.gpu is None else {"gpu": plain(run.gpu)}),
        "warnings": plain(run.warnings),
    }


def _process(process: Process, limit: int, by: str) -> dict[str, Any]:
    return members(
        process,
        "pid parent role rank local_rank node command exit python wall_s cpu_s run_queue_wait_s voluntary_switches "
        "involuntary_switches notes profiled peak_threads tiers effect threads_total threads",
        threads_total=len(process.threads),
        threads=[_thread(process, thread, limit, by) for thread in process.threads[: limit or None]],
    )


def _thread(process: Process, thread: Thread, limit: int, by: str) -> dict[str, Any]:
    profile = thread.profile
    functions = ranked(profile, process.roots, by)
    return members(
        thread,
        "tid name run_s run_queue_wait_s user_s system_s voluntary_switches involuntary_switches functions_total "
        "functions open_calls throttled tracer_s",
        functions_total=len(functions),
        functions=_functions(functions, limit),
        open_calls=[{**_function(profile, c.function), **members(c, "cumtime")} for c in thread.open_calls],
        throttled=[
            {**_function(profile, row), "ncalls": int(profile.ncalls[row])} for row in thread.throttled
        ],
    )


def _function(profile: Profile, row: int) -> dict[str, Any]:
    name, file, line = profile.function(row)
    return {"name": spelled_out(name), "file": spelled_out(file), "line": line}


def _functions(functions: Ranked, limit: int) -> list[dict[str, Any]]:
    names = (
        "rank name file line root=key.root path=key.path ncalls primitive_calls tottime cumtime active share wait "
        "blocked cumwait cumblocked"
    )
    return [
        {
            **members(row, names),
            **estimate_object(row.calls_low, row.calls_high, row.samples, row.tottime_error),
        }
        for row in functions.rows(limit)
    ]
