"""Checks of the machine: one function per requirement, each with its finding and advice."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

OLDEST_JAVA = 17
OLDEST_PYTHON = (3, 11)
PACKAGES = ("pyspark", "pyarrow", "polars")
ENOUGH_MEMORY_GB = 4.0


@dataclass(frozen=True)
class Check:
    """One check: `state` is ok, warn or fail; `advice` says what to do if it is not ok."""

    name: str
    state: str
    found: str
    advice: str = ""


def check_java() -> Check:
    """Java 17 or later: of JAVA_HOME if that is set, else the first on PATH."""
    from tidegate.spark.session import java_version

    release, home = java_version(), os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "PATH"
    advice = f"install Java {OLDEST_JAVA} or later (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if release is None:
        return Check("Java", "fail", f"none in {where}", advice)
    state = "ok" if release >= OLDEST_JAVA else "fail"
    return Check("Java", state, f"{release}, by {where}", "" if state == "ok" else advice)


def check_python() -> Check:
    """Check for Python 3.11 or later."""
    installed = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Check("Python", "ok", f"{installed} ({sys.executable})")
    return Check("Python", "fail", installed, "install Python 3.11 or later and make a new environment with it")


def check_package(name: str) -> Check:
    """Check that a Python package is installed in a supported version."""
    oldest, first_too_new = supported_versions(name)
    required = f"{name}>={_dotted(oldest)}" + (f",<{_dotted(first_too_new)}" if first_too_new else "")
    advice = f"pip install '{required}'"
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Check(name, "fail", "not installed", advice)
    numbers = _numbers(installed)[:3]
    fits = numbers >= oldest and (first_too_new is None or numbers < first_too_new)
    return Check(name, "ok" if fits else "fail", installed, "" if fits else advice)


def supported_versions(name: str) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the oldest version of a package that tidegate is installed with, and the first that is too new."""
    [bounds] = [line[len(name) :] for line in requires("tidegate") or () if re.match(rf"{name}[<>]", line)]
    found = {sign: _numbers(release) for sign, release in re.findall(r"(>=|<)([\d.]+)", bounds)}
    return found[">="], found.get("<")


def check_memory() -> Check:
    """Check for enough memory for a JVM and a few Python workers."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    if total >= ENOUGH_MEMORY_GB:
        return Check("memory", "ok", f"{total:.1f} GB")
    return Check("memory", "warn", f"{total:.1f} GB", f"{ENOUGH_MEMORY_GB:.0f} GB are comfortable for Spark")


def check_kafka() -> Check:
    """Check what FROM KAFKA and INTO KAFKA need. It is never a failure, since nothing else needs it."""
    from tidegate.connectors.kafka import jars

    spark = _version("pyspark")
    if spark is None:
        return Check("Kafka", "warn", "its jars go with PySpark, which is not installed")
    if _version("confluent-kafka") is None or _version("fastavro") is None:
        return Check("Kafka", "warn", "no Python client", "to read or write Kafka: pip install 'tidegate[kafka]'")
    folder = jars.folder(spark)
    if jars.in_folder(folder):
        return Check("Kafka", "ok", f"connector jars in {folder}")
    return Check(
        "Kafka",
        "ok",
        f"no connector jars in {folder}: Spark fetches {jars.package(spark)} when it is first needed",
        f"without a way to Maven: put {', '.join(jars.NEEDED)} there, or into a folder that {jars.FOLDER} names",
    )


def check_machine() -> list[Check]:
    """All checks of the machine."""
    packages = [check_package(name) for name in PACKAGES]
    return [check_python(), check_java(), *packages, check_memory(), check_kafka()]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)
