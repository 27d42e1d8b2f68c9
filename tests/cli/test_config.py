"""harness.toml: order of the files, and errors that name file, line and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.adapters import config
from harness.adapters.config import Config, ConfigError, inspect, load_config


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


def test_what_to_do_about_an_error_is_said_with_it(files: Path) -> None:
    (files / "system.toml").write_text("[hots]\n")
    with pytest.raises(ConfigError, match="there is no table 'hots' here") as raised:
        load(files)
    assert raised.value.hint == "correct that (harness doctor --config shows all that is wrong)"


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


def test_a_group_is_the_hosts_of_it_and_of_the_groups_in_it_each_once(files: Path) -> None:
    (files / "system.toml").write_text('[group]\nweb = ["web1", "web2", "@db"]\ndb = ["db1", "web1"]\n')
    found = load(files)
    assert [each.host for each in found.expand(["@web"])] == ["web1", "web2", "db1"]
    named = [(each.host, each.group) for each in found.expand(["db1", "@web", "@db", "other"])]
    assert named == [("db1", None), ("web1", "@web"), ("web2", "@web"), ("other", None)]
    assert [each.host for each in found.expand(["web1", "web1"])] == ["web1", "web1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("@a", "FILE:3: the group @a contains itself: @a -> @b -> @a"),
        ("@alone", "FILE:4: the group @alone contains itself: @alone -> @alone"),
        ("@wbe", "there is no group @wbe; the nearest is @web"),
        ("@more", "FILE:6: there is no group @wbe; the nearest is @web"),
    ],
)
def test_a_loop_and_a_group_that_is_not_there_are_refused(files: Path, name: str, said: str) -> None:
    file = files / "system.toml"
    file.write_text(
        '[group]\na = ["x", "@b"]\nb = ["@a"]\nalone = ["@alone"]\nweb = ["web1"]\nmore = ["@wbe"]\n'
    )
    with pytest.raises(ConfigError) as raised:
        load(files).expand([name])
    assert raised.value.what == said.replace("FILE", str(file))


def test_without_any_group_that_is_said(files: Path) -> None:
    with pytest.raises(ConfigError, match=r"no group @web \(no harness.toml has a \[group\]\)"):
        load(files).expand(["@web"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[group]\nweb = []\n", ":2: the group web is empty"),
        ('[group]\nweb = "web1"\n', ':2: group.web is a list of hosts: web = ["HOST", "@GROUP", ...]'),
        ('[group]\nweb = ["a b"]\n', ':2: group.web is a list of hosts: web = ["HOST", "@GROUP", ...]'),
        ("[group]\nweb = [3]\n", ':2: group.web is a list of hosts: web = ["HOST", "@GROUP", ...]'),
        ("group = 3\n", ':1: group is a table: [group] and NAME = ["HOST", ...] below'),
        (
            '[group]\n"a b" = ["x"]\n',
            ":2: the name of a group is letters, digits, dots, dashes and underscores",
        ),
    ],
)
def test_a_group_that_is_no_list_of_hosts_is_an_error(files: Path, text: str, said: str) -> None:
    assert wrong(files, text) == said


def project(files: Path, text: str, *below: str) -> Path:
    """A project's file, and the directory in it from which the program is called."""
    folder = files / "project"
    inner = folder.joinpath(*below)
    inner.mkdir(parents=True)
    (folder / "harness.toml").write_text(text)
    return inner


def at(files: Path, folder: Path, given: Path | None = None) -> Config:
    return load_config(given, {"XDG_CONFIG_HOME": str(files / "user")}, folder)


def test_a_projects_groups_are_found_from_below_it(files: Path) -> None:
    inner = project(files, '[group]\nweb = ["web1"]\n', "src", "deep")
    assert [each.host for each in at(files, inner).expand(["@web"])] == ["web1"]
    (inner / "harness.toml").write_text('[group]\nnearer = ["x"]\n')
    assert set(at(files, inner).groups) == {"nearer"}


@pytest.mark.parametrize(
    "text", ['[host."*"]\nstore = "/evil"\n', '[credential.a]\ncommand = ["evil"]\n', "[group]\nx = []\n"]
)
def test_a_projects_file_grants_nothing(files: Path, text: str) -> None:
    inner = project(files, text)
    with pytest.raises(ConfigError) as raised:
        at(files, inner)
    assert raised.value.what.startswith(f"{inner / 'harness.toml'}:")


def test_a_projects_file_cannot_change_a_group_of_another(files: Path) -> None:
    inner = project(files, '[group]\nweb = ["evil"]\n')
    (files / "system.toml").write_text('[group]\nweb = ["web1"]\n')
    with pytest.raises(ConfigError, match=r"harness.toml:2: the group web stands in .*system.toml:2"):
        at(files, inner)
    named = files / "named.toml"
    named.write_text('[group]\nweb = ["mine"]\n')
    (inner / "harness.toml").unlink()
    assert [each.host for each in at(files, inner, named).expand(["@web"])] == ["mine"]


def test_a_file_that_was_named_grants_wherever_it_lies(files: Path) -> None:
    inner = project(files, '[host."*"]\nstore = "/named"\n')
    assert at(files, inner, inner / "harness.toml").store("db1") == "/named"
    assert at(files, files / "user" / "harness").groups == {}


def test_a_projects_file_in_a_directory_that_anybody_can_write_to_is_not_looked_at(files: Path) -> None:
    inner = project(files, '[group]\nweb = ["web1"]\n', "src")
    inner.parent.chmod(0o777)
    assert at(files, inner).groups == {}


def test_an_inspection_tells_every_file_and_all_that_is_wrong(files: Path) -> None:
    inner = project(files, '[group]\nx = ["@y"]\n')
    (files / "system.toml").write_text('[hots]\n[host.a]\nstroe = "/x"\n')
    told, config, problems = inspect(None, {"XDG_CONFIG_HOME": str(files / "user")}, inner)
    assert [(source.origin, there) for source, there in told] == [
        ("system", True),
        ("user", False),
        ("project", True),
    ]
    assert set(config.groups) == {"x"}
    assert [problem.what.rpartition("/")[2] for problem in problems] == [
        "system.toml:1: there is no table 'hots' here; the nearest is 'host'",
        "system.toml:3: there is no key 'stroe' here; the nearest is 'store'",
        "harness.toml:2: there is no group @y; the nearest is @x",
    ]
