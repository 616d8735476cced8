"""gitstate: a git repository as the record of what a batch of slow or paid work has finished."""

__version__ = "0.1.0"
