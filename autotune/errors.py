"""Every error this package raises on purpose, named by how the caller must react.

::

    AutotuneError                     message, hint, where; one exit code per branch
    ├── UserError (2)                 the command or a file must be changed
    │   ├── SettingsError             a study file is wrong
    │   ├── SearchSpaceError          a search space or a configuration in it is wrong
    │   ├── UnitUnsupportedError      flags cannot safely be exchanged in this unit
    │   └── StudyMismatchError        the stored study differs from what was asked for
    ├── HostError (3)                 stop the study, restore the baseline; no trial is blamed
    │   ├── PortTakenError            a process that is not ours listens on the port
    │   ├── HostBusyError             another command is at work on this host, study or machine
    │   ├── BaselineError             the baseline itself does not start or does not answer
    │   ├── LeaseLostError            another tuner, or the host's own timer, has taken over
    │   ├── LiveTrafficError          requests of others are in flight: nothing is stopped
    │   ├── RestoreError              the host could not be put back as it was found
    │   ├── SshError                  there is no way to the host
    │   │   ├── HostKeyError          its key is unknown or has changed
    │   │   ├── AuthError             it lets this user in with none of the keys
    │   │   ├── ConnectionLostError   the connection cannot be made or is gone
    │   │   └── RemoteTimeout         a command did not end in its time and was ended
    │   └── SystemdError              systemd does not do what a night needs
    │       ├── UnitStateError        the unit is not there, or not in a state to be tuned
    │       └── PermissionDenied      a command that needs root is not allowed
    ├── ServerError (4)               decides one trial, never the study
    │   ├── ConfigurationRejected     the server refused its arguments
    │   ├── OutOfMemory               memory ran out while loading or capturing
    │   ├── ServerCrashed             the process ended without a reason we can read
    │   ├── ServerNeverReady          the deadline passed before a checked generation
    │   └── FlagsMismatch             the server runs other flags than it was given
    ├── MeasurementError (5)          the figures of one trial cannot be trusted
    │   ├── UsageMissing              the server does not say how many tokens it produced
    │   ├── NothingSucceeded          not one request of a cell succeeded
    │   ├── TooManyFailures           fewer requests succeeded than the study demands
    │   ├── ImpossibleMetric          a metric is infinite, not a number or negative
    │   ├── MeasurementPaused         the load generator was stopped, or its machine slept, meanwhile
    │   └── ServerDisturbed           somebody else restarted or stopped the server meanwhile
    └── EvaluationError (6)           the coding evaluation cannot be trusted: stop
        ├── SandboxUnavailable        generated code cannot be isolated here
        └── ProblemSetChanged         the problems differ from those of earlier trials
"""

from __future__ import annotations


class AutotuneError(Exception):
    """Root of the tree: what happened, where, and what to do next.

    Attributes:
        message: one sentence that says what happened.
        hint: what the user can do about it; ``None`` when nothing is known to help.
        where: file, trial, URL or process that it happened to.
        exit_code: what the command line returns when this error ends the command.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        """Render ``where: message (hint)``, leaving out what is unknown."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class UserError(AutotuneError):
    """The command line or a file must be changed before trying again."""

    exit_code = 2


class SettingsError(UserError):
    """A study file has an unknown key, a wrong value, or cannot be read."""


class SearchSpaceError(UserError):
    """A search space is inconsistent, or a configuration lies outside it."""


class UnitUnsupportedError(UserError):
    """The way in which a unit starts its server does not let flags be exchanged safely."""


class StudyMismatchError(UserError):
    """The stored study was made with other settings: name a new study or put the settings back."""


class HostError(AutotuneError):
    """The machine or the way to it is at fault: stop the study, restore the baseline, blame no trial."""

    exit_code = 3


class PortTakenError(HostError):
    """A process that is not ours listens on the server's port; it is never stopped."""


class HostBusyError(HostError):
    """Another command holds this host or study, or would spoil figures on this machine: wait for it or stop it."""


class BaselineError(HostError):
    """The baseline does not start or does not answer: mend the server before tuning it."""


class RestoreError(HostError):
    """The host could not be put back as it was found: the message says what is left to do."""


class LeaseLostError(HostError):
    """Another tuner or the host's own timer has taken over: this one must not change anything any more."""


class LiveTrafficError(HostError):
    """Requests of others are in flight, so the server is not stopped."""


class SshError(HostError):
    """There is no way to the host."""


class HostKeyError(SshError):
    """The host's key is unknown or has changed: nothing was sent to it."""


class AuthError(SshError):
    """The host lets this user in with none of the keys."""


class ConnectionLostError(SshError):
    """The connection cannot be made or is gone; whether the last command ran is unknown."""


class RemoteTimeout(SshError):
    """A command did not end in its time and was ended, on the host too."""


class SystemdError(HostError):
    """systemd does not do what a night needs."""


class UnitStateError(SystemdError):
    """The unit is not there, or not in a state in which it can be tuned."""


class PermissionDenied(SystemdError):
    """A command that needs root is not allowed."""


class ServerError(AutotuneError):
    """The server did not come up or died; decides one trial, never the study.

    Attributes:
        log_lines: the lines of the server's log that say why, oldest first; untrusted text.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        where: str | None = None,
        log_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.log_lines = log_lines


class ConfigurationRejected(ServerError):
    """The server refused its arguments: the configuration is infeasible, do not retry."""


class OutOfMemory(ServerError):
    """Memory ran out while loading or capturing: the configuration is infeasible, do not retry."""


class ServerCrashed(ServerError):
    """The process ended for no reason that we can read: retry once, then ask the baseline."""


class ServerNeverReady(ServerError):
    """The deadline passed before a checked generation: retry once, then ask the baseline."""


class FlagsMismatch(ServerError):
    """The server reports other flags than it was started with: its figures belong to no configuration."""


class MeasurementError(AutotuneError):
    """The figures of one trial cannot be trusted: the trial fails, the study goes on."""

    exit_code = 5


class UsageMissing(MeasurementError):
    """The server does not report how many tokens it produced, so tokens per second are unknown."""


class NothingSucceeded(MeasurementError):
    """Not one request of a cell succeeded: no latency and no speed exists."""


class TooManyFailures(MeasurementError):
    """Fewer requests succeeded than the study demands."""


class ImpossibleMetric(MeasurementError):
    """A metric is infinite, not a number or negative: something upstream measured nothing."""


class MeasurementPaused(MeasurementError):
    """The load generator did not run for a part of the measurement: it was stopped, or its machine slept."""


class ServerDisturbed(MeasurementError):
    """Somebody else restarted the server in the middle of a trial, which says nothing about its configuration."""


class EvaluationError(AutotuneError):
    """The coding evaluation cannot be trusted: stop, because every later trial would be wrong too."""

    exit_code = 6


class SandboxUnavailable(EvaluationError):
    """Generated code cannot be isolated on this machine."""


class ProblemSetChanged(EvaluationError):
    """The coding problems differ from those that earlier trials of this study answered."""
