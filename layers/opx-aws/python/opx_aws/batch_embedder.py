"""Embeds files of texts by batch inference of Bedrock: half the price, hours instead of seconds.

Amazon Bedrock user guide, "Process multiple prompts with batch inference", "Format and upload your batch inference data" and
"View the results of a batch inference job"; API reference, `CreateModelInvocationJob`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from opx.errors import InvalidInputError, ThrottledError
from opx.ports import Vectors
from opx.ports.bulk import BatchLimits, BatchPhase, BatchState
from opx_aws.bedrock_embedder import BedrockEmbedder
from opx_aws.vendor_errors import answers, error_code, passed_over, translated_errors

TIMEOUT_HOURS = 72
"""Hours after which the service gives a job up, which it may do while the job waits for capacity; 24 to 168 are possible."""

QUOTA_SECONDS = 120.0
"""Pause before another job is tried while the account's quota of jobs is used up."""

INPUTS = "inputs.json"
"""Name of the file, beside a job's input folder, that names the original of each input."""

_FULL = ("ServiceQuotaExceededException", "ThrottlingException", "TooManyRequestsException")
_RUNNING = frozenset({"Submitted", "Validating", "Scheduled", "InProgress", "Stopping"})
_TOKEN = re.compile(r"[^a-zA-Z0-9-]+")
_NAME_LENGTH = 63
_RESULT = ".jsonl.out"


@dataclass(eq=False)
class BedrockBatchEmbedder:
    """`BatchEmbedder` for the model of a `BedrockEmbedder` that supports batch inference.

    The service reads a whole folder, so that the inputs of a job are copied into one of their own, below its outputs; it
    reads and writes in `role`. Outputs of a job that ended early are results like others.
    """

    bedrock: Any
    s3: Any
    bucket: str
    embedder: BedrockEmbedder
    role: str
    limits: BatchLimits

    @property
    def model_id(self) -> str:
        return self.embedder.model_id

    def request(self, text: str) -> Mapping[str, Any]:
        return self.embedder.request(text)

    def vectors(self, output: Mapping[str, Any]) -> Vectors:
        return self.embedder.vectors_of(output)

    def start(self, name: str, inputs: Sequence[str], outputs: str) -> str:
        """Raises `InvalidInputError` for a job that the service refuses, `ThrottledError` while the quota is used up."""
        folder = f"{outputs.rstrip('/')}/"
        self._copy(inputs, folder)
        job_name = _TOKEN.sub("-", name)[-_NAME_LENGTH:].strip("-")
        with translated_errors(f"start the batch job {job_name}"):
            try:
                answer = self.bedrock.create_model_invocation_job(
                    jobName=job_name,
                    clientRequestToken=job_name,
                    roleArn=self.role,
                    modelId=self.embedder.called,
                    inputDataConfig={"s3InputDataConfig": {"s3Uri": self._uri(f"{folder}input/")}},
                    outputDataConfig={"s3OutputDataConfig": {"s3Uri": self._uri(folder)}},
                    timeoutDurationInHours=TIMEOUT_HOURS,
                )
                return str(answer["jobArn"])
            except ClientError as exc:
                return self._refused(job_name, exc)

    def _refused(self, job_name: str, error: ClientError) -> str:
        """Id of the job of this name, if that is why another one is refused; raises the error that it is else."""
        code = error_code(error)
        if code in _FULL:
            reason = "the quota of batch jobs is used up: more are started as others end"
            raise ThrottledError(reason, QUOTA_SECONDS) from error
        if code == "ValidationException":
            raise InvalidInputError(f"Bedrock refuses the batch job {job_name}: {_message(error)}") from error
        if code == "ConflictException":  # started so long ago that its token is forgotten
            known = self._known(job_name)
            if known:
                return known
        raise error

    def _known(self, job_name: str) -> str:
        request = {"nameContains": job_name}
        pages = answers(self.bedrock.list_model_invocation_jobs, request, "list batch jobs", mark="nextToken")
        found = (one for page in pages for one in page["invocationJobSummaries"] if one["jobName"] == job_name)
        return str(next(found, {"jobArn": ""})["jobArn"])

    def _copy(self, inputs: Sequence[str], folder: str) -> None:
        """Copies inputs within the bucket; another attempt copies them again, to the same."""
        by_name = {f"{number:05}.jsonl": key for number, key in enumerate(inputs)}
        with translated_errors("copy the texts of a batch job"):
            for name, key in by_name.items():
                source = {"Bucket": self.bucket, "Key": key}
                self.s3.copy_object(Bucket=self.bucket, Key=f"{folder}input/{name}", CopySource=source)
            body = json.dumps(by_name).encode()
            self.s3.put_object(Bucket=self.bucket, Key=folder + INPUTS, Body=body)

    def _uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def state(self, batch_id: str) -> BatchState:
        try:
            with translated_errors("look at a batch job"):
                found = self.bedrock.get_model_invocation_job(jobIdentifier=batch_id)
        except ClientError as exc:  # a malformed id; one that is unknown is an error of the store
            return BatchState(BatchPhase.FAILED, reason=_message(exc))
        status, message = str(found["status"]), str(found.get("message", ""))
        if status in _RUNNING:
            return BatchState(BatchPhase.RUNNING)
        outputs = self._outputs(found["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"], str(found["jobArn"]))
        reason = (
            "" if status == "Completed" and outputs else f"the batch job ended as {status}: {message or 'no results'}"
        )
        return BatchState(BatchPhase.ENDED if outputs else BatchPhase.FAILED, outputs, reason)

    def _outputs(self, uri: str, arn: str) -> dict[str, str]:
        """Keys of the results by the keys of their inputs."""
        folder = uri.removeprefix(self._uri(""))
        request = {"Bucket": self.bucket, "Prefix": f"{folder}{arn.rpartition('/')[2]}/"}
        pages = answers(
            self.s3.list_objects_v2,
            request,
            "list the results of a batch job",
            mark="NextContinuationToken",
            sent_as="ContinuationToken",
        )
        keys = [str(one["Key"]) for page in pages for one in page.get("Contents", ()) if one["Key"].endswith(_RESULT)]
        if not keys:
            return {}
        with translated_errors("read the inputs of a batch job"):
            known = self.s3.get_object(Bucket=self.bucket, Key=folder + INPUTS)["Body"].read()
        inputs: dict[str, str] = json.loads(known)
        named = {key.rpartition("/")[2].removesuffix(".out"): key for key in keys}
        return {inputs[name]: key for name, key in named.items() if name in inputs}

    def stop(self, batch_id: str) -> None:
        ended = ("ConflictException", "ResourceNotFoundException", "ValidationException")
        with translated_errors("stop a batch job"), passed_over(*ended):
            self.bedrock.stop_model_invocation_job(jobIdentifier=batch_id)


def _message(error: ClientError) -> str:
    """The service's message, which describes the job and quotes no text of it."""
    return str(error.response.get("Error", {}).get("Message", "")) or error_code(error)
