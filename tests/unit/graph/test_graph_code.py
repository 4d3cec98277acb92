"""Classes, methods, functions and calls extracted from source files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.extraction_support import Extracted, Extraction


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("code"))


PYTHON = """\
import json
import app.mail as mail
from app.stores import UserStore, digest as hashed
from app.base import Service

class UserService(Service, Generic[T], metaclass=Meta):
    def __init__(self, store: UserStore):
        self.store = store

    def login(self, name):
        self.check(name)
        self.store.find(name)
        mail.deliver(hashed(name))
        print(len(json.dumps(name)))
        helper()

    def check(self, name):
        return super().login(name)

class AdminService(UserService):
    def enter(self):
        self.check("admin")
        UserService.login(self, "admin")

def helper():
    def inner():
        class Local:
            pass
        return AdminService()
    return inner
"""
JAVA = """\
package shop;
import shop.stores.UserStore;
import java.util.List;
import static shop.Texts.shorten;

public class UserService extends shop.base.Service<User> implements Closer, Comparable<User> {
    private final UserStore store;
    UserService(UserStore store) { this.store = store; }
    public void login(String name) {
        check(name);
        store.find(shorten(name));
        List.of(name);
        new Session(name);
    }
    void check(String name) { Audit.note(name); }
    static class Inner { void go() {} }
}
interface Closer extends AutoCloser { void close(); }
"""
KOTLIN = """\
package shop

import shop.stores.UserStore
import shop.shorten as cut
import kotlin.math.max

open class UserService(private val store: UserStore) : Service(1), Closer<User> {
    fun login(name: String) {
        this.check(name)
        store.find(cut(name))
        println(max(1, 2))
    }

    fun check(name: String) = Session(name)

    companion object {
        fun make() {}
    }
}

fun top() {
    UserService.make()
}
"""
TYPESCRIPT = """\
import { UserStore, type Name as N, digest as hashed } from "./stores";
import * as mail from "./mail";
import { readFile } from "node:fs";

export abstract class UserService extends Service<User> implements Closer, ns.Other<X> {
  private store: UserStore;
  login(name: string): void {
    this.check(name);
    this.store.find(name);
    mail.deliver(hashed(name));
    readFile(name);
    console.log(name);
  }
  check = (name: string) => { helper(); };
}
interface Closer extends Base { close(): void }
const helper = () => new Session();
"""
JAVASCRIPT = """\
import { digest } from "./texts.js";
const path = require("path");
const { find } = require("./stores");

class UserService extends base.Service {
  login(name) { this.check(name); find(digest(name)); path.join(name); }
  check(name) { helper(name); }
}
function helper(name) { return new UserService(); }
"""
GO = """\
package shop

import (
	"fmt"
	m "example.org/shop/mail"
)

type Base struct{}
type UserService struct {
	Base
	*m.Sender
	store UserStore
}
type Closer interface {
	Opener
	Close() error
}

func (s *UserService) Login(name string) {
	s.check(name)
	fmt.Println(name)
	m.Deliver(name)
	helper()
	t := &Base{}
	t.Reset()
}

func (s UserService) check(name string) {}
func (b *Base) Reset() {}
func helper() { len("x") }
"""

CASES = {
    "shop/users.py": (
        PYTHON,
        {
            "file contains class:userservice",
            "file contains class:adminservice",
            "file contains function:helper",
            "class:userservice contains method:userservice.__init__",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:adminservice contains method:adminservice.enter",
            "class:userservice extends class:service",
            "class:adminservice extends class:userservice",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls method:userstore.find",
            "method:userservice.login calls function:deliver",
            "method:userservice.login calls function:digest",
            "method:userservice.login calls function:helper",
            "method:adminservice.enter calls method:userservice.check",
            "method:adminservice.enter calls method:userservice.login",
            "function:helper calls class:adminservice",
        },
    ),
    "shop/UserService.java": (
        JAVA,
        {
            "file contains class:userservice",
            "file contains class:closer",
            "class:userservice contains class:inner",
            "class:userservice contains method:userservice.userservice",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:inner contains method:inner.go",
            "class:closer contains method:closer.close",
            "class:userservice extends class:service",
            "class:userservice extends class:closer",
            "class:userservice extends class:comparable",
            "class:closer extends class:autocloser",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls method:userstore.find",
            "method:userservice.login calls function:shorten",
            "method:userservice.login calls class:session",
            "method:userservice.check calls method:audit.note",
        },
    ),
    "shop/UserService.kt": (
        KOTLIN,
        {
            "file contains class:userservice",
            "file contains function:top",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:userservice contains method:userservice.make",
            "class:userservice extends class:service",
            "class:userservice extends class:closer",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls method:userstore.find",
            "method:userservice.login calls function:shorten",
            "function:top calls method:userservice.make",
        },
    ),
    "web/users.ts": (
        TYPESCRIPT,
        {
            "file contains class:userservice",
            "file contains class:closer",
            "file contains function:helper",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:closer contains method:closer.close",
            "class:userservice extends class:service",
            "class:userservice extends class:closer",
            "class:userservice extends class:other",
            "class:closer extends class:base",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls method:userstore.find",
            "method:userservice.login calls function:deliver",
            "method:userservice.login calls function:digest",
            "method:userservice.check calls function:helper",
            "function:helper calls class:session",
        },
    ),
    "web/users.js": (
        JAVASCRIPT,
        {
            "file contains class:userservice",
            "file contains function:helper",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:userservice extends class:service",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls function:digest",
            "method:userservice.login calls function:find",
            "method:userservice.check calls function:helper",
            "function:helper calls class:userservice",
        },
    ),
    "shop/users.go": (
        GO,
        {
            "file contains class:base",
            "file contains class:userservice",
            "file contains class:closer",
            "file contains function:helper",
            "class:closer contains method:closer.close",
            "class:userservice contains method:userservice.login",
            "class:userservice contains method:userservice.check",
            "class:base contains method:base.reset",
            "class:userservice extends class:base",
            "class:userservice extends class:sender",
            "class:closer extends class:opener",
            "method:userservice.login calls method:userservice.check",
            "method:userservice.login calls function:deliver",
            "method:userservice.login calls function:helper",
            "method:userservice.login calls class:base",
            "method:userservice.login calls method:base.reset",
        },
    ),
}


def structure(extracted: Extracted) -> set[str]:
    edges = (f"{one.source} {one.edge_type} {one.target}" for one in extracted.statements.edges)
    return {edge.replace(extracted.own, "file") for edge in edges}


@pytest.mark.parametrize("name", CASES)
def test_definitions_inheritance_and_calls_of_a_file(extraction: Extraction, name: str) -> None:
    """And nothing else: neither standard libraries, nor functions within functions."""
    code, edges = CASES[name]
    extracted = extraction.extract(code, f"code/{name}")
    assert extracted.own.startswith("file:")
    assert structure(extracted) == edges


OTHERS = {
    "a.rs": "impl Closer for Door { fn close(&self) { self.lock(); } fn lock(&self) { turn(); } }\nfn turn() {}",
    "a.cpp": "class Door : public ns::Closer<int> { void close() { lock(); } };\n"
    "void Door::lock() { turn(); }\nvoid turn() {}",
    "a.cs": "class Door : Closer<int> { void Close() { this.Lock(); } void Lock() { Key.Turn(); } }",
    "a.rb": "class Door < Ns::Closer\n  def close\n    self.lock\n  end\n  def lock\n    Key.turn\n  end\nend",
    "a.php": "<?php class Door extends Closer { function close() { $this->lock(); } function lock() { Key::turn(); } }",
    "a.ps1": "class Door : Closer { [void] Close() { $this.Lock() } [void] Lock() { turn 1 } }\nfunction turn { 1 }",
}
"""A door is closed by locking it, for which a key or a function is turned."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_languages(extraction: Extraction, name: str) -> None:
    extracted = structure(extraction.extract(OTHERS[name], f"code/{name}"))
    assert "class:door extends class:closer" in extracted
    assert "class:door contains method:door.lock" in extracted
    assert "method:door.close calls method:door.lock" in extracted
    turned = {"method:door.lock calls function:turn", "method:door.lock calls method:key.turn"}
    assert len(turned & extracted) == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.sh", "lock() { turn now; ls; }\nturn() { :; }"),
        ("a.c", 'int turn(void) { return 1; }\nint lock(void) { return turn() + printf("x"); }'),
    ],
)
def test_languages_without_classes(extraction: Extraction, name: str, code: str) -> None:
    extracted = structure(extraction.extract(code, f"code/{name}"))
    assert extracted == {
        "file contains function:lock",
        "file contains function:turn",
        "function:lock calls function:turn",
    }


def test_edges_are_proved_by_the_passages_with_the_definition_and_the_call(extraction: Extraction) -> None:
    filler = "\n".join(f"        total = total + weight_{n} * {n}" for n in range(60))
    code = (
        "class First:\n"
        f"    def run(self, total):\n{filler}\n        return total\n\n"
        f"    def finish(self, total):\n{filler}\n        self.run(total)\n\n"
        "class Second(First):\n"
        f"    def run(self, total):\n{filler}\n        return self.finish(total)\n"
    )
    extracted = extraction.extract(code, "code/long.py", tokens=200)
    assert len(extracted.chunks) > 6
    first = extracted.evidence("class:first contains method:first.run")
    assert "weight_0 " in first
    second = extracted.edge("class:second contains method:second.run")
    assert second.chunk_ids != extracted.edge("class:first contains method:first.run").chunk_ids
    assert "self.run(total)" in extracted.evidence("method:first.finish calls method:first.run")
    call = extracted.evidence("method:second.run calls method:first.finish")
    assert "self.finish(total)" in call
    assert "self.run(total)" not in call


def test_names_are_kept_as_they_are_written(extraction: Extraction) -> None:
    extracted = extraction.extract(JAVA, "code/UserService.java")
    assert extracted.node("method:userservice.login").properties["name"] == "UserService.login"
    assert extracted.node("method:userservice.login").declared
    assert extracted.node("class:session").properties["name"] == "Session"
    assert not extracted.node("class:session").declared


def test_a_call_on_something_unknown_is_left_out(extraction: Extraction) -> None:
    code = "def run(thing, other: dict):\n    thing.start()\n    other.go()\n    unknown()\n    a().b()\n"
    assert structure(extraction.extract(code, "code/a.py")) == {"file contains function:run"}


def test_a_method_is_called_by_its_bare_name_only_where_the_language_allows_it(extraction: Extraction) -> None:
    python = "class Door:\n    def close(self):\n        lock()\n\n    def lock(self):\n        pass\n"
    java = "class Door { void close() { lock(); } void lock() {} }"
    call = "method:door.close calls method:door.lock"
    assert call not in structure(extraction.extract(python, "code/door.py"))
    assert call in structure(extraction.extract(java, "code/Door.java"))


def test_a_variable_with_two_declared_classes_has_none(extraction: Extraction) -> None:
    code = (
        "from a import Store, Shop\ndef one(x: Store):\n    x.open()\ndef two(x: Shop):\n    x.open()\n"
        "def three(y: Shop):\n    y.open()\n"
    )
    calls = {edge for edge in structure(extraction.extract(code, "code/a.py")) if " calls " in edge}
    assert calls == {"function:three calls method:shop.open"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("deep.py", "x = " + "(" * 3_000 + ")" * 3_000),
        ("calls.js", "function f() { return " + "g(" * 5_000 + ")" * 5_000 + "; }"),
        ("chain.js", "function f() { return a" + ".b()" * 5_000 + "; }"),
        ("classes.java", "class A { " * 2_000 + "}" * 2_000),
        ("long.py", "class " + "A" * 5_000 + ":\n    pass\n"),
        ("broken.kt", "class : fun ( } extends ::: " * 500),
        ("bases.py", "class A(" + ", ".join(f"B{n}[C[D[E]]]" for n in range(300)) + "):\n    pass\n"),
    ],
)
def test_hostile_code_costs_little(extraction: Extraction, name: str, code: str) -> None:
    extracted = extraction.extract(code, f"code/{name}")
    assert len(extracted.statements.edges) <= 5_000


def test_code_without_sections_has_no_statements(extraction: Extraction) -> None:
    minified = "function a(){b()};" * 200
    assert structure(extraction.extract(minified, "code/a.min.js")) == set()


def test_code_beyond_the_limit_is_reported(extraction: Extraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx_code.code_reading.MAX_STEPS", 50)
    extracted = extraction.extract(PYTHON, "code/users.py")
    assert "more code than is read for the graph" in extracted.remarks


def test_tree_sitter_is_imported_for_code_only(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = "import sys, opx_code.structure\nsys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False).returncode == 0
