"""A simulated host behind the `Exec` port: it reads real requests, answers with real frames, counts effects, and fails where it is told to.

    host = SimulatedHost()
    host.scripts[(b"migrate",)] = Script(out=b"done\\n", effect="schema 42")
    host.cut(Cut.AFTER_STARTED)                  # the next run loses its link once its start was told
    marked = Marked(host, host.wrapper, machine, head)
    ...
    assert host.effects == [(execution, "schema 42")]

There is no clock, no thread and no chance in it: the same calls give the same bytes. A call of the port is numbered (`calls`); `lose_at` and
`crash_at` name the number at which the link or our own process dies. `SimulatedNet` puts several hosts behind one port.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from harness.core.action import SshTarget
from harness.core.answers import encode_marker
from harness.core.frames import encode_answer, encode_begin, encode_missing, encode_trailer
from harness.core.ids import ExecutionId, StoreId, Token, Witness
from harness.core.markers import FinishRecord, encode_record
from harness.core.reports import Lost, MarkerState, NotSent, Step, Unreachable
from harness.core.request import Request, Verb, decode, decode_path, encode_path, unquote
from harness.marked import SAME_BOOT, under_another_boot
from harness.ports import Channel, Connection, Stream
from harness.testing.simulated_link import Cut, Fault, SimChannel, SimConnection, SimulatedCrash
from harness.testing.simulated_parts import CAPS, STORE_PATH, Follower, Script, SimulatedWrapper
from harness.testing.simulated_store import SimExecution, SimStore, following, start_record

__all__ = [
    "STORE_PATH",
    "Cut",
    "Script",
    "SimulatedCrash",
    "SimulatedHost",
    "SimulatedNet",
    "SimulatedWrapper",
]


class SimulatedHost:
    """One account on one host, as `Exec`. Its fields may be changed by a test at any time; see the methods for what can go wrong.

    `accepted`: host keys that known_hosts accepts for it beside the one that it shows; `told_wrapper`: the SHA-256 that it says its wrapper has,
    until one is installed; `hung`: the server takes everything, and the login shell says nothing.
    """

    def __init__(self, name: str = "sim", store_id: str = "a" * 32) -> None:
        self.name = name
        self.wrapper = SimulatedWrapper()
        self.host_key = f"SHA256:{name}"
        self.credential: str | None = f"agent:SHA256:{name}"
        self.boot_id = f"{name}-boot-1"
        self.caps = CAPS
        self.stores = {STORE_PATH: SimStore(StoreId(store_id), STORE_PATH)}
        self.installed: set[str] = set()
        self.accepted: frozenset[str] = frozenset()
        self.told_wrapper: str | None = None
        self.hung = False
        self.scripts: dict[tuple[bytes, ...], Script] = {}
        self.default = Script()
        self.effects: list[tuple[ExecutionId | None, str]] = []
        self.starts: list[ExecutionId] = []
        self.requests: list[tuple[str, Request]] = []
        self.calls: list[str] = []
        self.lose_at: int | None = None
        self.crash_at: int | None = None
        self.crashed = False
        self.unreachable: Unreachable | None = None
        self.refusals: dict[Verb, str] = {}
        self.mute: bytes | None = None
        self.noise = b""
        self.piece: int | None = None
        self._faults: list[Fault] = []
        self._followers: dict[ExecutionId, list[Follower]] = {}
        self._connection: SimConnection | None = None

    # -- what a test can do -----------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> SimStore:
        """The account's default store."""
        return self.stores[STORE_PATH]

    def cut(self, where: Cut, verb: Verb | None = Verb.RUN) -> None:
        """The next exec request with this verb (None: any) loses its link there."""
        self._faults.append(Fault(verb, cut=where))

    def cut_reply_after(self, size: int, verb: Verb | None = Verb.RUN) -> None:
        """The next exec request with this verb loses its link when `size` bytes of its reply have come (both streams counted)."""
        self._faults.append(Fault(verb, reply=size))

    def cut_request_after(self, size: int, verb: Verb | None = Verb.RUN) -> None:
        """The next exec request with this verb loses its link when the host has `size` bytes of its stdin."""
        self._faults.append(Fault(verb, request=size))

    def stall_reply_after(self, size: int, verb: Verb | None) -> None:
        """The next exec request with this verb gets no more than `size` bytes of its reply, and its channel no end; the link is well."""
        self._faults.append(Fault(verb, reply=size, stalls=True))

    def drop(self) -> None:
        """The connection is lost now; what runs on the host goes on."""
        if self._connection is not None:
            self._connection.lose()

    def survive(self) -> None:
        """Another process of ours talks to the host from now on."""
        self.crash_at, self.crashed = None, False
        self.drop()

    def release(self, execution: ExecutionId) -> None:
        """A held command goes on to its end."""
        found = self._at(execution)
        found.out += self._script(found.argv).late
        if found.supervisor:
            self._finish(found)
        found.command = False  # an orphan ends, and nobody writes down how

    def kill_supervisor(self, execution: ExecutionId, *, command: bool = True) -> None:
        """The supervisor is killed, and with `command` what it ran too. Its channels end without a trailer."""
        found = self._at(execution)
        found.supervisor, found.command = False, found.command and not command
        for follower in self._followers.pop(execution, []):
            follower.channel.end(clean=True, status=137)

    def reboot(self) -> None:
        """Power off and on: nothing lives, the disk is as it was, the boot id is another."""
        self.drop()
        self._followers.clear()
        self.boot_id += "'"
        for store in self.stores.values():
            store.reboot()

    def replace_store(self, store_id: str = "b" * 32) -> None:
        """Another, empty store is behind the same name (re-imaged, another node)."""
        self.stores = {STORE_PATH: SimStore(StoreId(store_id), STORE_PATH)}
        self.installed.clear()

    def backup(self) -> dict[str, SimStore]:
        """The home as a backup would hold it."""
        return {path: store.copy() for path, store in self.stores.items()}

    def restore(self, home: dict[str, SimStore]) -> None:
        """The home is put back to what it was; what runs, runs on unseen."""
        self.stores = {path: store.copy() for path, store in home.items()}

    def delete_witness(self, witness: Witness) -> None:
        """A cleaner takes one witness and what is under it."""
        del self.store.witnesses[witness]

    def count(self, execution: ExecutionId) -> int:
        """How often this execution was started."""
        return self.starts.count(execution)

    # -- the port ---------------------------------------------------------------------------------------------------------------------

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        self.call("connect", None)
        if self.unreachable is not None:
            return self.unreachable
        if self._connection is None or self._connection.lost:
            self._connection = SimConnection(self.host_key, self.accepted | {self.host_key}, self.credential)
        return self._connection

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        if not isinstance(connection, SimConnection):
            raise TypeError("a connection of another adapter")
        self.call("open", connection)
        fault = self._fault_of(exec_string)
        if connection.lost or fault.cut is Cut.BEFORE_EXEC:
            connection.lose()
            return NotSent(Step.AUTHENTICATED, "link", permanent=False)
        if fault.cut is Cut.AFTER_EXEC:
            connection.lose()
            return Lost(Step.REQUESTED, 0)
        channel = SimChannel(self, connection, exec_string, fault)
        connection.channels.append(channel)
        self.arrived(channel)
        return channel

    async def close(self) -> None:
        self.drop()

    # -- inside -----------------------------------------------------------------------------------------------------------------------

    def call(self, name: str, connection: SimConnection | None) -> None:
        """Numbers a call of the port (from 1) and lets happen what was planned for it."""
        self.calls.append(name)
        if self.crashed or len(self.calls) == self.crash_at:
            self.crashed = True  # a dead process makes no further calls
            if connection is not None:
                connection.lose()
            raise SimulatedCrash(f"{len(self.calls)}: {name}")
        if len(self.calls) == self.lose_at and connection is not None:
            connection.lose()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """`data` as it comes on the wire: whole, or in pieces of the size that the test chose."""
        size = self.piece or max(1, len(data))
        return (data[at : at + size] for at in range(0, len(data), size))

    def _fault_of(self, text: str) -> Fault:
        words = text.rsplit(" ", 2)
        for index, fault in enumerate(self._faults):
            if fault.verb is None or (len(words) == 3 and words[1] == fault.verb.value):
                return self._faults.pop(index)
        return Fault(None)

    def arrived(self, channel: SimChannel) -> None:
        """More of an exec request's stdin is here; serves it once it is complete."""
        if channel.served or self.hung:
            return
        words = shlex.split(channel.text)
        if len(words) != 8 or words[2] not in (self.wrapper.boot, self.wrapper.install_boot):
            self._plain(channel, tuple(word.encode() for word in words))
            return
        _, _, boot, _, place, sha, verb, nonce = words
        if self.mute is not None:
            self._silent(channel, self.mute)
        elif boot == self.wrapper.boot and sha not in self.installed:
            self._silent(channel, encode_missing(nonce))
        else:
            self._serve(channel, Verb(verb), nonce, place)

    def _silent(self, channel: SimChannel, text: bytes) -> None:
        channel.served = True
        channel.emit(Stream.OUT, self.noise + text)
        channel.end(clean=True, status=1)

    def _serve(self, channel: SimChannel, verb: Verb, nonce: str, place: str) -> None:
        request = decode(bytes(channel.took), nonce)
        raw = b"" if request is None else bytes(channel.took[request.raw_at :])
        announced = 0 if request is None else int(request.one("stdin") or request.one("bytes") or 0)
        whole = request is not None and len(raw) >= announced
        if not whole and not channel.eof:
            return
        channel.served = True
        self._noise(channel)
        if request is None or not whole:
            self._refuse(channel, nonce, verb, "request")
            return
        self.requests.append((verb.value, request))
        channel.point(Cut.AFTER_REQUEST)
        path = (decode_path(request.one("path") or "") or b"").decode() or (
            STORE_PATH if place == "-" else place
        )
        if verb in self.refusals:
            self._refuse(channel, nonce, verb, self.refusals[verb])
        elif verb in (Verb.RUN, Verb.FOLLOW, Verb.CHECK):
            self._stream(channel, verb, nonce, request, raw[:announced], path)
        else:
            self._answer(channel, nonce, self._lines(verb, request, path))

    def _noise(self, channel: SimChannel) -> None:
        if self.noise:
            channel.emit(Stream.OUT, self.noise)
            channel.emit(Stream.ERR, self.noise)

    def _refuse(self, channel: SimChannel, nonce: str, verb: Verb, reason: str) -> None:
        if verb in (Verb.RUN, Verb.FOLLOW, Verb.CHECK):
            self._trailer(channel, nonce, f"refused reason={reason}")
        else:
            self._answer(channel, nonce, [f"error reason={reason}".encode()])

    def _answer(self, channel: SimChannel, nonce: str, lines: list[bytes]) -> None:
        channel.emit(Stream.OUT, encode_answer(nonce, lines))
        channel.end(clean=True, status=0)

    def _trailer(self, channel: SimChannel, nonce: str, words: str) -> None:
        """An answer of a streaming verb that is a trailer only."""
        for stream in Stream:
            channel.emit(stream, encode_begin(nonce, "answer"))
        channel.emit(Stream.ERR, encode_trailer(nonce, words))
        channel.end(clean=True, status=0)

    def _lines(self, verb: Verb, request: Request, path: str) -> list[bytes]:
        """The lines of an answer."""
        if verb is Verb.INSTALL:
            self.installed.add(self.wrapper.sha256)
            self.told_wrapper = None
            return [f"installed {self.wrapper.sha256}".encode()]
        store = self.stores.get(path)
        if verb is Verb.CONTACT:
            return self._contact(store or self._new_store(path), request)
        expected = request.one("store")
        if store is None or (expected is not None and expected != store.store_id):
            return [b"error reason=" + (b"store-changed" if expected else b"store-missing")]
        if verb is Verb.GC:
            return store.collected(request.all("witness"), request.one("journal"))
        return [
            line for ask in request.all("id") for line in self._marker(verb, store, request, ask.split(" "))
        ]

    def _new_store(self, path: str) -> SimStore:
        self.stores[path] = SimStore(StoreId(f"{len(self.stores):032x}"), path)
        return self.stores[path]

    def _contact(self, store: SimStore, request: Request) -> list[bytes]:
        witness = Witness(request.one("witness") or "")
        newest = store.newest(request.one("journal") or "")
        store.witnesses[witness] = {}
        said = (
            f"store {store.store_id}", f"path {encode_path(store.path.encode())}", f"boot {self.boot_id}", f"caps {self.caps}",
            f"witness {witness}", f"newest {newest or '-'}", f"wrapper {self.told_wrapper or self.wrapper.sha256}",
        )  # fmt: skip
        return [line.encode() for line in said]

    def _marker(self, verb: Verb, store: SimStore, request: Request, words: list[str]) -> list[bytes]:
        execution = ExecutionId(words[0])
        witness = None if words[1] == "-" else Witness(words[1])
        extra: list[bytes] = []
        if verb in (Verb.FENCE, Verb.CANCEL):
            if witness is not None:
                store.fence(execution, witness, Token(words[2]))
            extra = self._cancel(store, execution, request) if verb is Verb.CANCEL else []
        return [*encode_marker(store.report(execution, witness)), *extra]

    def _cancel(self, store: SimStore, execution: ExecutionId, request: Request) -> list[bytes]:
        found = store.find(execution)
        stop = found is not None and found.command and request.one("mode") == "stop"
        if found is not None and stop:
            self._finish(found, 143, "cancel")
        return [
            f"cancel {execution} sent={'TERM' if stop else 'none'} survivors={'0' if stop else '-'}".encode()
        ]

    def _stream(
        self, channel: SimChannel, verb: Verb, nonce: str, request: Request, stdin: bytes, path: str
    ) -> None:
        store = self.stores.get(path)
        if verb is Verb.CHECK:
            self._trailer(
                channel, nonce, f"check status={self._checked(unquote(request.sections['command']))}"
            )
        elif store is None or request.one("store") not in (None, store.store_id):
            self._trailer(channel, nonce, "store-changed")
        elif verb is Verb.FOLLOW:
            self._follow(channel, nonce, store, request)
        else:
            self._run(channel, nonce, store, request, stdin)

    def _checked(self, argv: tuple[bytes, ...]) -> int:
        """The status of a question; one that is only for another boot than the named one is not asked in that."""
        if argv[:3] == under_another_boot("", ())[:3]:
            if argv[3] == self.boot_id.encode():
                return SAME_BOOT
            argv = argv[4:]
        return self._effect(None, argv).status

    def _follow(self, channel: SimChannel, nonce: str, store: SimStore, request: Request) -> None:
        found = store.find(ExecutionId((request.one("id") or "").split(" ")[0]))
        if found is None or not found.argv:
            self._trailer(
                channel, nonce, f"state state={(found.state if found else MarkerState.ABSENT).value}"
            )
            return
        wait = request.one("wait") == "yes"
        at = (int(request.one("out") or 0), int(request.one("err") or 0))
        self._begin(channel, nonce, "following")
        self._followers.setdefault(found.execution, []).append(Follower(channel, nonce, *at, wait))
        self._pump(found)

    def _run(self, channel: SimChannel, nonce: str, store: SimStore, request: Request, stdin: bytes) -> None:
        execution, witness = ExecutionId(request.one("id") or ""), Witness(request.one("witness") or "")
        if witness not in store.witnesses:
            self._trailer(channel, nonce, "store-changed")
            return
        after = (request.one("after") or "").split(" ")
        if len(after) == 3:
            store.fence(ExecutionId(after[0]), Witness(after[1]), Token("f" * 32))
            if not store.closed(ExecutionId(after[0]), after[2]):
                state = store.report(ExecutionId(after[0]), None).state
                self._trailer(channel, nonce, f"after state={state.value}")
                return
        token = Token(request.one("token") or "")
        record = start_record(
            execution, store.store_id, witness, token, boot=self.boot_id, verify="verify" in request.sections
        )
        record = following(record, ExecutionId(after[0]) if len(after) == 3 else None, request.one("timeout"))
        found = store.gate(record)
        if found is None:
            self._trailer(channel, nonce, f"taken state={store.report(execution, None).state.value}")
            return
        self._start(channel, nonce, found, request, stdin)

    def _start(
        self, channel: SimChannel, nonce: str, found: SimExecution, request: Request, stdin: bytes
    ) -> None:
        found.argv, found.stdin = unquote(request.sections["command"]), stdin
        found.verify = unquote(request.sections.get("verify", b""))
        found.supervisor = found.command = True
        self._begin(channel, nonce, "started")
        self.starts.append(found.execution)
        script = self._effect(found.execution, found.argv)
        found.out += stdin if script.echo else script.out
        found.err += script.err
        self._followers[found.execution] = [Follower(channel, nonce, 0, 0)]
        if script.hold:
            self._pump(found)
            return
        self._finish(found)

    def _begin(self, channel: SimChannel, nonce: str, word: str) -> None:
        for stream in Stream:
            channel.emit(stream, encode_begin(nonce, word))
        channel.point(Cut.AFTER_STARTED)

    def _finish(self, found: SimExecution, status: int | None = None, reason: str = "exit") -> None:
        verify = self._effect(None, found.verify).status if found.verify else None
        store = next(store for store in self.stores.values() if store.find(found.execution) is found)
        store.end(found, self._script(found.argv).status if status is None else status, reason, verify)
        self._pump(found)

    def _pump(self, found: SimExecution) -> None:
        """Hands every follower what is new; at the end the trailer."""
        followers = self._followers.pop(found.execution, [])
        for follower in followers:
            channel = follower.channel
            channel.emit(Stream.OUT, bytes(found.out[follower.out :]))
            channel.emit(Stream.ERR, bytes(found.err[follower.err :]))
            follower.out, follower.err = len(found.out), len(found.err)
            if found.finish is None and found.supervisor and follower.wait:
                self._followers.setdefault(found.execution, []).append(follower)
                continue
            channel.point(Cut.BEFORE_TRAILER)
            channel.emit(Stream.ERR, encode_trailer(follower.nonce, self._last_words(found)))
            channel.end(clean=True, status=0)

    def _last_words(self, found: SimExecution) -> str:
        record: FinishRecord | None = found.finish
        if record is None:
            return f"state state={found.state.value}"
        return encode_record(record).decode().removeprefix("1 ").removesuffix(" end\n")

    def _script(self, argv: tuple[bytes, ...]) -> Script:
        return self.scripts.get(argv, self.default)

    def _effect(self, execution: ExecutionId | None, argv: tuple[bytes, ...]) -> Script:
        script = self._script(argv)
        if script.effect is not None:
            self.effects.append((execution, script.effect))
        return script

    def _at(self, execution: ExecutionId) -> SimExecution:
        for store in self.stores.values():
            found = store.find(execution)
            if found is not None:
                return found
        raise LookupError(f"{execution} has no marker here")

    def _plain(self, channel: SimChannel, argv: tuple[bytes, ...]) -> None:
        """An unmarked command: it runs as soon as the exec request is there."""
        channel.served = True
        channel.point(Cut.AFTER_REQUEST)
        script = self._effect(None, argv)
        channel.emit(Stream.OUT, script.out)
        channel.emit(Stream.ERR, script.err)
        channel.point(Cut.BEFORE_TRAILER)
        channel.end(clean=True, status=script.status)


class SimulatedNet:
    """Several simulated hosts behind one `Exec`, found by the target's host name."""

    def __init__(self, *hosts: SimulatedHost) -> None:
        self.hosts = {host.name: host for host in hosts}

    async def connect(self, target: SshTarget) -> Connection | Unreachable:
        host = self.hosts.get(target.host)
        if host is None:
            return Unreachable(Step.NOTHING, "name", permanent=True)
        return await host.connect(target)

    async def open(self, connection: Connection, exec_string: str) -> Channel | NotSent | Lost:
        for host in self.hosts.values():
            if connection.host_key == host.host_key:
                return await host.open(connection, exec_string)
        raise TypeError("a connection of another adapter")

    async def close(self) -> None:
        for host in self.hosts.values():
            await host.close()
