"""The product: the `nemotron` command. The toolkit under it is `nemo_runspec`."""

__version__ = "0.1.0"
