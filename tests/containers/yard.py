"""More hosts of the `debian` image beside those of docker/compose.yml: on the same network, made for one file of tests and removed after it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.containers.hosts import Host

IMAGE = "ssh-harness-test/debian"

# Host keys, a way in for the accounts, and the server; what a test adds comes before.
_SETUP = """set -eu
for home in /root:root /home/ops:ops; do
    file=${home%:*}/.ssh
    mkdir -p "$file" && chmod 700 "$file" && printf '%s\\n' "$PUBLIC_KEY" >"$file/authorized_keys"
    chown -R "${home#*:}" "$file"
done
"""
_READY = (
    "until (: </dev/tcp/127.0.0.1/$0) 2>/dev/null; do sleep 0.05; done; cat /etc/ssh/ssh_host_ed25519_key.pub"
)


class Yard:
    """Makes hosts. `network` is the one of the session's compose project, in which they find each other by name."""

    def __init__(self, project: str, key_file: Path, folder: Path) -> None:
        self._project = project
        self._key_file = key_file
        self._folder = folder

    @contextmanager
    def host(
        self,
        name: str,
        *,
        setup: str = "",
        published: int | None = None,
        port: int = 22,
        more: Sequence[str] = (),
        image: str = IMAGE,
    ) -> Iterator[Host]:
        """A host that answers to `name` on the network, and at a published port of 127.0.0.1 if there is one; `setup` runs before its server.

        `port` is where its server listens; `image` may be one that was made of another host. Its known_hosts file names it as ssh would.
        """
        public = Path(f"{self._key_file}.pub").read_text().strip()
        start = f"if [ ! -e /set-up ]; then\n{_SETUP}{setup}\n>/set-up; fi; exec sh /usr/local/sbin/start"
        ports = [] if published is None else ["--publish", f"127.0.0.1:{published}:{port}"]
        container = _docker(
            "run", "--detach", "--hostname", name, "--env", f"PUBLIC_KEY={public}",
            "--label", f"com.docker.compose.project={self._project}",
            "--network", f"{self._project}_default", "--network-alias", name,
            *ports, *more, image, "sh", "-c", start,
        )  # fmt: skip
        try:
            key = _docker("exec", container, "bash", "-c", _READY, str(port)).split()[:2]
            known = self._folder / f"known_{name}"
            at = name if published is None else "127.0.0.1"
            number = port if published is None else published
            known.write_text(f"{at if number == 22 else f'[{at}]:{number}'} {' '.join(key)}\n")
            yield Host(name, number, "ops", self._key_file, known, container)
        finally:
            _docker("rm", "--force", "--volumes", container)


def start_again(host: Host) -> None:
    """Starts a host after `kill`, and waits for nothing."""
    _docker("start", host.container)


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, check=False, text=True)
    if done.returncode:
        raise AssertionError(f"docker {arguments[0]}: {done.stderr}")
    return done.stdout.strip()
