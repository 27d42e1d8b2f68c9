"""harness.toml: order of the files, and errors that name file, line and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.adapters import config
from harness.adapters.config import Config, ConfigError, load_config


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with system, user and named file."""
    monkeypatch.setattr(config, "SYSTEM", tmp_path / "system.toml")
    (tmp_path / "user" / "harness").mkdir(parents=True)
    return tmp_path


def load(files: Path, given: Path | None = None, **environment: str) -> Config:
    return load_config(given, {"XDG_CONFIG_HOME": str(files / "user"), **environment})


def wrong(files: Path, text: str) -> str:
    (files / "system.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(files)
    return raised.value.what.removeprefix(str(files / "system.toml"))


def test_no_file_is_needed(files: Path) -> None:
    found = load(files)
    assert found.store("db1") is None
    assert not found.ephemeral("db1")
    assert found.commands == {}


def test_a_pattern_is_for_the_typed_name_and_the_resolved_one(files: Path) -> None:
    (files / "system.toml").write_text('[host."db*"]\nstore = "/var/m"\nephemeral = true\n')
    found = load(files)
    assert found.store("db1", "10.0.0.1") == "/var/m"
    assert found.store("alias", "DB7.example") == "/var/m"
    assert found.store("web1", "10.0.0.2") is None
    assert found.ephemeral("db1")


def test_later_files_win_key_by_key(files: Path) -> None:
    (files / "system.toml").write_text(
        '[host."*"]\nstore = "/system"\nephemeral = true\n[credential.a]\ncommand = ["one"]\n'
    )
    (files / "user" / "harness" / "harness.toml").write_text('[host."db*"]\nstore = "/user"\n')
    named, other = files / "named.toml", files / "other.toml"
    named.write_text('[host."db1"]\nstore = "/named"\n')
    other.write_text('[credential.a]\ncommand = ["two", "words"]\n')
    assert load(files).store("db1") == "/user"
    assert load(files).store("web") == "/system"
    assert load(files, HARNESS_CONFIG=str(named)).store("db1") == "/named"
    found = load(files, other, HARNESS_CONFIG=str(named))
    assert found.store("db1") == "/user"
    assert found.ephemeral("db1")
    assert found.commands == {"a": ("two", "words")}


def test_a_named_file_has_to_be_there(files: Path) -> None:
    for named in ({"HARNESS_CONFIG": str(files / "none.toml")}, {}):
        with pytest.raises(ConfigError, match=r"there is no configuration file .*none\.toml"):
            load(files, None if named else files / "none.toml", **named)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[host."db*"]\nstroe = "/x"\n', ":2: there is no key 'stroe' here; the nearest is 'store'"),
        ('\n\n[hots."db*"]\nstore = "/x"\n', ":3: there is no table 'hots' here; the nearest is 'host'"),
        ('[credential.pw]\ncomand = ["x"]\n', ":2: there is no key 'comand' here; the nearest is 'command'"),
        ('[host."db*"]\nstore = "markers"\n', ":2: store is an absolute path on the host"),
        ('[host."db*"]\nstore = 5\n', ":2: store is an absolute path on the host"),
        ('[host."db*"]\nephemeral = "yes"\n', ":2: ephemeral is true or false"),
        (
            '[credential.pw]\ncommand = "pass show"\n',
            ':2: credential.pw needs command = ["PROGRAM", "ARGUMENT", ...]',
        ),
        ("[credential.pw]\n", ':1: credential.pw needs command = ["PROGRAM", "ARGUMENT", ...]'),
        ("host = 3\n", ":1: host is a table, as in [host.NAME]"),
        ('[host]\n"db*" = 1\n', ':2: host.db* is no table: [host."db*"] and its keys below'),
        (
            '[credential."a b"]\ncommand = ["x"]\n',
            ":1: the name of a credential is letters, digits, dots, dashes and underscores",
        ),
    ],
)
def test_an_error_names_file_line_and_what_is_right(files: Path, text: str, said: str) -> None:
    assert wrong(files, text) == said


def test_what_is_no_toml_is_an_error_with_its_place(files: Path) -> None:
    assert "line 2" in wrong(files, "[host]\nx = \n")


def test_a_file_that_others_can_write_is_refused(files: Path) -> None:
    (files / "system.toml").write_text("")
    (files / "system.toml").chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others") as raised:
        load(files)
    assert raised.value.hint == f"chmod go-w {files / 'system.toml'}"


def test_bytes_that_are_no_text_are_refused(files: Path) -> None:
    (files / "system.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(files)
