"""The errors a user can act on: one base class, a kind for each of the causes, one line of text each."""


class EdgeInferError(Exception):
    """Base of all errors raised on purpose.  `exit_code` is what the command line returns for it."""

    exit_code = 1


class FormatError(EdgeInferError):
    """A file is damaged, incomplete or not what it says; the text names the file's fault."""


class UnsupportedError(EdgeInferError):
    """A sound file that needs something edgeinfer does not have yet; the text names it and what there is."""


class BackendError(EdgeInferError):
    """The machine cannot do it: not enough memory, no free sequence, results that are not finite."""


class RequestError(EdgeInferError, ValueError):
    """The caller asked for something impossible; the text names the argument and its bounds."""

    exit_code = 2


class ContextFullError(RequestError):
    """A prompt does not fit into the context; the text names both sizes."""
