"""How Flink is set up: its ports, its memory, its settings file, and the commands that start its processes."""

from dataclasses import dataclass, field
from pathlib import Path

from engines.programs import java
from pipelines.ports import LOOPBACK, free_port


@dataclass(frozen=True)
class FlinkPorts:
    """Where the parts of a cluster listen; each is free unless given."""

    rest: int = field(default_factory=free_port)
    job_endpoint: int = field(default_factory=free_port)
    artifacts: int = field(default_factory=free_port)
    pool: int = field(default_factory=free_port)
    rpc: int = field(default_factory=free_port)


# Flink's scripts would work the memory out, in a Java process of their own; the sums are written down here instead.
_HEAP_MB, _FRAMEWORK_HEAP_MB = 1024, 128
_DIRECT_MB, _NETWORK_MB = 256, 256  # with less network memory: "Insufficient number of network buffers"
_METASPACE_MB = 512
_SETTINGS = """\
jobmanager.rpc.address: {host}
jobmanager.rpc.port: {ports.rpc}
jobmanager.bind-host: {host}
taskmanager.host: {host}
taskmanager.bind-host: {host}
rest.address: {host}
rest.bind-address: {host}
rest.port: {ports.rest}
taskmanager.numberOfTaskSlots: {slots}
taskmanager.cpu.cores: {slots}
taskmanager.memory.framework.heap.size: {framework_heap}m
taskmanager.memory.task.heap.size: {heap}m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.off-heap.size: 128m
taskmanager.memory.network.min: {network}m
taskmanager.memory.network.max: {network}m
taskmanager.memory.managed.size: 256m
taskmanager.memory.jvm-metaspace.size: {metaspace}m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
parallelism.default: 1
heartbeat.interval: 1000
heartbeat.timeout: {heartbeat_ms}
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: {restarts}
restart-strategy.fixed-delay.delay: 1s
state.backend.type: {state_backend}
state.checkpoints.dir: file://{folder}/checkpoints
state.savepoints.dir: file://{folder}/savepoints
io.tmp.dirs: {folder}/tmp
classloader.resolve-order: parent-first
classloader.check-leaked-classloader: false
"""
_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-60c %x - %m%n
"""
# What Flink reaches into, and Java 17 keeps closed.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/sun.nio.ch",
)
_EXPORTED = ("java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5")
_MODULES = tuple(
    [f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED]
    + [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED]
)
# The second compiler took half of the processor time of a TaskManager's first minute, and gives it back over hours; one
# thread collects garbage, for there are two cores.
_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LEAN = ("-Xmx512m", *_QUICK)


@dataclass(frozen=True)
class FlinkSettings:
    """A cluster's settings, and the commands of its processes.

    Attributes:
        folder: settings, logs, checkpoints, savepoints.
        libraries: the folder of Flink, as fetched.
        runner: the folder of Beam's runner, as fetched.
        ports: where it listens.
        slots: of each TaskManager.
        state_backend: hashmap or rocksdb.
        heartbeat_ms: after so long a silence a TaskManager is given up.
        restarts: how often a job that fails starts again, a second later, before it is given up.
    """

    folder: Path
    libraries: Path
    runner: Path
    ports: FlinkPorts
    slots: int = 2
    state_backend: str = "hashmap"
    heartbeat_ms: int = 6000
    restarts: int = 100

    @property
    def conf(self) -> Path:
        """The folder of the settings file."""
        return self.folder / "conf"

    @property
    def _job_server_jar(self) -> Path:
        return self.runner / "job-server.jar"

    def write(self) -> None:
        """Makes the folders and the settings file."""
        for name in ("conf", "checkpoints", "savepoints", "tmp", "artifacts"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS.format(
            host=LOOPBACK,
            ports=self.ports,
            slots=self.slots,
            heap=_HEAP_MB,
            framework_heap=_FRAMEWORK_HEAP_MB,
            network=_NETWORK_MB,
            metaspace=_METASPACE_MB,
            heartbeat_ms=self.heartbeat_ms,
            restarts=self.restarts,
            state_backend=self.state_backend,
            folder=self.folder,
        )
        (self.conf / "config.yaml").write_text(settings, "utf-8")
        (self.conf / "log4j.properties").write_text(_LOG4J, "utf-8")

    def job_manager(self) -> list[str]:
        """The command of the JobManager."""
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        return [*self._java(*_LEAN), main, "--configDir", str(self.conf), "--executionMode", "cluster"]

    def task_manager(self) -> list[str]:
        """The command of a TaskManager, of about 2.5 GB."""
        heap = _HEAP_MB + _FRAMEWORK_HEAP_MB
        memory = (
            f"-Xms{heap // 2}m",
            f"-Xmx{heap}m",
            f"-XX:MaxDirectMemorySize={_DIRECT_MB + _NETWORK_MB}m",
            f"-XX:MaxMetaspaceSize={_METASPACE_MB}m",
            *_QUICK,
        )
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        return [*self._java(*memory), main, "--configDir", str(self.conf)]

    def job_server(self) -> list[str]:
        """The command of Beam's job server."""
        options = {
            "flink-master": f"{LOOPBACK}:{self.ports.rest}",
            "flink-conf-dir": self.conf,
            "job-host": LOOPBACK,
            "job-port": self.ports.job_endpoint,
            "artifact-port": self.ports.artifacts,
            "expansion-port": 0,
            "artifacts-dir": self.folder / "artifacts",
        }
        command = [java(), *_LEAN, *_MODULES, "-jar", str(self._job_server_jar)]
        return [*command, *(f"--{name}={value}" for name, value in options.items())]

    def _java(self, *options: str) -> list[str]:
        """Java with Flink's own classes, without its tables, SQL and Scala, and with Beam's runner.

        A job brings the runner along, but its classes are taken from here: loaded once, not anew for every job.
        """
        library = self.libraries / "pyflink" / "lib"
        jars = [str(jar) for kind in ("log4j-*", "flink-dist-*") for jar in sorted(library.glob(f"{kind}.jar"))]
        log = f"-Dlog4j.configurationFile=file:{self.conf}/log4j.properties"
        return [java(), *options, *_MODULES, log, "-cp", ":".join([*jars, str(self._job_server_jar)])]
