"""ATT&CK: its documents and their relations, what was revoked, and bundles that have not changed or are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx_connectors.security import attack
from tests.doubles.attack_bundles import a_bundle, a_link, a_tactic, a_technique, an_object, publish
from tests.doubles.misbehaving_site import Answer, MemoryValidators, MisbehavingSite, a_web
from tests.support.feed_support import Corpus, a_connector

SHELL = a_technique("T1059", "Command and Scripting Interpreter", x_mitre_platforms=["Linux", "Windows"])
POWERSHELL = a_technique("T1059.001", "PowerShell")
PREVENTION = an_object("course-of-action", "M1038", "Execution Prevention")
BEAR = an_object("intrusion-set", "G0007", "Bear", aliases=["Bear", "Sofa"])
TOOL = an_object("malware", "S0154", "Beacon", x_mitre_platforms=["Windows"])
RAID = an_object("campaign", "C0001", "Winter Raid")
EXECUTION = a_tactic("TA0002", "Execution", "execution")
OBJECTS = (
    {"type": "identity", "id": "identity--1", "name": "MITRE"},
    SHELL,
    POWERSHELL,
    PREVENTION,
    BEAR,
    TOOL,
    RAID,
    EXECUTION,
    a_link("subtechnique-of", POWERSHELL, SHELL),
    a_link("mitigates", PREVENTION, SHELL, "Allow known scripts only.(Citation: Acme (2020))"),
    a_link("uses", BEAR, SHELL, "[Bear](https://attack.mitre.org/groups/G0007) runs <code>cmd.exe</code>."),
    a_link("uses", BEAR, TOOL),
    a_link("uses", TOOL, POWERSHELL, "Beacon runs it."),
    a_link("attributed-to", RAID, BEAR),
)


@pytest.fixture
def validators() -> MemoryValidators:
    return MemoryValidators()


@pytest.fixture
def web(site: MisbehavingSite, validators: MemoryValidators) -> Iterator[HttpWeb]:
    with closing(a_web(site, validators=validators)) as client:
        yield client


def connector(site: MisbehavingSite, web: HttpWeb, *domains: str) -> Connector[Any]:
    return a_connector("attack", web, {"base_url": site.url(), "domains": list(domains or ("enterprise",))})


def pulled(site: MisbehavingSite, web: HttpWeb, *objects: dict[str, Any]) -> Corpus:
    publish(site, "enterprise", *(objects or OBJECTS))
    return Corpus().pull(connector(site, web))


# -- documents


def test_each_kind_of_object_is_a_document(site: MisbehavingSite, web: HttpWeb) -> None:
    corpus = pulled(site, web)
    assert list(corpus.documents) == [
        "technique/T1059",
        "technique/T1059.001",
        "mitigation/M1038",
        "group/G0007",
        "software/S0154",
        "campaign/C0001",
        "tactic/TA0002",
    ]
    assert corpus.last.complete


def test_technique_lists_mitigations_and_users(site: MisbehavingSite, web: HttpWeb) -> None:
    rendered = pulled(site, web).text("technique/T1059")
    assert "- **Tactics**: TA0002 Execution" in rendered
    assert "- **Platforms**: Linux, Windows" in rendered
    assert "## Sub-techniques\n\n- T1059.001 PowerShell" in rendered
    assert "## Mitigations\n\n- M1038 Execution Prevention: Allow known scripts only.\n" in rendered
    assert "## Used by\n\n- **Group**: Bear (G0007)" in rendered


def test_relations_are_lines_that_a_graph_can_take(site: MisbehavingSite, web: HttpWeb) -> None:
    corpus = pulled(site, web)
    block = corpus.text("technique/T1059").partition("## Relationships")[2]
    assert "relationships:\n- technique:T1059|MITIGATED_BY|mitigation:M1038\n" in block
    assert "- technique:T1059|USED_BY|group:G0007\n" in block
    assert "- technique:T1059|ACHIEVES|tactic:TA0002\n" in block
    assert "- technique:T1059.001|SUBTECHNIQUE_OF|technique:T1059\n" in corpus.text("technique/T1059.001")
    assert "- campaign:C0001|ATTRIBUTED_TO|group:G0007\n" in corpus.text("campaign/C0001")


def test_group_describes_its_use_of_techniques_and_software(site: MisbehavingSite, web: HttpWeb) -> None:
    corpus = pulled(site, web)
    rendered = corpus.text("group/G0007")
    assert "- T1059 Command and Scripting Interpreter: Bear (G0007) runs `cmd.exe`." in rendered
    assert "## Software\n\n- S0154 Beacon" in rendered
    assert "- **Also known as**: Sofa" in rendered
    assert "Sofa" in corpus.documents["group/G0007"].metadata["tags"]


def test_mitigation_and_tactic_list_their_techniques(site: MisbehavingSite, web: HttpWeb) -> None:
    corpus = pulled(site, web)
    assert "## Mitigates\n\n- T1059 Command and Scripting Interpreter: Allow" in corpus.text("mitigation/M1038")
    assert "- T1059.001 PowerShell" in corpus.text("tactic/TA0002")


def test_metadata_state_title_address_and_dates(site: MisbehavingSite, web: HttpWeb) -> None:
    metadata = pulled(site, web).documents["technique/T1059.001"].metadata
    assert metadata["title"] == "T1059.001: PowerShell"
    assert metadata["source_uri"] == "https://attack.mitre.org/techniques/T1059/001"
    assert metadata["last_updated"] == "2025-10-01T00:00:00Z"
    assert metadata["tags"] == ["T1059.001", "technique", "execution"]


def test_detection_names_strategies_analytics_and_logs(site: MisbehavingSite, web: HttpWeb) -> None:
    component = an_object("x-mitre-data-component", "DC0032", "Process Creation")
    log = {"x_mitre_data_component_ref": component["id"], "name": "WinEventLog:Sysmon", "channel": "EventCode=1"}
    analytic = an_object("x-mitre-analytic", "AN0001", "Analytic 0001", description="Odd parents.",
                         x_mitre_platforms=["Windows"], x_mitre_log_source_references=[log])  # fmt: skip
    strategy = an_object("x-mitre-detection-strategy", "DET0001", "Abuse of Shells", description="",
                         x_mitre_analytic_refs=[analytic["id"], "x-mitre-analytic--unknown"])  # fmt: skip
    rendered = pulled(site, web, SHELL, component, analytic, strategy, a_link("detects", strategy, SHELL)).text(
        "technique/T1059"
    )
    assert "## Detection\n\n- DET0001 Abuse of Shells\n\n  - AN0001 (Windows): Odd parents.\n" in rendered
    assert "    Logs: WinEventLog:Sysmon EventCode=1 (Process Creation)" in rendered
    assert "technique:T1059|DETECTED_BY|detection:DET0001" in rendered


def test_older_form_of_detection_is_read_too(site: MisbehavingSite, web: HttpWeb) -> None:
    component = an_object("x-mitre-data-component", "", "Process Creation", external_references=[], description="")
    old = a_technique("T1059", "Shell", x_mitre_detection="Watch command lines.")
    rendered = pulled(site, web, old, component, a_link("detects", component, old, "Look at parents.")).text(
        "technique/T1059"
    )
    assert "## Detection\n\nWatch command lines.\n\n- Process Creation: Look at parents." in rendered
    assert "DETECTED_BY|data component:Process Creation" in rendered


def test_text_from_outside_makes_no_headings_of_ours(site: MisbehavingSite, web: HttpWeb) -> None:
    rendered = pulled(site, web, a_technique("T1", "Shell", description="# Mitigations\n```\nx")).text("technique/T1")
    assert "\n# " not in f"\n{rendered}"
    assert rendered.count("```") % 2 == 0


# -- what is gone


def test_revoked_and_deprecated_objects_are_withdrawn(site: MisbehavingSite, web: HttpWeb) -> None:
    old = a_technique("T1086", "PowerShell", revoked=True)
    dull = an_object("malware", "S0001", "Dull", x_mitre_deprecated=True)
    corpus = pulled(site, web, POWERSHELL, old, dull, a_link("revoked-by", old, POWERSHELL))
    assert corpus.withdrawn == ["software/S0001", "technique/T1086"]
    assert "- **Replaces**: T1086 PowerShell" in corpus.text("technique/T1059.001")
    assert "technique:T1059.001|REPLACES|technique:T1086" in corpus.text("technique/T1059.001")


def test_deprecated_mitigation_with_a_techniques_id_leaves_the_technique(site: MisbehavingSite, web: HttpWeb) -> None:
    old = an_object("course-of-action", "T1059", "Shell Mitigation", x_mitre_deprecated=True)
    corpus = pulled(site, web, SHELL, old, a_link("mitigates", old, SHELL))
    assert list(corpus.documents) == ["technique/T1059"]
    assert "Shell Mitigation" not in corpus.text("technique/T1059")


def test_revoked_object_with_the_id_of_a_living_one_withdraws_nothing(site: MisbehavingSite, web: HttpWeb) -> None:
    old = SHELL | {"id": "attack-pattern--old", "revoked": True}
    corpus = pulled(site, web, SHELL, old)
    assert corpus.withdrawn == []
    assert list(corpus.documents) == ["technique/T1059"]


def test_deprecated_relationship_is_left_out(site: MisbehavingSite, web: HttpWeb) -> None:
    link = a_link("mitigates", PREVENTION, SHELL) | {"x_mitre_deprecated": True}
    assert "M1038" not in pulled(site, web, SHELL, PREVENTION, link).text("technique/T1059")


def test_tactic_of_another_domain_with_the_same_name_is_another(site: MisbehavingSite, web: HttpWeb) -> None:
    other = a_tactic("TA0041", "Execution", "execution") | {"x_mitre_domains": ["mobile-attack"]}
    assert "TA0041" not in pulled(site, web, SHELL, EXECUTION, other).text("technique/T1059")


# -- bundles


def test_unchanged_bundle_is_not_read_and_nothing_is_withdrawn(site: MisbehavingSite, web: HttpWeb) -> None:
    publish(site, "enterprise", *OBJECTS, etag='"1"')
    corpus = Corpus().pull(connector(site, web))
    web.commit_validators()
    pages = list(connector(site, web).pull(_from_the_start()))
    assert [(page.documents, page.complete) for page in pages] == [((), False)]
    assert len(corpus.documents) == 7


def test_change_of_one_domain_reads_all_of_them(site: MisbehavingSite, web: HttpWeb) -> None:
    phone = a_technique("T1398", "Boot Scripts", x_mitre_domains=["mobile-attack"])
    publish(site, "enterprise", *OBJECTS, etag='"1"')
    publish(site, "mobile", phone, BEAR, a_link("uses", BEAR, phone), etag='"1"')
    Corpus().pull(connector(site, web, "enterprise", "mobile"))
    web.commit_validators()
    publish(site, "mobile", phone, BEAR, a_link("uses", BEAR, phone, "Anew."), etag='"2"')
    corpus = Corpus().pull(connector(site, web, "enterprise", "mobile"))
    assert len(corpus.documents) == 8
    assert corpus.last.complete
    rendered = corpus.text("group/G0007")
    assert "T1059 Command" in rendered
    assert "T1398 Boot Scripts: Anew." in rendered


@pytest.mark.parametrize("after", [1, 2, 3])
def test_interrupted_pull_resumes_though_the_bundle_is_unchanged(
    site: MisbehavingSite, web: HttpWeb, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(attack, "PAGE_DOCUMENTS", 2)
    publish(site, "enterprise", *OBJECTS, etag='"1"')
    corpus = Corpus()
    cursor = corpus.interrupted(connector(site, web), after=after)
    web.commit_validators()
    before = list(corpus.put)
    assert len(before) == 2 * after
    rest = Corpus().pull(connector(site, web), cursor=cursor)
    assert before + rest.put == list(pulled(site, web).documents)
    assert rest.last.complete


def test_resumed_pull_with_another_bundle_starts_again(
    site: MisbehavingSite, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack, "PAGE_DOCUMENTS", 2)
    publish(site, "enterprise", *OBJECTS)
    cursor = Corpus().interrupted(connector(site, web), after=2)
    publish(site, "enterprise", *OBJECTS[:3])
    assert list(Corpus().pull(connector(site, web), cursor=cursor).documents) == [
        "technique/T1059",
        "technique/T1059.001",
    ]


def _from_the_start() -> Any:
    from opx.domain.sources import PullRequest

    return PullRequest()


# -- what goes wrong


def test_cut_bundle_gives_no_document(site: MisbehavingSite, web: HttpWeb) -> None:
    path = publish(site, "enterprise", *OBJECTS)
    site.cut_quietly(path)
    corpus = Corpus()
    with pytest.raises(SourceShapeError, match="cut"):
        corpus.pull(connector(site, web))
    assert not corpus.documents


@pytest.mark.parametrize(
    "body", [[], {}, {"objects": []}, "<html>", {"type": "bundle", "objects": [{"type": "x", "id": "y"}]}]
)
def test_bundle_of_another_shape_is_refused(site: MisbehavingSite, web: HttpWeb, body: Any) -> None:
    site.page("/enterprise-attack/enterprise-attack.json", body)
    with pytest.raises(SourceShapeError):
        Corpus().pull(connector(site, web))


def test_odd_object_is_refused_under_its_documents_key(site: MisbehavingSite, web: HttpWeb) -> None:
    corpus = pulled(site, web, SHELL, a_technique("T2", "x") | {"name": None}, a_technique("T3", "y", modified="never"))
    assert list(corpus.documents) == ["technique/T1059"]
    assert set(corpus.refused) == {"technique/T2", "technique/T3"}


@pytest.mark.parametrize("description", [5, ["Text"], {"en": "Text"}])
def test_description_of_another_shape_does_not_disappear(
    site: MisbehavingSite, web: HttpWeb, description: object
) -> None:
    corpus = pulled(site, web, SHELL, a_technique("T2", "x", description=description))
    assert list(corpus.documents) == ["technique/T1059"]
    assert corpus.refused["technique/T2"].startswith("the field 'description' should be a string, not ")


def test_missing_bundle_names_the_option_to_set(site: MisbehavingSite, web: HttpWeb) -> None:
    with pytest.raises(SourceRefusedError, match="base_url"):
        Corpus().pull(connector(site, web))


def test_unknown_domain_is_refused(site: MisbehavingSite, web: HttpWeb) -> None:
    with pytest.raises(InvalidInputError, match="enterprise, mobile, ics"):
        Corpus().pull(connector(site, web, "cloud"))


def test_server_that_is_busy_for_long_ends_the_pull(site: MisbehavingSite, web: HttpWeb) -> None:
    path = publish(site, "enterprise", *OBJECTS)
    site.fail(path, status=429, retry_after="600")
    with pytest.raises(SourceUnavailableError) as caught:
        Corpus().pull(connector(site, web))
    assert caught.value.retry_after == 600


def test_health_is_checked_with_the_list_of_releases(site: MisbehavingSite, web: HttpWeb) -> None:
    assert not connector(site, web).check().ok
    site.page("/index.json", {"collections": []})
    assert connector(site, web).check().ok
    site.once("/index.json", Answer(200, {"bundles": []}))
    assert "'collections'" in connector(site, web).check().reason


def test_bundle_is_parsed_in_any_layout(site: MisbehavingSite, web: HttpWeb) -> None:
    site.page("/enterprise-attack/enterprise-attack.json", json.dumps(a_bundle(*OBJECTS), indent=4), kind="text/plain")
    assert len(Corpus().pull(connector(site, web)).documents) == 7
