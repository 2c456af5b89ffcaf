"""The core types: profile, function key, process, run, notice. Imports only numpy."""

from profkit.model.columns import ProfileError
from profkit.model.hardware import Host, Machine, Neighbour, Neighbours, Yardstick
from profkit.model.keys import BUILTIN, GENERATED, PROJECT, ROOTS, SITE, STDLIB, FunctionKey, Roots
from profkit.model.notices import Notice
from profkit.model.paths import Paths
from profkit.model.pauses import Pause
from profkit.model.process import CallSums, Effect, Pool, PoolOrigin, Process, Tier
from profkit.model.profile import Edges, Profile
from profkit.model.range_calls import RangeCalls
from profkit.model.ranges import Ranges
from profkit.model.run import Git, Job, Manifest, Run, RunSet, Sampler, Window
from profkit.model.series import Series, ThreadSamples
from profkit.model.thread import Line, OpenCall, Slice, Thread
