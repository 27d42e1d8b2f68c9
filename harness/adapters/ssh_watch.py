"""What asyncssh asks us while one machine is logged in to: is this its key, what can we log in with. And the end of the connection.

Which identity the host took is told by the one that had to sign: a host is asked about a key before anything is signed with it.

The key of a host is asked about again for as long as its connection is used: who takes a key out of known_hosts, or revokes it, is heard at
the next use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import asyncssh

from harness.adapters import known_hosts
from harness.adapters.asyncssh_errors import fault_of
from harness.adapters.known_hosts import Known, KnownHostsUnreadable, Verdict
from harness.adapters.ssh_asking import TRIES, password_for, prompt_of
from harness.adapters.ssh_identities import Identities
from harness.adapters.ssh_settings import Leg
from harness.core.reports import Step, Unreachable
from harness.core.text import host_text
from harness.ports import AskPerson


@dataclass(slots=True)
class Trust:
    """That the key of one machine was accepted, and by which state of the files. `accepted` are fingerprints."""

    leg: Leg
    key: asyncssh.SSHKey
    stamp: known_hosts.Stamp
    accepted: frozenset[str]

    def holds(self) -> bool:
        """Whether the key is accepted now; costs a stat for each file where nothing has changed.

        A key that a certificate vouched for is not decided here: after a change of the files it has to be shown again.
        """
        stamp = known_hosts.stamp(self.leg.settings.trust_files)
        if stamp == self.stamp:
            return True
        try:
            known = known_of(self.leg)
        except KnownHostsUnreadable:
            return False
        if known.verdict(self.key) is not Verdict.TRUSTED:
            return False
        self.stamp, self.accepted = stamp, known.fingerprints()
        return True


def known_of(leg: Leg) -> Known:
    """What known_hosts says of a machine now. Raises KnownHostsUnreadable."""
    settings = leg.settings
    return known_hosts.look_up(
        settings.known_hosts, leg.host, leg.port, settings.host_key_alias, settings.revoked_host_keys
    )


class Watch(asyncssh.SSHClient):
    """Decides on the host key, hands out the identities, and sees the end of one connection."""

    def __init__(self, leg: Leg, known: Known, identities: Identities, ask: AskPerson | None) -> None:
        self._leg = leg
        self._known = known
        self._identities = identities
        self._offered = False
        self._ask = ask
        self._passwords = 0
        self._used: dict[str, None] = {}
        self._listeners: list[Callable[[], None]] = []
        self.presented: asyncssh.SSHKey | None = None
        self.verdict: Verdict | None = None
        self.lost: str | None = None
        self.unasked: dict[str, None] = {}  # what the host would have taken from a person

    @property
    def credential(self) -> str | None:
        """See `Connection.credential`."""
        return "+".join(self._used) or None

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once when the connection is gone; at once if it is gone already."""
        if self.lost is None:
            self._listeners.append(listener)
        else:
            listener()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncssh after all channels have been told."""
        self.lost = fault_of(exc).text if exc is not None else "the connection was closed"
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Every plain host key is decided here, also at a later key exchange."""
        self.presented = key
        self.verdict = self._known.verdict(key)
        return self.verdict is Verdict.TRUSTED

    async def public_key_auth_requested(self) -> Sequence[asyncssh.SSHKeyPair] | None:
        """All identities at once; where none of them was taken, those with a passphrase, one by one; then none."""
        if not self._offered:
            self._offered = True
            if self._identities.keys:
                return self._noticed(self._identities.keys)
        return None if self._ask is None else self._noticed(await self._identities.unlock_next(self._ask))

    def _noticed(self, keys: list[asyncssh.SSHKeyPair] | None) -> list[asyncssh.SSHKeyPair] | None:
        """`keys`, each of which says so when it signs."""
        for pair in keys or ():
            _on_signing(pair, partial(self._use, self._identities.reference(pair)))
        return keys

    def _use(self, reference: str) -> None:
        self._used[reference] = None

    async def password_auth_requested(self) -> str | None:
        """Asks a person, a few times at most."""
        if self._ask is None:
            self.unasked["a password"] = None
        self._passwords += 1
        if self._ask is None or self._passwords > TRIES:
            return None
        self._use("prompt:password")
        return await self._ask(password_for(self._leg.place))

    def kbdint_auth_requested(self) -> str | None:
        """One-time codes and the like, where there is a person."""
        if self._ask is None:
            self.unasked["an answer (a password, a one-time code)"] = None
        return None if self._ask is None or self._passwords >= TRIES else ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Passes the host's prompts on."""
        self._passwords += 1 if prompts else 0
        answers: list[str] = []
        if prompts:
            self._use("prompt:keyboard-interactive")
        for prompt, echo in prompts:
            answer = None if self._ask is None else await self._ask(prompt_of(self._leg.place, prompt, echo))
            if answer is None:
                return None
            answers.append(answer)
        return answers


def _on_signing(pair: asyncssh.SSHKeyPair, tell: Callable[[], None]) -> None:
    """Calls `tell` before `pair` signs, here or in an agent."""
    name = "sign_async" if hasattr(pair, "sign_async") else "sign"
    sign = getattr(pair, name)

    def signing(data: bytes) -> object:
        tell()
        return sign(data)

    setattr(pair, name, signing)


def refusal(reason: str, text: str) -> Unreachable:
    """A machine that was connected to and will not let us in, or that we do not trust."""
    return Unreachable(Step.CONNECTED, reason, permanent=True, text=text)


def host_key_refused(
    leg: Leg, known: Known, watch: Watch, error: asyncssh.HostKeyNotVerifiable
) -> Unreachable:
    """In words: which key, against which line, and what to type where it is only unknown."""
    key = watch.presented
    if key is None or watch.verdict is None:
        if "revoked" in error.reason:  # asyncssh's own word, said before the watch is asked
            text = f"the certificate of the host, or its authority, is revoked: {_named(known.revoked)}; it is not to be trusted"
            return refusal("host-key-revoked", f"{leg.place}: {text}")
        return refusal("host-certificate", f"{leg.place}: {host_text(error.reason)}")
    shown = f"the host shows the key {key.get_algorithm()} {known_hosts.fingerprint(key)}"
    match watch.verdict:
        case Verdict.REVOKED:
            return refusal(
                "host-key-revoked", f"{leg.place}: {shown}, which is revoked by {known.revoked_at(key)}"
            )
        case Verdict.CHANGED:
            text = (
                f"{shown}, but known_hosts has another one: {_named(known.trusted)}; it may be another machine;"
                " if its owner confirms the change, replace that line"
            )
            return refusal("host-key-changed", f"{leg.place}: {text}")
        case Verdict.UNKNOWN | Verdict.TRUSTED:
            file = (*leg.settings.known_hosts, "known_hosts")[0]
            line = known_hosts.line_for(known.name, key)
            text = f"{shown}, which is not known; if its owner confirms it, add this line to {file}: {line}"
            return refusal("host-key-unknown", f"{leg.place}: {text}")


def _named(entries: Sequence[known_hosts.Entry]) -> str:
    """The first places, with the fingerprints of their keys."""
    more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
    return ", ".join(f"{one.where} ({known_hosts.fingerprint(one.key)})" for one in entries[:3]) + more


def login_refused(
    leg: Leg, identities: Identities, watch: Watch, error: asyncssh.DisconnectError
) -> Unreachable:
    """A login that was refused is explained by a key that was held back, else by the host's words; what was offered is named."""
    fault = fault_of(error)
    if fault.reason != "auth-failed":
        return Unreachable(Step.CONNECTED, fault.reason, fault.permanent, f"{leg.place}: {fault.text}")
    refused = f"{leg.place}: login refused; tried: {identities.offered()}"
    if "too many" in fault.text.lower():
        text = "the host ended it after too many keys; next: name the right one with -i FILE -o IdentitiesOnly=yes"
        return refusal(fault.reason, f"{refused}; {text}")
    if watch.unasked:
        wanted = " or ".join(watch.unasked)
        refused += f"; the host would take {wanted}, and there is no terminal to ask at"
    note = identities.explanation()
    if note is not None:
        return refusal(note.reason, f"{refused}; {note.text}")
    port = "" if leg.port == known_hosts.DEFAULT_PORT else f"-p {leg.port} "
    way = f"see whether ssh {port}{leg.account}@{leg.host} gets in; else name a key with -i FILE, or give it to the agent with ssh-add"
    return refusal(fault.reason, f"{refused}; next: {way}")
