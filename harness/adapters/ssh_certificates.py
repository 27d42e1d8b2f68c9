"""User certificates that cannot open the door: expired, for other accounts, without their key. sshd says nothing of the kind, only no."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncssh
from asyncssh.public_key import CERT_TYPE_USER, SSHOpenSSHCertificate, decode_ssh_certificate

from harness.core.text import host_text

Certificates = Sequence[asyncssh.SSHCertificate]


@dataclass(frozen=True, slots=True)
class Note:
    """Why an identity was not offered or not taken: a reason word and a sentence. It explains a failed login, it does not cause one."""

    reason: str
    text: str


def certificate_notes(
    keys: Sequence[asyncssh.SSHKeyPair], given: Certificates, account: str
) -> Iterator[Note]:
    """What is wrong with the certificates among `keys`, and those of `given` whose key is not there. They are offered all the same."""
    offered = [certificate for pair in keys if (certificate := _of(pair)) is not None]
    for certificate in offered:
        why = _wrong_with(certificate, account)
        if why:
            yield Note("certificate", f"certificate {_name(certificate)} {why}")
    there = {certificate.public_data for certificate in offered}
    for one in given:
        if isinstance(one, SSHOpenSSHCertificate) and one.public_data not in there:
            yield Note(
                "certificate-key",
                f"certificate {_name(one)} is of a key that is neither in an identity file nor in the agent",
            )


def _of(pair: asyncssh.SSHKeyPair) -> SSHOpenSSHCertificate | None:
    try:
        found = decode_ssh_certificate(pair.public_data)
    except ValueError:
        return None
    return found if isinstance(found, SSHOpenSSHCertificate) else None


def _name(certificate: SSHOpenSSHCertificate) -> str:
    return repr(host_text(str(certificate._key_id)))


def _wrong_with(certificate: SSHOpenSSHCertificate, account: str) -> str:
    """Why nobody takes it for `account`, as far as that can be told from here; empty where nothing is known."""
    now, after, before = time.time(), certificate._valid_after, certificate._valid_before
    if certificate._cert_type != CERT_TYPE_USER:
        return "is a host's, not a user's"
    if now >= before:
        return f"expired at {_moment(before)}; next: have it signed anew"
    if now < after:
        return f"is not valid before {_moment(after)}: is this machine's clock right?"
    if certificate.principals and account not in certificate.principals:
        named = ", ".join(map(host_text, map(str, certificate.principals[:5])))
        return f"is for {named}, not for {account}; next: -l ACCOUNT, or a certificate for {account}"
    return ""


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
