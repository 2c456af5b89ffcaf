"""The one table of what each string field of runs and results holds, and so how it is masked.

An undeclared field is shown only by type and length. `tests/unit/test_safety.py` plants a secret into every
string of a run. Every kind checks its text except `OWN`, for identifiers that profkit computes and no file
holds.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping


class Kind(enum.Enum):
    """What a string field holds."""

    UNDECLARED = enum.auto()
    #: An identifier or a number of profkit's own: of a result, never of a file.
    OWN = enum.auto()
    #: A word that must have the form in `FORMS`.
    FORM = enum.auto()
    #: A name from a program: of a function, a range, a thread, a library. Shown but for what is known to be private
    #: and what has the form of a secret.
    NAME = enum.auto()
    #: What a machine, an interpreter, a library or one of its settings is called: likewise, and no name of a program.
    LABEL = enum.auto()
    #: A file that the user named: its base name, likewise.
    FILE = enum.auto()
    #: A directory of the machine.
    PLACE = enum.auto()
    #: A machine.
    HOST = enum.auto()
    #: A user of a machine.
    USER = enum.auto()
    #: Another program of the machine, or its container, job or unit: shown here, and not in what is posted.
    PROGRAM = enum.auto()
    #: The words of a command line.
    COMMAND = enum.auto()
    #: Environment variables by name, or ``NAME=value``.
    ENVIRONMENT = enum.auto()
    #: A sentence of another program, such as an error.
    MESSAGE = enum.auto()
    #: A version of a distribution, with where it is from behind an ``@``.
    VERSION = enum.auto()
    #: A launcher's identity of a job.
    JOB = enum.auto()


#: Forms of words, by the type and the field that hold them; of a mapping, of its keys.
FORMS: Mapping[str, re.Pattern[str]] = {
    "Process.role": re.compile(r"main|rank|worker|child"),
    "ProcessNeed.role": re.compile(r"main|rank|worker|child"),
    "Process.exit": re.compile(r"exited|killed|replaced|running|ended|unknown"),
    "Process.python": re.compile(r"\d{1,2}(?:\.\d{1,3}){0,2}(?:(?:a|b|c|rc)\d{1,2})?[+t]{0,2}"),
    "SideSummary.python": re.compile(r"\d{1,2}(?:\.\d{1,3}){0,2}(?:(?:a|b|c|rc)\d{1,2})?[+t]{0,2}"),
    "Yardstick.name": re.compile(
        r"integer|branches|vector|latency|bandwidth|bytecode [a-z]{1,20} \d{1,2}\.\d{1,3}"
        r"|zlib [\d.]{1,20}(?:[\w.-]{0,20}) deflate \d{1,9} B"
    ),
    "Pool.origin": re.compile(r"variable|default|program"),
    "Manifest.schema": re.compile(r"profkit\.run/\d{1,3}"),
    "Manifest.profkit": re.compile(
        r"\d{1,4}(?:\.\d{1,4}){0,3}(?:\.?(?:a|b|rc|dev|post)\d{0,4})?(?:\+[0-9a-f]{1,12})?"
    ),
    "Manifest.started": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?"),
    "Manifest.git": re.compile(r"revision|dirty"),
    "Manifest.job": re.compile(r"id|rank|ranks|world_size|local_rank|node"),
    "Manifest.clocks": re.compile(r"[a-z_]*(?:time|clock|counter|monotonic|boottime)[a-z_]*"),
    "Manifest.sampler": re.compile(r"period_s|samples|cpu_s|notes"),
    "Series.columns": re.compile(
        r"(?:cgroup_)?(?:busy|steal|psi_(?:io_|memory_|cpu_)?(?:some|full)|throttled)_s|throttled_periods|periods"
        r"|runnable|load|processes|threads|gpu_utilisation|gpu_memory_bytes|[a-z]{1,12}_(?:bytes|s|count|hz|celsius)"
    ),
    "Profile.source_hash": re.compile(r"[0-9a-f]{0,64}"),
    "SeenLine.source_hash": re.compile(r"[0-9a-f]{0,64}"),
    "Member.started": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?"),
    "HistoryRun.started": re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?"
    ),
    "Configuration.revision": re.compile(r"[0-9a-f]{7,64}"),
    "HistoryRun.revision": re.compile(r"[0-9a-f]{7,64}"),
    "git.revision": re.compile(r"[0-9a-f]{7,64}"),
}

_RUN: Mapping[str, Kind] = {
    "Run.path": Kind.FILE,
    "Run.machines": Kind.HOST,
    "Process.role": Kind.FORM,
    "Process.command": Kind.COMMAND,
    "Process.exit": Kind.FORM,
    "Process.python": Kind.FORM,
    "Process.environment": Kind.ENVIRONMENT,
    "Thread.name": Kind.NAME,
    "RangeCalls.strings": Kind.NAME,
    "Ranges.strings": Kind.NAME,
    "Neighbour.name": Kind.PROGRAM,
    "Neighbour.user": Kind.USER,
    "Neighbour.group": Kind.PROGRAM,
    "Host.name": Kind.HOST,
    "Host.system": Kind.LABEL,
    "Host.cpu_model": Kind.LABEL,
    "Pool.library": Kind.LABEL,
    "Pool.origin": Kind.FORM,
    "Pool.variable": Kind.ENVIRONMENT,
    "Pool.version": Kind.VERSION,
    "Pool.file": Kind.FILE,
    "Manifest.schema": Kind.FORM,
    "Manifest.profkit": Kind.FORM,
    "Manifest.command": Kind.COMMAND,
    "Manifest.cwd": Kind.PLACE,
    "Manifest.started": Kind.FORM,
    "Manifest.environment": Kind.ENVIRONMENT,
    "Manifest.packages": Kind.VERSION,
    "Manifest.git": Kind.FORM,
    "Manifest.job": Kind.FORM,
    "Manifest.clocks": Kind.FORM,
    "Manifest.sampler": Kind.FORM,
    "Window.name": Kind.NAME,
    "Yardstick.name": Kind.FORM,
    "Series.columns": Kind.FORM,
}

_OWN: Mapping[str, str] = {
    "Verdict": "cause rule kind doubts",
    "Evidence": "signal unit reading",
    "Advice": "kind cures",
    "Finding": "rule cause bucket kind",
    "Checked": "rule part reading operator unit threshold_id",
    "Account": "merged basis",
    "Bucket": "name",
    "Part": "kind what",
    "Waited": "what",
    "Pause": "what",
    "Ranking": "by",
    "DiffTable": "match",
    "FunctionKey": "root",
    "IterationModel": "why_left_out bound batch_from",
    "Setting": "kind",
    "Tried": "outcome",
    "SizeCall": "sets",
    "Parameter": "scale",
    "Cell": "cause kind",
    "Objective": "kind",
    "Straggler": "kind",
    "Limits": "quota_view",
    "Library": "name packages starts per files",
    "Honours": "library version quota views python source",
    "Variable": "name cap",
    "Size": "origin variable",
    "Crew": "role",
    "Own": "kind",
    "HistoryRun": "cause kind",
    "Change": "cause kind",
    "Tier": "kind",
    "History": "metric",
    "Compared": "cause kind",
}

_RESULTS: Mapping[str, Kind] = {
    "SideSummary.label": Kind.FILE,
    "SideSummary.files": Kind.FILE,
    "SideSummary.host": Kind.HOST,
    "SideSummary.python": Kind.FORM,
    "SideSummary.command": Kind.COMMAND,
    "SideSummary.environment": Kind.ENVIRONMENT,
    "Inventory.environment": Kind.ENVIRONMENT,
    "ProcessNeed.role": Kind.FORM,
    "ProcessNeed.host": Kind.HOST,
    "HostNeed.name": Kind.HOST,
    "Verdict.subject": Kind.NAME,
    "Verdict.numbers": Kind.NAME,
    "Evidence.baseline": Kind.NAME,
    "Evidence.candidate": Kind.NAME,
    "Evidence.subject": Kind.NAME,
    "Evidence.numbers": Kind.NAME,
    "Advice.argv": Kind.COMMAND,
    "Advice.env": Kind.ENVIRONMENT,
    "Advice.files": Kind.FILE,
    "Advice.subject": Kind.NAME,
    "Advice.numbers": Kind.NAME,
    "Finding.subject": Kind.NAME,
    "Finding.numbers": Kind.NAME,
    "Checked.value": Kind.NAME,
    "Part.name": Kind.NAME,
    "Waited.name": Kind.NAME,
    "DiffTable.name": Kind.NAME,
    "FunctionLines.name": Kind.NAME,
    "SeenLine.name": Kind.NAME,
    "SeenLine.source_hash": Kind.FORM,
    "RangeKey.name": Kind.NAME,
    "RangeKey.domain": Kind.NAME,
    "IterationModel.thread": Kind.NAME,
    "IterationModel.iteration": Kind.NAME,
    "IterationModel.loads": Kind.NAME,
    "IterationModel.computes": Kind.NAME,
    "IterationModel.waits": Kind.NAME,
    "Setting.name": Kind.LABEL,
    "Setting.baseline": Kind.NAME,
    "Setting.candidate": Kind.NAME,
}

#: Results of studies: of settings, of the processes of a job, of a machine.
_STUDIES: Mapping[str, Kind] = {
    "Parameter.name": Kind.NAME,
    "Parameter.values": Kind.COMMAND,
    "Cell.setting": Kind.COMMAND,
    "Cell.problem": Kind.MESSAGE,
    "Objective.text": Kind.MESSAGE,
    "Objective.what": Kind.MESSAGE,
    "Objective.file": Kind.FILE,
    "Parameter.words": Kind.COMMAND,
    "Space.command": Kind.COMMAND,
    "Tried.problem": Kind.MESSAGE,
    "VerifyReport.command": Kind.COMMAND,
    "VerifyReport.changed": Kind.COMMAND,
    "VerifyReport.variables": Kind.ENVIRONMENT,
    "VerifyReport.edit": Kind.NAME,
    "Space.listed": Kind.COMMAND,
    "SweepReport.compared": Kind.COMMAND,
    "TuneReport.compared": Kind.COMMAND,
    "Member.label": Kind.FILE,
    "Member.path": Kind.FILE,
    "Member.host": Kind.HOST,
    "Member.command": Kind.COMMAND,
    "Member.started": Kind.FORM,
    "Member.projects": Kind.PLACE,
    "Configuration.argument": Kind.FILE,
    "Configuration.words": Kind.COMMAND,
    "Configuration.environment": Kind.ENVIRONMENT,
    "Configuration.revision": Kind.FORM,
    "Configuration.host": Kind.HOST,
    "Compared.files": Kind.FILE,
    "Compared.named": Kind.FILE,
    "HistoryRun.files": Kind.FILE,
    "HistoryRun.started": Kind.FORM,
    "HistoryRun.command": Kind.COMMAND,
    "HistoryRun.revision": Kind.FORM,
    "Change.before_file": Kind.FILE,
    "Change.after_file": Kind.FILE,
    "RankStudy.slow_host": Kind.HOST,
    "Deviation.range": Kind.NAME,
    "RangeRow.domain": Kind.NAME,
    "RangeRow.name": Kind.NAME,
    "Limits.slurm": Kind.LABEL,
    "Limits.container": Kind.LABEL,
    "Ranks.launcher": Kind.LABEL,
    "Ranks.policy": Kind.LABEL,
    "Python.path": Kind.PLACE,
    "Python.version": Kind.LABEL,
    "Size.packages": Kind.LABEL,
    "Size.unseen": Kind.LABEL,
    "Own.name": Kind.NAME,
    "Diagnosis.advice": Kind.NAME,
    "DoctorReport.command": Kind.COMMAND,
    "DoctorReport.problem": Kind.MESSAGE,
}

_DECLARED: Mapping[str, Kind] = {
    **_RUN,
    **_RESULTS,
    **_STUDIES,
    **{f"{owner}.{field}": Kind.OWN for owner, names in _OWN.items() for field in names.split()},
}


def declared(owner: str, field: str) -> Kind:
    """Return what a field of a type holds; `Kind.UNDECLARED` if it is not in the table."""
    return _DECLARED.get(f"{owner}.{field}", Kind.UNDECLARED)
