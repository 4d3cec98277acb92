"""Settings from the environment, the tables' specification, and the hierarchy of errors."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from opx import errors
from opx.errors import InvalidInputError
from opx.ports import tables
from opx.settings import Settings, env_name

# -- settings --------------------------------------------------------------------------------------------------------


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Settings.from_environ({}) == Settings()


def test_documents_are_cut_into_500_tokens_with_50_overlap() -> None:
    assert (Settings().chunk_tokens, Settings().chunk_overlap) == (500, 50)


def test_the_bucket_has_the_name_that_is_known() -> None:
    assert Settings().corpus_bucket == "opx-knowledge-corpus"


def test_every_field_is_read_from_its_variable() -> None:
    examples = {"int": "100", "float": "2.5", "str": "x"}
    environ = {env_name(name): examples[Settings.__annotations__[name]] for name in Settings.__struct_fields__}
    chosen = {"OPX_BACKEND": "aws", "OPX_SEARCH_GENERATION": "classic", "OPX_CHUNK_OVERLAP": "7"}
    chosen |= {"OPX_SEARCH_ENGINE": "bedrock_knowledge_base", "OPX_OCR": "textract"}
    chosen |= {"OPX_SEARCH_LEGS": "vector", "OPX_FUSION": "min_max", "OPX_RERANKER": "chat"}
    chosen |= {"OPX_RESEARCH_PLANNER": "chat", "OPX_REWORDING": "off", "OPX_LEARNED_WORDS": "off"}
    chosen |= {"OPX_STORE": "s3://x", "OPX_TABLES": "dynamodb:x", "OPX_QUEUE": "https://x", "OPX_INDEX": "aoss://x/x"}
    chosen |= {"OPX_EMBEDDER": "local:x", "OPX_SECRETS": "secretsmanager", "OPX_INTERNET": "off"}
    chosen |= {"OPX_SECRET_ORIGINALS": "keep"}
    chosen |= {"OPX_SEARCH_OWN_IDS": "on", "OPX_SEARCH_COLLECTION": "green", "OPX_WARM_WORDS": "on"}
    chosen |= {"OPX_NEXT_SEARCH_OWN_IDS": "off", "OPX_NEXT_SEARCH_GENERATION": "classic"}
    settings = Settings.from_environ({**environ, **chosen})
    for name in Settings.__struct_fields__:
        assert str(getattr(settings, name)) == {**environ, **chosen}[env_name(name)]


def test_the_name_of_a_variable_is_the_prefix_and_the_field() -> None:
    assert env_name("chunk_tokens") == "OPX_CHUNK_TOKENS"


def test_overrides_win_over_the_environment() -> None:
    assert Settings.from_environ({"OPX_HOME": "/a"}, home="/b").home == "/b"


def test_other_variables_are_ignored() -> None:
    assert Settings.from_environ({"HOME": "/root", "BACKEND": "aws"}) == Settings()


def test_unknown_search_engine_is_refused_with_what_is_known() -> None:
    with pytest.raises(InvalidInputError, match="'own' or 'bedrock_knowledge_base', not 'solr'"):
        Settings(search_engine="solr")


@pytest.mark.parametrize("settings", [{"backend": "aws"}, {"backend": "embedded", "knowledge_base_id": "KB12345678"}])
def test_managed_search_needs_aws_and_a_knowledge_base(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="OPX_KNOWLEDGE_BASE_ID"):
        Settings(search_engine="bedrock_knowledge_base", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("search_legs", "none", "'both' or 'vector' or 'lexical'"),
        ("fusion", "sum", "'' or 'rrf' or 'weighted_rrf' or 'min_max'"),
        ("reranker", "cohere", "'local' or 'bedrock' or 'chat' or 'off'"),
        ("rewording", "no", "'on' or 'off'"),
        ("research_planner", "none", "'auto' or 'rules' or 'chat'"),
    ],
)
def test_an_unknown_way_to_search_is_refused_with_what_is_known(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{env_name(name)} must be {allowed}, not '{value}'"):
        Settings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"reranker": "bedrock", "backend": "aws"}, "OPX_RERANK_MODEL"),
        ({"reranker": "bedrock", "rerank_model": "amazon.rerank-v1:0"}, "OPX_BACKEND=aws"),
        ({"reranker": "chat"}, "OPX_CHAT_MODEL"),
        ({"research_planner": "chat"}, "OPX_CHAT_MODEL"),
        ({"chat_model": "llama3.2"}, "OPX_CHAT_URL"),
        ({"context_model": "llama3.2"}, "OPX_CHAT_URL"),
        ({"graph_model": "llama3.2"}, "OPX_CHAT_URL"),
    ],
)
def test_a_model_that_is_chosen_needs_a_service_that_has_it(settings: dict[str, str], needed: str) -> None:
    with pytest.raises(InvalidInputError, match=needed):
        Settings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"reranker": "bedrock", "rerank_model": "amazon.rerank-v1:0", "backend": "aws"},
        {"reranker": "chat", "chat_model": "amazon.nova-lite-v1:0", "backend": "aws"},
        {"reranker": "chat", "chat_model": "llama3.2", "chat_url": "http://localhost:11434/v1"},
        {"context_model": "llama3.2", "chat_url": "http://localhost:11434/v1"},
    ],
)
def test_models_can_be_chosen_where_there_is_a_service(settings: dict[str, str]) -> None:
    assert Settings(**settings)  # type: ignore[arg-type]


def test_an_empty_text_is_a_value() -> None:
    assert Settings.from_environ({"OPX_SEARCH_INDEX": ""}).search_index == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPX_CHUNK_TOKENS", "many"),
        ("OPX_CHUNK_TOKENS", ""),
        ("OPX_CHUNK_TOKENS", "5e2"),
        ("OPX_CHUNK_OVERLAP", "500"),
        ("OPX_CHUNK_OVERLAP", "-1"),
        ("OPX_SEARCH_TIMEOUT", "soon"),
        ("OPX_SEARCH_TIMEOUT", "nan"),
        ("OPX_SEARCH_TIMEOUT", "-1"),
        ("OPX_BACKEND", "azure"),
        ("OPX_BACKEND", ""),
        ("OPX_SEARCH_GENERATION", "third"),
    ],
)
def test_an_unusable_value_is_refused_with_the_variables_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        Settings.from_environ({name: value})


def test_a_window_holds_more_than_a_character() -> None:
    assert Settings(chunk_tokens=8, chunk_overlap=0).chunk_tokens == 8
    with pytest.raises(InvalidInputError, match="OPX_CHUNK_TOKENS must be at least 8"):
        Settings(chunk_tokens=7, chunk_overlap=0)


def test_the_home_folder_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings(home="~/knowledge").home_path == tmp_path / "knowledge"
    monkeypatch.chdir(tmp_path)
    assert Settings(home=".opx").home_path == tmp_path / ".opx"


# -- tables ----------------------------------------------------------------------------------------------------------


def test_tables_and_indexes_have_the_names_that_are_known() -> None:
    assert tables.DOCUMENTS.name == "opx-knowledge-documents"
    assert tables.DOCUMENTS.partition == "documentId"
    assert {index.name for index in tables.DOCUMENTS.indexes} >= {"category-lastUpdated-index", "tags-index"}


def test_no_two_tables_share_a_name() -> None:
    names = [spec.name for spec in tables.ALL_TABLES]
    assert len(names) == len(set(names))


def test_all_tables_are_listed() -> None:
    defined = [value for value in vars(tables).values() if isinstance(value, tables.TableSpec)]
    assert sorted(spec.name for spec in defined) == sorted(spec.name for spec in tables.ALL_TABLES)


def test_the_key_of_an_item_is_all_of_its_key_and_nothing_else() -> None:
    item: dict[str, object] = {"documentId": "d", "entry": "e", "title": "t"}
    assert tables.DOCUMENTS.key_of(item) == {"documentId": "d", "entry": "e"}
    assert tables.KEYS.key_of({"documentKey": "k", "x": 1}) == {"documentKey": "k"}


def test_an_index_is_found_by_name() -> None:
    assert tables.DOCUMENTS.index("tags-index").partition == "tag"


def test_an_unknown_index_is_an_error_with_its_name() -> None:
    with pytest.raises(KeyError, match="opx-knowledge-documents has no index x"):
        tables.DOCUMENTS.index("x")


# -- errors ----------------------------------------------------------------------------------------------------------


def test_every_error_is_an_opx_error_with_a_docstring() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert len(kinds) > 10
    for kind in kinds:
        assert issubclass(kind, errors.OpxError)
        assert kind.__doc__
        assert kind.__name__.endswith("Error")


@pytest.mark.parametrize("kind", [errors.IndexUnavailableError, errors.EmbeddingError])
def test_temporary_errors_are_store_unavailable_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.StoreUnavailableError)


@pytest.mark.parametrize("kind", [errors.InvalidScopeError, errors.UnknownCategoryError, errors.KnowledgeConfigError])
def test_errors_of_the_caller_are_invalid_input_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, InvalidInputError)
    assert not issubclass(kind, errors.StoreUnavailableError)
