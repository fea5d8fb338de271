"""The command: ``python -m tests.bed.flink up``, ``submit``, ``status``, ``jobs``, ``restart``, ``down``."""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ldp_beam.telemetry.table import aligned
from ldp_core import LdpError
from tests.bed.flink.cluster import FlinkCluster
from tests.bed.flink.recipe import VERSIONS

CALLED = "python -m tests.bed.flink"
_EPILOG = """\
Examples:

  %(prog)s up
  %(prog)s submit -m pipelines.telemetry --plan plan.toml --input ...
  %(prog)s down

Python workers have the environment variables of `up`. For a secret:

  LDP_SECRET=... %(prog)s up
  LDP_SECRET=... %(prog)s restart worker-pool     # of workers that start then
"""
_LOOK_SECONDS = 2.0


def parser(called: str = CALLED) -> argparse.ArgumentParser:
    """The command line, as it is ``called``."""
    made = argparse.ArgumentParser(
        prog=called,
        description="A Flink cluster on this machine. It needs Java, and Maven for the first time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where: dict[str, Any] = {
        "metavar": "DIR",
        "help": "The folder for logs and process ids. (Default: in the user's cache.)",
    }
    made.add_argument("--dir", **where)
    commands = made.add_subparsers(
        dest="command", required=True, metavar="up | submit | status | jobs | restart | down"
    )
    up = commands.add_parser("up", help="Start a cluster, and print how to run a pipeline on it.")
    up.add_argument("--task-managers", type=int, default=2, metavar="N", help="How many, of one slot each (default 2).")
    up.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="The folder for checkpoints and savepoints, which is kept. (Default: within --dir, not kept.)",
    )
    up.add_argument("--high-availability", action="store_true", help="Jobs outlive a JobManager that is restarted.")
    submit = commands.add_parser(
        "submit",
        help="Run a pipeline there.",
        usage="%(prog)s (-m MODULE | SCRIPT) [ARGUMENT ...]",
        prefix_chars="+",  # all that follows is the pipeline's
        add_help=False,
    )
    submit.add_argument("python", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    status = commands.add_parser("status", help="Say what runs. The exit code is 1 unless everything does.")
    jobs = commands.add_parser("jobs", help="List the jobs, and what they failed with.")
    restart = commands.add_parser("restart", help="Start a process again, with the environment variables of now.")
    restart.add_argument("name", metavar="NAME", help="A name that `status` lists, for example taskmanager-1.")
    down = commands.add_parser("down", help="Stop it.")
    # also behind the command; of `submit` all that follows is the pipeline's
    for command in (up, status, jobs, restart, down):
        command.add_argument("--dir", default=argparse.SUPPRESS, **where)
    pool = commands.add_parser("worker-pool")  # without help: not for people
    pool.add_argument("--port", type=int, required=True)
    pool.add_argument("--logs", type=Path, required=True)
    pool.add_argument("--cluster", required=True)  # by which `stop` knows the process
    return made


def main(argv: Sequence[str] | None = None, *, called: str = CALLED) -> int:
    """Run the command; 0 if it succeeded, 1 if `status` finds something down, 2 if there is an error."""
    args = parser(called).parse_args(argv)
    try:
        if args.command == "worker-pool":
            from tests.bed.flink import workers

            workers.serve(args.port, args.logs, args.cluster)
        elif args.command == "up":
            cluster = FlinkCluster(
                args.dir,
                task_managers=args.task_managers,
                checkpoints=args.checkpoints,
                high_availability=args.high_availability,
            )
            cluster.start()
            return _report(cluster)
        elif args.command == "submit":
            return _submit(FlinkCluster(args.dir), args.python, called)
        elif args.command == "jobs":
            print(_table_of_jobs(FlinkCluster(args.dir)))
        elif args.command == "restart":
            cluster = FlinkCluster(args.dir)
            if cluster.running().get(args.name):
                cluster.kill(args.name)
            cluster.restart(args.name)
        elif args.command == "down":
            FlinkCluster(args.dir).stop()
        else:
            return _report(FlinkCluster(args.dir))
    except LdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _submit(cluster: FlinkCluster, arguments: list[str], called: str) -> int:
    """Run a pipeline's command, with the options of the cluster that are not among its own.

    While it runs, say what its job fails with: Flink starts it again and again, and Beam waits in silence.
    """
    if arguments[:1] in (["--help"], ["-h"]):
        print(
            f"usage: {called} submit (-m MODULE | SCRIPT) [ARGUMENT ...]\n\nruns a pipeline, with the cluster's options"
        )
        return 0
    if not arguments:
        raise LdpError("submit needs what to run: `submit -m pipelines.telemetry --plan ...`, `submit pipeline.py ...`")
    if {"--help", "-h"} & set(arguments):  # the pipeline's, which needs no cluster
        return subprocess.run([sys.executable, *arguments], check=False).returncode
    if not cluster.running() or not all(cluster.running().values()):
        raise LdpError(f"no whole cluster runs in {cluster.directory}; `up` starts one, `status` says what is there")
    given = {argument.partition("=")[0] for argument in arguments}
    flags = [flag for flag in cluster.pipeline_flags(streaming=True) if flag.partition("=")[0] not in given]
    if "--streaming" not in given:
        flags.remove("--streaming")  # for the pipeline to say; the rest does nothing to a batch
    said = set(_failures(cluster))
    with suppress(KeyboardInterrupt), subprocess.Popen([sys.executable, *arguments, *flags]) as process:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK_SECONDS)
            with suppress(LdpError):
                for job, when, failure in sorted(set(_failures(cluster)) - said):
                    said.add((job, when, failure))
                    print(f"{_clock(when)} job {job} failed: {failure}", file=sys.stderr, flush=True)
    return 130


def _failures(cluster: FlinkCluster) -> Iterator[tuple[str, int, str]]:
    """Id of the job, time in milliseconds, and reason, of all failures that Flink keeps."""
    for job in cluster.get("/jobs/overview")["jobs"]:
        for entry in cluster.get(f"/jobs/{job['jid']}/exceptions")["exceptionHistory"]["entries"]:
            yield job["jid"], entry["timestamp"], failure_of(entry["stacktrace"])


def failure_of(stacktrace: str) -> str:
    """What a Java stack trace is about, in a line: the Python error in it, or else its last cause."""
    _, traceback, python = stacktrace.partition("Traceback (most recent call last):")
    if traceback:
        lines = [line for line in python.partition("\n\tat ")[0].splitlines() if line.strip() and not line[0].isspace()]
        return lines[-1] if lines else "an error in Python"
    causes = [line for line in stacktrace.splitlines() if line and not line[0].isspace()]
    return causes[-1].removeprefix("Caused by: ") if causes else "an error"


def _table_of_jobs(cluster: FlinkCluster) -> str:
    found = cluster.get("/jobs/overview")["jobs"]
    if not found:
        return "no jobs"
    last = {job: f"{_clock(when)} {failure}" for job, when, failure in sorted(_failures(cluster))}
    rows = [[job["jid"], job["name"], job["state"], _clock(job["start-time"])] for job in found]
    return "\n".join(
        [aligned([["job", "name", "state", "since"], *rows])]
        + [f"job {job} failed last: {failure}" for job, failure in last.items()]
    )


def _clock(millis: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(millis / 1000))


def _report(cluster: FlinkCluster) -> int:
    running = cluster.running()
    if not running:
        print(f"no cluster in {cluster.directory}")
        return 1
    rows = [
        [name, str(cluster.processes[name]), "runs" if alive else "has ended", str(cluster.log(name))]
        for name, alive in running.items()
    ]
    rows += [[name, str(pid), "runs", str(cluster.log(name))] for name, pid in cluster.workers().items()]
    print(aligned([["process", "pid", "state", "log"], *rows]) + "\n")
    overview = cluster.get("/overview")
    print(_table_of_jobs(cluster) + "\n")
    facts = {
        "Flink": f"{VERSIONS['flink.version']}, http://{cluster.rest}",
        "slots": f"{overview['slots-available']} of {overview['slots-total']} free",
        "a pipeline's options": " ".join(cluster.pipeline_flags()),
        "of a stream": " ".join(cluster.pipeline_flags(streaming=True)),
    }
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name.ljust(width)}  {fact}")
    return 0 if all(running.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
