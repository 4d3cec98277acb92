"""Addresses that let somebody else put one object into the corpus bucket."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from opx.adapters.aws.object_metadata import to_headers
from opx.adapters.aws.object_store import MISSING
from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.adapters.limits import check_metadata, check_object_key
from opx.ports import SignedPut

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_META = "x-amz-meta-"
_ALGORITHM = "SHA256"


class S3UploadSigner:
    """An `UploadSigner` for an S3 bucket.

    Size, checksum and metadata are signed as headers, so that S3 refuses a request with others, and bytes that the
    checksum is not of. S3 keeps the checksum with the object. The client must sign with version 4 (`s3v4`), as version 2
    covers neither size nor checksum, and address buckets as hosts (`virtual`): else botocore signs addresses of S3's
    global endpoint, which redirects to regions where the signature is not valid.
    """

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedPut:
        check_object_key(key)
        check_metadata(metadata or {})
        headers = to_headers(metadata or {})
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode("ascii")
        url = self._client.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": key,
                "ContentLength": size,
                "ChecksumAlgorithm": _ALGORITHM,
                "ChecksumSHA256": checksum,
                "Metadata": headers,
            },
            ExpiresIn=seconds,
        )
        signed = {
            "content-length": str(size),
            "x-amz-checksum-sha256": checksum,
            "x-amz-sdk-checksum-algorithm": _ALGORITHM,
        }
        return SignedPut(url, signed | {_META + name: value for name, value in headers.items()})

    def sha256_of(self, key: str) -> str:
        with translated_errors(f"read s3://{self._bucket}/{key}"):
            try:
                facts = self._client.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
            except ClientError as exc:
                if error_code(exc) in MISSING:
                    return ""
                raise
        # An object that was put in parts has a checksum of their checksums, with the number of parts behind it.
        checksum = facts.get("ChecksumSHA256", "")
        return "" if "-" in checksum else base64.b64decode(checksum).hex()
