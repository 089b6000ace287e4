"""The product: the `nemotron` command. The toolkit under it is `nemo_runspec`."""

__version__ = "0.1.0"

DOCUMENTATION = "https://nemotron.a-seed-156bd48f.example/docs/"
"""Where docs/ can be read: the address in the help, in pyproject.toml and in mkdocs.yml."""
