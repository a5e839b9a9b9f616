"""Which processes belong to one command, and how they are all ended: a POSIX shell script that runs beside them."""

from __future__ import annotations

from typing import Final

MARK: Final = "autotune-run-"
"""What the argument that marks the processes of one command begins with; a token follows."""

_END_COMMAND: Final = r"""
mark=$1 root=$2
[ -n "$root" ] || root=$(grep -l -s -a -e "[a]utotune-run-$mark" /proc/[0-9]*/cmdline | sed 's,^/proc/,,; s,/cmdline$,,')
[ -n "$root" ] || exit 0
below() {
  cat /proc/[0-9]*/stat 2>/dev/null |
    sed -n 's/^\([0-9]*\) (.*) \([A-Za-z]\) \([0-9]*\) [0-9]* \([0-9]*\) .*/\1 \3 \2 \4/p' |
    awk -v roots="$*" -v me=$$ '
      { parent[$1] = $2; state[$1] = $3; session[$1] = $4 }
      END {
        count = split(roots, given)
        for (i = 1; i <= count; i++) if (!(given[i] in found)) { found[given[i]] = 1; list[++n] = given[i] }
        for (i = 1; i <= n; i++) {
          for (p in parent)
            if (!(p in found) && (parent[p] == list[i] || session[p] == list[i])) { found[p] = 1; list[++n] = p }
        }
        for (i = 1; i <= n; i++) {
          p = list[i]
          if (p in state && state[p] != "Z" && state[p] != "X" && p != me && parent[p] != me) print p
        }
      }'
}
seen=$root
all=$(below $seen) || exit 1
for signal in TERM KILL SUDO; do
  if [ $signal = SUDO ]; then sudo -n -- kill -KILL $all 2>/dev/null || :
  else kill -$signal $all 2>/dev/null || :
  fi
  for tick in 1 2 3 4 5; do
    # The children of a process that has ended are below another one now: they are looked for by their own ids, and
    # those that came meanwhile by their session.
    seen="$seen $all"
    all=$(below $seen) || exit 1
    [ -n "$all" ] || exit 0
    sleep 0.1
  done
done
echo $all
"""


def end_command(*, token: str = "", pid: int | None = None) -> tuple[str, ...]:
    """Return the command that ends all processes of another one.

    They get SIGTERM, half a second later SIGKILL; what belongs to another user is ended through ``sudo -n kill``
    where that is allowed. It prints the ids of those that still live, nothing when all are gone; its exit code is
    not 0 when it could not look.

    Args:
        token: they descend from a process with the argument ``MARK + token``.
        pid: or they descend from this one.
    """
    return ("sh", "-c", _END_COMMAND, "end", token, "" if pid is None else str(pid))


def describe_left(exit_code: int, printed: str) -> str:
    """Say in a clause what :func:`end_command` could not end; empty when nothing is left.

    Args:
        exit_code: of that command.
        printed: by it.
    """
    left = printed.split()
    if exit_code != 0:
        return ", as far as could be done: whether all its processes are gone is unknown"
    if not left:
        return ""
    return (
        f"; process {', '.join(left)}, of another user perhaps, could not be ended and goes on until it ends by itself"
    )
