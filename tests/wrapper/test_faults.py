"""Hosts that cannot keep the promises, and bytes that were cut: nothing starts, and the reason is a word."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.wrapper import BOOT, INSTALL_BOOT, boot_string, install_boot_string, wrapper_sha256, wrapper_text
from tests.wrapper.host import Host, fields, hex32, new_id, read_reply, request
from tests.wrapper.paused import RUNNING, Paused

ALLOWED = [
    "cat",
    "chmod",
    "date",
    "dd",
    "grep",
    "head",
    "ln",
    "mkdir",
    "mkfifo",
    "mv",
    "od",
    "rm",
    "sed",
    "setsid",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "timeout",
    "tr",
    "wc",
]
"""The utilities of remote/README.md, section 8. Some builtins count for yash."""


def shim(host: Host, name: str, text: str) -> Path:
    file = host.bin / name
    file.write_text(f"#!/bin/dash\n{text}\n")
    file.chmod(0o755)
    return file


# -- the text itself


def test_a_wrapper_that_was_cut_does_nothing_and_installing_heals_it(every: Host) -> None:
    every.run(["true"])
    folder = every.store / "bin"
    for suffix in ("", ".front", ".super"):
        (file,) = [
            path
            for path in folder.iterdir()
            if path.name.endswith(suffix) and len(path.name) == 64 + len(suffix)
        ]
        whole = file.read_bytes()
        for size in (0, 1, len(whole) // 2, len(whole) - 20, len(whole) - 2):
            file.write_bytes(whole[:size])
            identifier = new_id()
            cut = every.run(["sh", "-c", "echo x >>effects"], identifier)
            answer = (
                every.ask("contact", f"witness a_1_b_{size}\njournal a\n".encode()) if suffix == "" else None
            )
            assert cut.begin is None or (suffix == "" and cut.begin == "started")
            assert answer is None or answer.begin is None
            file.write_bytes(whole)
    assert (every.home / "effects").exists() is False or (every.home / "effects").read_text() == "x\n" * 5
    (folder / file.name).write_bytes(b"h_main() {\n")
    assert every.install().line("installed")
    assert every.run(["true"]).begin == "started"


@pytest.mark.soak
@pytest.mark.parametrize("suffix", ["", ".front", ".super"])
def test_a_wrapper_that_was_cut_anywhere_does_nothing(host: Host, suffix: str) -> None:
    (file,) = [
        path for path in (host.store / "bin").iterdir()
        if path.name.endswith(suffix) and len(path.name) == 64 + len(suffix)
    ]  # fmt: skip
    whole = file.read_bytes()
    # the last newline is no part of the call
    last = len(whole) - 1
    for size in [*range(0, last, 37), *range(last - 250, last)]:
        file.write_bytes(whole[:size])
        reply = host.probe(new_id()) if suffix == "" else host.run(["sh", "-c", "echo x >>effects"])
        assert reply.begin is None
    assert not (host.home / "effects").exists()


def test_a_part_of_the_wrapper_that_was_cut_is_made_anew_by_a_contact(every: Host) -> None:
    for suffix in ("front", "super", "more"):
        (file,) = (every.store / "bin").glob(f"*.{suffix}")
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        assert every.contact().line("store")
        assert file.read_bytes() == whole


def test_a_run_whose_seldom_needed_part_was_cut_does_not_pass_its_after_by(host: Host) -> None:
    (file,) = (host.store / "bin").glob("*.more")
    whole = file.read_bytes()
    for at in [0, *(place for place, byte in enumerate(whole) if whole[place : place + 3] == b"\n}\n")]:
        file.write_bytes(whole[: at + 3] if at else b"")
        if file.read_bytes() == whole:
            continue
        reply = host.run(["sh", "-c", "echo x >>effects"], after=f"{new_id()} {host.witness} closed")
        assert reply.trailer == "refused reason=internal"
    assert not (host.home / "effects").exists()


@pytest.mark.parametrize("eaten", ["the last byte", "its head", "all"])
def test_an_upload_that_did_not_come_whole_installs_nothing_and_says_so(tmp_path: Path, eaten: str) -> None:
    host = Host(tmp_path, "dash")
    text = wrapper_text()
    nonce = hex32()
    process = host.popen(install_boot_string("-", nonce))
    whole = request(nonce, b"bytes %d\n" % len(text)) + text
    left = {"the last byte": whole[:-1], "its head": whole.partition(b"bytes ")[2], "all": b""}
    out, err = process.communicate(left[eaten])
    assert read_reply(nonce, out, err).lines == ["error reason=request"]
    assert list((host.store / "bin").iterdir()) == []


def test_other_bytes_than_were_named_are_not_installed(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    assert host.install(wrapper_text() + b"#\n").lines == ["error reason=sha"]


def test_a_host_without_the_wrapper_says_so(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    nonce = hex32()
    out, _ = host.popen(boot_string("-", "probe", nonce)).communicate(b"")
    assert out == f"\n@{nonce} missing\n".encode()


def test_the_exec_strings_are_plain() -> None:
    for text in (BOOT, INSTALL_BOOT):
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set("!\\'")
    assert len(install_boot_string("/" + "x" * 300, "0" * 32)) < 1000


@pytest.mark.parametrize("login", ["dash", "bash", "zsh", "mksh", "yash", "ksh93", "tcsh", "fish"])
def test_every_login_shell_takes_the_exec_strings(tmp_path: Path, login: str) -> None:
    program = shutil.which(login)
    if program is None:
        pytest.skip("not installed")
    host = Host(tmp_path, "dash").ready()
    nonce = hex32()
    done = subprocess.run(
        [program, "-c", boot_string("-", "run", nonce)], input=request(nonce, host.head(new_id(), ["echo", "hi"])),
        env=host.env, cwd=host.home, capture_output=True, check=False,
    )  # fmt: skip
    assert read_reply(nonce, done.stdout, done.stderr).out == b"hi\n"


# -- hosts with little


def test_only_the_allowed_utilities_are_needed(every: Host, tmp_path: Path) -> None:
    folder = tmp_path / "only"
    folder.mkdir()
    for name in ALLOWED:
        source = shutil.which(name)
        assert source is not None
        (folder / name).symlink_to(every.bin / "sh" if name == "sh" else source)
    if every.shell == "yash":
        # builtins of it that are there only where a program of the name is
        for name in ("[", "echo", "printf", "test", "true"):
            (folder / name).symlink_to(f"/usr/bin/{name}")
    every.env["PATH"] = str(folder)
    assert every.install().line("installed")
    assert every.contact().line("store")
    reply = every.run(["cat"], identifier := new_id(), stdin=b"hi\n", timeout=50, verify=["cat"])
    assert (reply.out, reply.field("verify")) == (b"hi\n", "0")
    every.settle(identifier)
    assert every.follow(identifier).out == b"hi\n"
    assert every.fence(new_id()).line("marker").split()[2] == "fenced"
    assert every.cancel("stop", new_id()).line("marker").split()[2] == "fenced"
    assert every.ask("list", b"max 9\n").line("store")
    assert every.ask("gc", f"store {every.store_id}\nwitness {every.witness}\n".encode()).line("gone")


def test_a_host_that_has_nothing_but_busybox_will_do(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    folder = tmp_path / "busybox"
    folder.mkdir()
    for name in subprocess.run(
        [busybox, "--list"], capture_output=True, check=True, text=True
    ).stdout.split():
        (folder / name).symlink_to(busybox)
    host = Host(tmp_path / "home", "ash", path=str(folder)).ready()
    one = Paused(host, ("sh", "-c", RUNNING))
    running = host.state(one.identifier)
    one.let_go()
    assert (running, one.reply().out) == ("running", b"begun\nover\n")
    host.settle(one.identifier)
    assert host.follow(one.identifier, out=6).out == b"over\n"


@pytest.mark.parametrize("tool", ["mkfifo", "ln", "setsid", "dd", "head"])
def test_a_missing_tool_is_named(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    for name in ALLOWED:
        if name != tool and (source := shutil.which(name)):
            (folder / name).symlink_to(source)
    host = Host(tmp_path / "home", "dash", path=str(folder))
    lines = host.install().lines
    assert lines == [f"error reason={'install' if tool == 'head' else 'tools-' + tool}"]


def test_a_program_that_is_there_and_does_not_start_is_not_told_as_missing(
    host: Host, tmp_path: Path
) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    for name in ALLOWED:
        (folder / name).symlink_to(shutil.which(name) or name)
    (folder / "cat").unlink()
    (folder / "cat").write_text("#!/no/such/interpreter\n")
    (folder / "cat").chmod(0o755)
    host.env["PATH"] = str(folder)
    assert host.contact().lines == ["error reason=programs"]
    (folder / "cat").unlink()
    assert host.contact().lines == ["error reason=tools-cat"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
@pytest.mark.parametrize("shell", ["dash", "ash", "yash"])
def test_a_host_that_cannot_fork_says_so(shell: str) -> None:
    home = Path(tempfile.mkdtemp())
    try:
        host = Host(home, shell).ready()
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        nonce = hex32()
        done = subprocess.run(
            [str(host.bin / "sh"), "-c", BOOT, "sh", "-", wrapper_sha256(), "contact", nonce],
            input=request(nonce, b"witness a_1_b_c\njournal a\n"), env=host.env, cwd=home, capture_output=True, check=False,
            preexec_fn=no_processes,
        )  # fmt: skip
    finally:
        shutil.rmtree(home)
    assert read_reply(nonce, done.stdout, done.stderr).lines == ["error reason=programs"]


NOBODY = 65534


def no_processes() -> None:
    """This process becomes one of an account that may have no other."""
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    os.setgid(NOBODY)
    os.setuid(NOBODY)


# -- stores that will not do


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    shim(host, "ln", "exit 1")
    assert host.install().lines == ["error reason=no-hardlinks"]


def test_a_file_system_whose_links_do_not_exclude_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    shim(host, "ln", 'exec /bin/ln -f "$@"')
    assert host.install().lines == ["error reason=no-hardlinks"]


def test_a_file_system_without_fifos_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    shim(host, "mkfifo", 'for f in "$@"; do : >"$f"; done')
    assert host.install().lines == ["error reason=no-fifo"]


def test_a_host_that_cannot_sync_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    shim(host, "sync", "exit 1")
    shim(host, "dd", "exit 1")
    assert host.install().lines == ["error reason=sync"]


@pytest.mark.parametrize(
    ("utility", "method"), [("sync", "fsync"), ("fsync", "dd")], ids=["no sync", "no sync and no fsync"]
)
def test_another_way_to_the_disk_is_found(tmp_path: Path, utility: str, method: str) -> None:
    host = Host(tmp_path, "dash")
    shim(host, "sync", "exit 1")
    shim(host, "fsync", "exit 1" if utility == "fsync" else 'exec /bin/sync "$@"')
    host.ready()
    assert fields((host.store / "caps").read_text())["sync"] == method
    assert host.run(["echo", "hi"], identifier := new_id()).out == b"hi\n"
    assert fields(host.probe(identifier).line("start"))["sync"] == method


def test_a_store_that_is_a_symlink_is_refused(host: Host, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    host.store.rename(moved)
    host.store.symlink_to(moved)
    assert host.contact().lines == ["error reason=store-symlink"]
    assert host.run(["true"]).trailer == "refused reason=store-symlink"
    assert host.fence(new_id()).lines == ["error reason=store-symlink"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_of_another_account_is_refused(host: Host) -> None:
    os.chown(host.store, 12345, 12345)
    assert host.contact().lines == ["error reason=store-owner"]
    assert host.run(["true"]).trailer == "refused reason=store-owner"


def test_an_account_without_a_home_is_refused(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    del host.env["HOME"]
    assert host.install().lines == ["error reason=no-home"]


def test_a_store_whose_identity_is_gone_is_another_store(host: Host) -> None:
    (host.store / "store-id").unlink()
    assert host.run(["true"]).trailer == "store-changed"
    assert host.contact().lines == ["error reason=store-changed"] or host.store_id


def test_a_store_that_is_gone_is_another_store(host: Host) -> None:
    names = [path for path in host.store.iterdir() if path.name != "bin"]
    for path in names:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert host.run(["true"]).trailer == "store-changed"
    assert host.probe(new_id()).lines == ["error reason=store-changed"]


def test_a_home_that_was_restored_does_not_run_it_again(every: Host, tmp_path: Path) -> None:
    copy = tmp_path / "backup"
    shutil.copytree(every.store, copy)
    every.contact()
    first = every.run(["sh", "-c", "echo x >>effects"], identifier := new_id())
    every.settle(identifier)
    shutil.rmtree(every.store)
    shutil.copytree(copy, every.store)
    again = every.run(["sh", "-c", "echo x >>effects"], identifier)
    assert (first.begin, again.trailer) == ("started", "store-changed")
    assert fields(every.probe(identifier).line("marker"))["proof"] == "none"
    assert (every.home / "effects").read_text() == "x\n"


# -- full and read-only


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Host]:
    """A host whose home is a small file system of its own."""
    home = tmp_path / "small"
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount here")
    try:
        yield Host(home, "dash").ready()
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


def fill(folder: Path) -> None:
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk_is_refused_before_the_gate(small: Host) -> None:
    fill(small.home)
    reply = small.run(["sh", "-c", "echo x >/dev/null"], identifier := new_id())
    fence = small.fence(identifier)
    (small.home / "ballast").unlink()
    assert reply.trailer == "refused reason=space"
    assert fence.line("marker").split()[2] == "absent"
    assert small.state(identifier) == "absent"
    assert small.contact().line("caps").find("volatile=yes") > 0


def test_a_disk_that_fills_up_does_not_end_the_command_and_its_end_is_recorded(small: Host) -> None:
    script = "head -c 3000000 /dev/zero && echo more && echo all >&2; exit 5"
    reply = small.run(["sh", "-c", script], identifier := new_id())
    assert [reply.field(key) for key in ("status", "out_complete")] == ["5", "no"]
    assert len(reply.out) == int(reply.field("out")) < 3_000_000
    assert small.state(identifier) == "finished"


def test_stdin_that_does_not_fit_is_refused_before_the_gate(small: Host) -> None:
    reply = small.run(["cat"], identifier := new_id(), stdin=bytes(3_000_000))
    assert reply.trailer == "refused reason=space"
    assert small.state(identifier) == "absent"
    assert not list(small.directory(identifier).glob("*"))


def test_a_read_only_disk_is_refused_and_can_be_asked(small: Host) -> None:
    small.run(["true"], done := new_id())
    small.settle(done)
    remount = ["mount", "-o", "remount,ro", str(small.home)]
    # refused while somebody still has a removed file open
    assert any(subprocess.run(remount, capture_output=True, check=False).returncode == 0 for _ in range(1000))
    assert small.run(["true"]).trailer == "refused reason=readonly"
    assert small.contact().lines == ["error reason=readonly"]
    assert small.state(done) == "finished"
    assert small.follow(done).field("status") == "0"


# -- durable before


def test_nothing_runs_before_the_marker_is_on_disk(host: Host) -> None:
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo x >effects"], identifier := new_id())
    hold.wait()
    ran = (host.home / "effects").exists()
    hold.go_on()
    assert not ran
    assert host.finish(started).begin == "started"
    assert (host.home / "effects").exists()
    assert host.state(identifier) == "finished"


def test_what_is_synced_is_the_marker_and_the_directories_of_its_name(host: Host) -> None:
    shim(host, "sync", f'echo "$@" >>{host.home}/synced; exec /bin/sync "$@"')
    host.run(["true"], identifier := new_id())
    first, second = (host.home / "synced").read_text().splitlines()
    place = host.directory(identifier)
    assert {str(place / "start"), str(place), str(place.parent)} <= set(first.split())
    (token,) = [fields(host.probe(identifier).line("start"))["token"]]
    assert second.split() == [str(place / f"f.{token}")]


def test_a_sync_that_fails_closes_the_start(host: Host) -> None:
    file = shim(host, "sync", "exit 1")
    reply = host.run(["sh", "-c", "echo x >effects"], identifier := new_id())
    file.unlink()
    assert reply.trailer == "not-started reason=sync"
    assert fields(host.probe(identifier).line("finish"))["reason"] == "not-started"
    assert not (host.home / "effects").exists()


def test_a_sync_that_hangs_is_given_up_and_nothing_runs(host: Host) -> None:
    # the ticker's naps are made short: its count is the limit
    shim(host, "sleep", "exec /bin/sleep 0.01")
    hold = host.hold("sync")
    started = host.start_run(["sh", "-c", "echo x >effects"], identifier := new_id())
    hold.wait()
    reply = host.finish(started)
    hold.go_on()
    closed = host.cancel("fence", identifier).line("finish")
    assert reply.trailer == "not-started reason=sync"
    assert fields(closed)["reason"] == "not-started"
    assert not (host.home / "effects").exists()
