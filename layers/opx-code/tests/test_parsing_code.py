"""Source code."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.ingestion.chunking import ChunkOwner
from opx_code.languages import LANGUAGES
from tests.support.parsing_support import chunk_document, outcome, parsed, text_of

PYTHON = '''"""Users of the shop."""
import os

LIMIT = 3


@dataclass
class UserService(Base):
    """Who may do what.

    Details
    -------
    # Not a heading
    """

    name: str

    # Not needed twice.
    def login(self, user: str) -> Session:
        """Log a user in."""
        return self.find(user)


# Builds it.
def make(a,
         b=1):
    return a


if __name__ == "__main__":
    make(LIMIT)
'''
SAMPLES = {
    "a.java": (
        (
            "package a;\n/** Users. */\n@Service\npublic class UserService extends Base {\n    int a; // counts\n"
            "    /** Logs in. */\n    @Override\n    public Session login(String user) throws Denied { return x; }\n}\n"
        ),
        ["## public class UserService extends Base", "### public Session login(String user) throws Denied"],
    ),
    "a.kt": (
        (
            "/** Users. */\nclass UserService(val repo: Repo) : Base() {\n    val x = 1\n    /** Logs in. */\n"
            "    fun login(user: String): Session = repo.find(user)\n}\nfun top(a: Int) { go(a) }\n"
        ),
        ["## class UserService(val repo: Repo) : Base()", "### fun login(user: String): Session", "## fun top(a: Int)"],
    ),
    "a.js": (
        (
            "// Users\nexport default class UserService extends Base {\n  login(user) { return 1; }\n}\n"
            "const make = async (a) => { return a; };\napp.get('/x', handler);\n"
        ),
        ["## class UserService extends Base", "### login(user)", "## const make = async (a)"],
    ),
    "a.ts": (
        (
            "export interface Options { a: string }\nexport class UserService {\n  private a = 1;\n"
            "  async login(user: string): Promise<Session> { return 1; }\n}\n"
        ),
        ["## interface Options", "## class UserService", "### async login(user: string): Promise<Session>"],
    ),
    "a.tsx": ("export function Page(): Element { return <b>x</b>; }\n", ["## function Page(): Element"]),
    "a.go": (
        (
            "package u\n\n// Login logs in.\nfunc (s *Server) Login(user string) (Session, error) {\n\treturn nil, nil\n}\n"
            "type Server struct {\n\tport int\n}\n"
        ),
        ["## func (s *Server) Login(user string) (Session, error)", "## type Server struct"],
    ),
    "a.rs": (
        (
            "/// A user.\n#[derive(Debug)]\npub struct User { name: String }\nimpl User {\n    /// Logs in.\n    #[inline]\n"
            "    pub fn login(&self, pw: &str) -> Session { todo!() }\n}\n"
        ),
        ["## pub struct User", "## impl User", "### pub fn login(&self, pw: &str) -> Session"],
    ),
    "a.h": (
        (
            "#ifndef A_H\n#include <b.h>\n/* A point. */\nstruct point { int x; };\n"
            "static int add(int a,\n    int b) { return a; }\n"
            "#endif\n"
        ),
        ["## struct point", "## static int add(int a, int b)"],
    ),
    "a.cpp": (
        (
            "namespace shop {\n/// Users.\ntemplate <typename T>\nclass UserService : public Base {\n  int a;\n"
            "  Session login(const std::string& user) { return 1; }\n};\n}\n"
        ),
        ["## namespace shop", "### class UserService : public Base", "#### Session login(const std::string& user)"],
    ),
    "a.cs": (
        (
            "namespace Shop {\n  [ApiController]\n  public class UserService : Base {\n    [HttpGet]\n"
            "    public Session Login(string user) { return null; }\n  }\n}\n"
        ),
        ["## namespace Shop", "### public class UserService : Base", "#### public Session Login(string user)"],
    ),
    "a.rb": (
        "module Shop\n  # Users\n  class UserService < Base\n    def login(user)\n      find(user)\n    end\n  end\nend\n",
        ["## module Shop", "### class UserService < Base", "#### def login(user)"],
    ),
    "a.php": (
        "<?php\nclass UserService extends Base {\n  #[Route]\n  public function login(string $u): Session { return 1; }\n}\n",
        ["## class UserService extends Base", "### public function login(string $u): Session"],
    ),
    "a.sh": (
        "#!/bin/bash\nset -e\n# Restarts it.\nrestart_checkout() {\n  systemctl restart checkout\n}\nrestart_checkout\n",
        ["## restart_checkout()"],
    ),
    "a.tf": (
        '# The logs\nresource "aws_s3_bucket" "logs" {\n  bucket = "logs"\n}\n',
        ["## resource aws_s3_bucket logs"],
    ),
    "a.ps1": (
        "function Restart-Checkout {\n  param([string]$Name)\n  Restart-Service $Name\n}\nRestart-Checkout\n",
        ["## function Restart-Checkout"],
    ),
}


def headings(text: str) -> list[str]:
    return [line for line in text.split("\n") if re.match("#{2,6} ", line)]


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w+", text))


@pytest.mark.parametrize("name", SAMPLES)
def test_classes_and_functions_are_sections_under_their_signature(name: str) -> None:
    code, expected = SAMPLES[name]
    assert [line for line in headings(text_of(code, name)) if line in expected] == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_no_word_is_lost(name: str) -> None:
    code = SAMPLES[name][0]
    assert words(code) <= words(text_of(code, name))


def test_the_path_is_the_title() -> None:
    assert parsed(PYTHON, "shop/users.py").title == "shop/users.py"


def test_python_methods_stand_below_their_class_without_self() -> None:
    assert headings(text_of(PYTHON, "a.py")) == [
        "## class UserService(Base)",
        "### login(user: str) -> Session",
        "## make(a, b=1)",
    ]


def test_a_docstring_is_text_above_the_code() -> None:
    assert "### login(user: str) -> Session\n\nNot needed twice.\n\nLog a user in.\n\n```python\ndef login" in text_of(
        PYTHON, "a.py"
    )


def test_headings_within_comments_are_none() -> None:
    text = text_of(PYTHON, "a.py")
    assert "**Details**\n\n\\# Not a heading\n" in text
    assert "-------" not in text


def test_a_fence_that_a_comment_opens_is_closed() -> None:
    assert "## b()" in headings(text_of('def a():\n    """Use:\n    ```\n    x"""\ndef b():\n    pass\n', "a.py"))
    assert text_of('def a():\n    """Use:\n    ```\n    x"""\n', "a.py").count("```") == 4


def test_code_between_functions_comes_before_them() -> None:
    text = text_of(PYTHON, "a.py")
    assert text.index("make(LIMIT)") < text.index("## class UserService")


def test_decorators_and_fields_stay_with_the_class() -> None:
    assert "```python\n@dataclass\nclass UserService(Base):\n    name: str\n```" in text_of(PYTHON, "a.py")


def test_chunks_carry_the_path_of_class_and_method() -> None:
    method = "    def login(self):\n        return 1\n" + "".join(f"        step_{n}(value_{n})\n" for n in range(60))
    text = text_of(f"class UserService:\n{method}", "a.py")
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "a.py", "notes")))
    assert {chunk.section for chunk in chunks if "step_30" in chunk.content} == {("class UserService", "login()")}


def test_long_functions_are_cut_into_code_blocks_that_chunks_hold_whole() -> None:
    body = "".join(f"    step_{n}(value_{n})\n" for n in range(400))
    text = text_of(f"def long():\n{body}", "a.py")
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "a.py", "notes")))
    assert len(chunks) > 5
    blocks = re.findall(r"```python\n.*?```\n", text, re.DOTALL)
    assert all(any(block in chunk.content for chunk in chunks) for block in blocks)


def test_code_with_fences_gets_longer_ones() -> None:
    assert "````python\ndef a():\n    x = '''\n```\n'''\n````" in text_of("def a():\n    x = '''\n```\n'''\n", "a.py")


def test_broken_code_gives_what_can_be_read() -> None:
    code = "def fine(a):\n    return 1\nclass Broken(:\n    def m(self\n        x =\ndef later():\n    pass\n"
    text = text_of(code, "a.py")
    assert "## fine(a)" in headings(text)
    assert "## later()" in headings(text)
    assert words(code) <= words(text)


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("a.c", "int f(void) { return 1; }\nif (x {\nint g(void) { return 2; }\n", "## int f(void)"),
        ("a.java", "class A {\n void f() { x(); }\n void g( {\n", "## void f()"),
    ],
)
def test_functions_within_code_that_makes_no_sense_are_found(name: str, code: str, expected: str) -> None:
    text = text_of(code, name)
    assert expected in headings(text)
    assert words(code) <= words(text)


def test_a_language_without_grammar_is_a_code_block() -> None:
    assert text_of("CREATE TABLE a (id int);\n", "a.sql") == "# a.sql\n\n```sql\nCREATE TABLE a (id int);\n```\n\n"


def test_minified_code_is_kept_without_sections_and_remarked_on() -> None:
    found = parsed("function a(){return 1};" * 2000, "a.js")
    text = "".join(found.lines)
    assert headings(text) == []
    assert "as long as a program's output" in found.remarks[0].text


def test_a_large_file_is_kept_without_sections_and_remarked_on() -> None:
    code = "".join(f"def f{n}():\n    return {n}\n" for n in range(30_000))
    found = parsed(code, "a.py")
    text = "".join(found.lines)
    assert headings(text) == []
    assert words(code) <= words(text)
    assert "512 KiB" in found.remarks[0].text


def test_code_that_takes_too_long_to_parse_is_kept_and_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx_code.outline.MAX_STEPS", 2)
    found = parsed(PYTHON * 20, "a.py")
    assert words(PYTHON) <= words("".join(found.lines))
    assert "too tangled" in found.remarks[0].text


@pytest.mark.parametrize("opening", ["(", "[{", "class A:\n ", "{", "if x {\n", "a(b(", '"', "@", "/*", "<"])
@pytest.mark.parametrize("name", ["a.py", "a.ts", "a.cpp", "a.rs", "a.rb"])
def test_deep_and_unfinished_code_is_taken(name: str, opening: str) -> None:
    assert outcome((opening * 5_000)[:8_000] + "\n", name) == "parsed"


def test_a_script_of_here_documents_alone_is_kept_without_sections() -> None:
    found = parsed("<<A\n" * 50_000, "a.sh")
    assert "".join(found.lines).count("<<A") == 50_000
    assert "more than 2,000 of <<" in found.remarks[0].text


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted({f"a{ending}" for ending, language in LANGUAGES.items() if language.grammar})),
    code=st.text(st.sampled_from("ab1 \n\t(){}[]<>:;=.,#/*\"'`@$&|-_\\é"), max_size=200),
)
def test_no_text_fails_but_by_a_refusal(name: str, code: str) -> None:
    found = outcome(code, name)
    assert found == "parsed" or found.startswith(f"{name}: ")
