"""A strict S3 server on loopback, in path style. What it verifies is written from Amazon's documents.

lab = S3Lab(folder)
(lab.root / "bucket" / "some/key").write_bytes(b"...")      # files are objects, folders of `root` are buckets
"""

from labs.s3.lab import S3Lab

__all__ = ["S3Lab"]
