"""What a user is told of a failure of Spark."""

from pathlib import Path

import pytest

from tidegate.spark.failures import failure_error

TEXTS = {
    "Caused by: java.io.IOException: Broken pipe": "Broken pipe",
    ": java.io.IOException: Stream closed\n\tat java.base/java.lang.ProcessBuilder": "Stream closed",
    'Traceback\n  File "x"\npolars.exceptions.ComputeError: it overflows': "it overflows",
    "[FAILED] Query\norg.apache.spark.SparkException: Job aborted: a.MyError: no": "Job aborted: a.MyError: no",
    "it just ended": "it just ended",
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_reason_has_no_names_of_classes(text: str) -> None:
    error = failure_error(text, (), Path("spark.log"))
    assert (error.code, error.message) == ("PIPELINE_FAILED", f"the pipeline stopped: {TEXTS[text]}")
