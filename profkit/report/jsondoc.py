"""Results as JSON for scripts: schemas ``profkit.diff/2`` and ``profkit.show/2`` (docs/schema).

Writes results, not a `Document`: nothing is shortened or formatted, times are seconds, unknown values and NaN
are null. Lists are cut to the limit, beside their full length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.measure.intervals import Estimate
from profkit.measure.inventory import inventory
from profkit.measure.iterations import IterationNames, iteration_model
from profkit.measure.range_functions import range_functions
from profkit.measure.range_stats import range_rows
from profkit.measure.range_waiting import waiting_of
from profkit.measure.tables import DiffTable, SideSummary, SideTable
from profkit.model import Host, Manifest, Notice, Process, Run, Thread
from profkit.report.document import VerdictBlock
from profkit.report.estimates import OF_SHARES, estimate_object
from profkit.report.functions import Ranked, ranked, ranked_run
from profkit.report.inventory_sections import inventory_object, need_object
from profkit.report.iterations import change_object, model_object
from profkit.report.jsonvalues import json_number, json_text, json_texts, next_command
from profkit.report.lines import lines_object
from profkit.report.machine import machine_object
from profkit.report.notices import notice_object, notice_objects
from profkit.report.range_sections import change_objects, range_objects
from profkit.report.wording import (
    advice_command,
    advice_text,
    bucket_title,
    comparison_block,
    evidence_texts,
    moved_text,
    summary_of,
    verdict_block,
)
from profkit.verdict.account import Account, Waited
from profkit.verdict.types import Advice, Checked, Diff, Evidence, Finding, RunVerdict, Value, Verdict

DIFF_SCHEMA = "profkit.diff/2"
SHOW_SCHEMA = "profkit.show/2"


def diff_json(diff: Diff, limit: int = 50, *, explain: bool = False) -> str:
    """Return a comparison as one JSON document, ``profkit.diff/2``, ended by a newline."""
    return _dumps(diff_object(diff, limit, explain=explain))


def show_json(
    run: Run,
    *,
    limit: int = 50,
    by: str = "tottime",
    judged: RunVerdict | None = None,
    names: IterationNames | None = None,
    explain: bool = False,
) -> str:
    """Return one run as one JSON document, ``profkit.show/2``, ended by a newline."""
    return _dumps(show_object(run, limit=limit, by=by, judged=judged, names=names, explain=explain))


def _dumps(value: object) -> str:
    # ASCII only: the output then survives every locale, and a terminal escape stays the text "\\u001b".
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _plain(value: object) -> Any:
    """What a manifest's open mappings hold, as JSON values."""
    if isinstance(value, str):
        return json_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Notice):
        return notice_object(value)
    if isinstance(value, Mapping):
        return {json_text(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return json_text(str(value))


def diff_object(diff: Diff, limit: int = 50, *, explain: bool = False) -> dict[str, Any]:
    """Return the object of ``profkit.diff/2``."""
    table = diff.table
    shown = min(limit, len(table)) if limit else len(table)
    return {
        "schema": DIFF_SCHEMA,
        "baseline": _side(diff.baseline),
        "candidate": _side(diff.candidate),
        "comparability": {
            "score": json_number(diff.comparability.score),
            "warnings": notice_objects(diff.comparability.warnings),
        },
        "verdict": _verdict(diff.verdict, comparison_block(diff)),
        "account": {**_account(diff.account), "calls_unknown_share": json_number(diff.account.calls_unknown)},
        "lines": lines_object(diff.lines),
        "next_commands": _next_commands(diff.verdict.advice),
        **({"checks": _checks(diff.verdict.checks)} if explain else {}),
        "ranking": {
            "by": diff.ranking.by,
            "rbo": json_number(diff.ranking.rbo),
            "total_variation": json_number(diff.ranking.total_variation),
            "reordered": bool(diff.ranking.reordered),
            "noise_floor": json_number(diff.ranking.noise_floor),
            "rbo_interval": _interval(*diff.ranking.rbo_interval),
            "displacement": None
            if diff.ranking.displacement is None
            else _estimate(diff.ranking.displacement),
        },
        "by_share": table.by_share,
        "slowdown": _estimate(diff.slowdown),
        "functions_total": len(table),
        "functions": [_diff_row(table, row) for row in range(shown)],
        "ranges_total": len(diff.ranges),
        "ranges": change_objects(diff.ranges, limit),
        "iterations": change_object(diff.iterations),
        "residue": {
            "baseline_only": int(diff.residue.baseline_only),
            "candidate_only": int(diff.residue.candidate_only),
            "baseline_only_share": json_number(diff.residue.baseline_only_share),
            "candidate_only_share": json_number(diff.residue.candidate_only_share),
        },
        "settings": [
            {
                "kind": json_text(setting.kind),
                "name": json_text(setting.name),
                "baseline": json_text(setting.baseline),
                "candidate": json_text(setting.candidate),
            }
            for setting in diff.settings
        ],
        "warnings": notice_objects(diff.warnings),
    }


def _side(side: SideSummary) -> dict[str, Any]:
    return {
        "label": json_text(side.label),
        "runs": side.runs,
        "files": json_texts(side.files),
        "wall_s": json_number(side.wall_s),
        "cpu_s": json_number(side.cpu_s),
        "total_s": json_number(side.total_s),
        "run_queue_wait_s": json_number(side.run_queue_wait_s),
        "host": None if side.host is None else json_text(side.host),
        "python": None if side.python is None else json_text(side.python),
        "processes": side.processes,
        "skipped": notice_objects(side.skipped),
        "inventory": None if side.inventory is None else inventory_object(side.inventory),
        "command": json_texts(side.command),
    }


def _verdict(verdict: Verdict, block: VerdictBlock, *, alone: bool = False) -> dict[str, Any]:
    return {
        "cause": verdict.cause,
        "kind": verdict.kind,
        "rule": verdict.rule,
        "subject": json_text(verdict.subject),
        "confidence": None if verdict.confidence is None else json_number(verdict.confidence),
        "headline": json_text(block.headline),
        "summary": json_text(summary_of(verdict, alone=alone)),
        "numbers": _values(verdict.numbers),
        "evidence": [_evidence(item) for item in verdict.evidence],
        "advice": [_advice(item) for item in verdict.advice],
        "findings": [_finding(finding, alone) for finding in verdict.findings],
    }


def _finding(finding: Finding, alone: bool) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cause": finding.cause,
        "kind": finding.kind,
        "subject": json_text(finding.subject),
        "confidence": json_number(finding.confidence) if finding.calibrated else None,
        "bucket": finding.bucket or None,
        "seconds": json_number(finding.seconds),
        "severity": json_number(finding.severity),
        "summary": json_text(summary_of(finding, alone=alone)),
        "numbers": _values(finding.numbers),
        "evidence": [_evidence(item) for item in finding.evidence],
        "advice": [_advice(item) for item in finding.advice],
    }


def _value(value: Value) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    return json_text(value) if isinstance(value, str) else json_number(float(value))


def _values(numbers: Mapping[str, Value]) -> dict[str, Any]:
    return {json_text(name): _value(value) for name, value in numbers.items()}


def _evidence(item: Evidence) -> dict[str, Any]:
    texts = evidence_texts(item)
    return {
        "signal": item.signal,
        "subject": json_text(item.subject),
        "unit": item.unit,
        "baseline": _value(item.baseline),
        "candidate": _value(item.candidate),
        "whole": None if item.whole is None else [_value(part) for part in item.whole],
        "threshold": None if item.threshold is None else json_number(item.threshold),
        "reading": item.reading,
        "numbers": _values(item.numbers),
        "text": {
            "signal": json_text(texts.signal),
            "baseline": json_text(texts.baseline),
            "candidate": json_text(texts.candidate),
            "says": json_text(texts.says),
        },
    }


def _advice(item: Advice) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "argv": json_texts((*item.argv, *item.files)),
        "env": {json_text(name): json_text(value) for name, value in item.env.items()},
        "cures": item.cures or None,
        "predicted_gain_s": json_number(item.predicted_gain_s),
        "subject": json_text(item.subject),
        "numbers": _values(item.numbers),
        "where": None
        if item.where is None
        else {
            "function": json_text(item.where.qualname),
            "file": json_text(item.where.path),
            "line": item.line or None,
        },
        "text": json_text(advice_text(item)),
    }


def _next_commands(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    """Advice that is a command, in the order of the report."""
    commands = [(*advice_command(item), item.env) for item in advice]
    return [next_command(argv, why, env) for argv, why, env in commands if argv]


def _account(account: Account) -> dict[str, Any]:
    return {
        "baseline_s": json_number(account.baseline_s),
        "candidate_s": json_number(account.candidate_s),
        "added_s": json_number(account.added_s),
        "merged": list(account.merged),
        "basis": account.basis,
        "buckets": [
            {
                "name": bucket.name,
                "title": bucket_title(bucket, account),
                "seconds": json_number(bucket.seconds),
                "interval": _interval(bucket.low, bucket.high),
                "share": json_number(bucket.share),
                "parts": [
                    {
                        "kind": part.kind,
                        "name": json_text(part.name),
                        "seconds": json_number(part.seconds),
                        "what": part.what or None,
                    }
                    for part in bucket.parts
                ],
                "waited": [_waited(one) for one in bucket.waited],
            }
            for bucket in account.buckets
        ],
    }


def _waited(one: Waited) -> dict[str, Any]:
    return {
        "what": one.what,
        "baseline_s": json_number(one.baseline_s),
        "candidate_s": json_number(one.candidate_s),
        "function": json_text(one.name),
    }


def _checks(checks: Sequence[Checked]) -> list[dict[str, Any]]:
    return [
        {
            "rule": check.rule,
            "part": check.part,
            "choice": check.choice,
            "group": check.group,
            "reading": check.reading,
            "operator": check.operator,
            "unit": check.unit,
            "value": _value(check.value),
            "threshold": None if check.threshold is None else json_number(check.threshold),
            "threshold_id": check.threshold_id or None,
            "margin": json_number(check.margin),
            "held": check.held,
        }
        for check in checks
    ]


def _diff_row(table: DiffTable, row: int) -> dict[str, Any]:
    return {
        "name": json_text(table.name[row]),
        "file": json_text(table.file[row]),
        "line": int(table.line[row]),
        "root": table.keys[row].root,
        "path": json_text(table.keys[row].path),
        "match": table.match[row],
        "same_source": table.same_source[row],
        "anomalous": bool(table.anomalous[row]),
        "reason": json_text(moved_text(table, row)) if table.anomalous[row] else "",
        "baseline": _diff_side(table, table.baseline, row),
        "candidate": _diff_side(table, table.candidate, row),
        "per_call_ratio": json_number(table.per_call_ratio[row]),
        "p_value": json_number(table.p_value[row]),
    }


def _diff_side(table: DiffTable, side: SideTable, row: int) -> dict[str, Any] | None:
    if not side.present[row]:
        return None
    known = estimate_object(*side.estimate(row))
    return {
        "rank": int(side.rank[row]),
        "ncalls": int(side.ncalls[row]),
        "primitive_calls": int(side.primitive_calls[row]),
        "tottime": json_number(side.tottime[row]),
        "active": json_number(side.active[row]),
        "cumtime": json_number(side.cumtime[row]),
        "share": json_number(side.share[row]),
        "wait": None if side.wait is None else json_number(side.wait[row]),
        "cumwait": None if side.cumwait is None else json_number(side.cumwait[row]),
        **(OF_SHARES if table.by_share else known),
    }


def show_object(
    run: Run,
    *,
    limit: int = 50,
    by: str = "tottime",
    judged: RunVerdict | None = None,
    names: IterationNames | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """Return the object of ``profkit.show/2``."""
    functions = ranked_run(run, by)
    verdict = judged.verdict if judged is not None else None
    ranges = range_rows(
        [process.ranges for process in run.processes if process.ranges is not None], waiting_of(run.processes)
    )
    processes = run.processes[:limit] if limit else run.processes
    taken = inventory(run)
    return {
        "schema": SHOW_SCHEMA,
        "file": json_text(run.path),
        "manifest": None if run.manifest is None else _manifest(run.manifest),
        "verdict": None
        if verdict is None
        else _verdict(verdict, verdict_block(verdict, alone=True), alone=True),
        "account": None if judged is None else _account(judged.account),
        "lines": None if judged is None else lines_object(judged.lines),
        "next_commands": _next_commands(() if verdict is None else verdict.advice),
        **({"checks": _checks(judged.checks)} if explain and judged is not None else {}),
        "processes_total": len(run.processes),
        "processes": [
            {**_process(process, limit, by), **need_object(need)}
            for process, need in zip(processes, taken.processes, strict=False)
        ],
        "inventory": inventory_object(taken),
        **_windows(run.manifest, limit),
        "functions_total": len(functions),
        "functions": _functions(functions, limit),
        "ranges_total": len(ranges),
        "ranges": range_objects(ranges, range_functions(run), limit),
        "iterations": model_object(iteration_model(run, names)),
        "machine": None if run.machine is None else machine_object(run.machine),
        "machines": {json_text(name): machine_object(machine) for name, machine in run.machines.items()},
        "warnings": notice_objects(run.warnings),
    }


def _manifest(manifest: Manifest) -> dict[str, Any]:
    return {
        "schema": json_text(manifest.schema),
        "profkit": json_text(manifest.profkit),
        "command": json_texts(manifest.command),
        "cwd": json_text(manifest.cwd),
        "exit_status": manifest.exit_status,
        "started": json_text(manifest.started),
        "wall_s": json_number(manifest.wall_s),
        "whole_s": json_number(manifest.whole_s),
        "host": _host(manifest.host),
        "environment": _plain(manifest.environment),
        "packages": _plain(manifest.packages),
        "git": _plain(manifest.git),
        "job": _plain(manifest.job),
        "clocks": _plain(manifest.clocks),
        "sampler": _plain(manifest.sampler),
    }


def _windows(manifest: Manifest | None, limit: int) -> dict[str, Any]:
    windows = () if manifest is None else manifest.windows
    return {
        "windows_total": len(windows),
        "windows": [
            {
                "name": json_text(window.name),
                "begin_s": json_number(window.begin_s),
                "end_s": json_number(window.end_s),
                "captured": window.captured,
            }
            for window in (windows[:limit] if limit else windows)
        ],
    }


def _host(host: Host) -> dict[str, Any]:
    return {
        "name": json_text(host.name),
        "system": json_text(host.system),
        "cpu_model": json_text(host.cpu_model),
        "cpus": host.cpus,
        "affinity": host.affinity,
        "quota_cpus": json_number(host.quota_cpus),
    }


def _process(process: Process, limit: int, by: str) -> dict[str, Any]:
    threads = process.threads[:limit] if limit else process.threads
    return {
        "pid": process.pid,
        "parent": process.parent,
        "role": json_text(process.role),
        "rank": process.rank,
        "local_rank": process.local_rank,
        "node": process.node,
        "command": json_texts(process.command),
        "exit": json_text(process.exit),
        "python": json_text(process.python),
        "wall_s": json_number(process.wall_s),
        "cpu_s": json_number(process.cpu_s),
        "run_queue_wait_s": json_number(process.run_queue_wait_s),
        "voluntary_switches": process.voluntary_switches,
        "involuntary_switches": process.involuntary_switches,
        "notes": notice_objects(process.notes),
        "profiled": process.profiled,
        "peak_threads": process.peak_threads,
        "tiers": [{"kind": tier.kind, "begin_s": json_number(tier.begin_s)} for tier in process.tiers],
        "effect": None
        if process.effect is None
        else {
            "seconds": json_number(process.effect.seconds),
            "interval": _interval(process.effect.low_s, process.effect.high_s),
        },
        "threads_total": len(process.threads),
        "threads": [_thread(process, thread, limit, by) for thread in threads],
    }


def _thread(process: Process, thread: Thread, limit: int, by: str) -> dict[str, Any]:
    functions = ranked(thread.profile, process.roots, by)
    p = thread.profile
    return {
        "tid": thread.tid,
        "name": json_text(thread.name),
        "run_s": json_number(thread.run_s),
        "run_queue_wait_s": json_number(thread.run_queue_wait_s),
        "user_s": json_number(thread.user_s),
        "system_s": json_number(thread.system_s),
        "voluntary_switches": thread.voluntary_switches,
        "involuntary_switches": thread.involuntary_switches,
        "functions_total": len(functions),
        "functions": _functions(functions, limit),
        "open_calls": [
            {
                "name": json_text(
                    p.strings[int(p.qualname[c.function])] or p.strings[int(p.name[c.function])]
                ),
                "file": json_text(p.strings[int(p.file[c.function])]),
                "line": int(p.line[c.function]),
                "cumtime": json_number(c.cumtime),
            }
            for c in thread.open_calls
        ],
        "throttled": [
            {
                "name": json_text(p.strings[int(p.qualname[row])] or p.strings[int(p.name[row])]),
                "file": json_text(p.strings[int(p.file[row])]),
                "line": int(p.line[row]),
                "ncalls": int(p.ncalls[row]),
            }
            for row in thread.throttled
        ],
        "tracer_s": json_number(thread.tracer_s),
    }


def _functions(functions: Ranked, limit: int) -> list[dict[str, Any]]:
    return [
        {
            "rank": row.rank,
            "name": json_text(row.name),
            "file": json_text(row.file),
            "line": row.line,
            "root": row.key.root,
            "path": json_text(row.key.path),
            "ncalls": row.ncalls,
            "primitive_calls": row.primitive_calls,
            "tottime": json_number(row.tottime),
            "cumtime": json_number(row.cumtime),
            "active": json_number(row.active),
            "share": json_number(row.share),
            "wait": json_number(row.wait),
            "blocked": json_number(row.blocked),
            "cumwait": json_number(row.cumwait),
            "cumblocked": json_number(row.cumblocked),
            **estimate_object(row.calls_low, row.calls_high, row.samples, row.tottime_error),
        }
        for row in functions.rows(limit)
    ]


def _interval(low: float, high: float) -> list[float] | None:
    return None if math.isnan(low) or math.isnan(high) else [low, high]


def _estimate(found: Estimate) -> dict[str, Any]:
    """A figure, its 95 % interval, and the p-value of no difference."""
    return {
        "value": json_number(found.value),
        "interval": _interval(found.low, found.high),
        "p_value": json_number(found.p_value),
    }
