from tests.infra.test_streams import *
from tests.infra.conftest import *
from tests.infra.templates import lint_findings
def test_it(declaring, make):
    with declaring(DECLARED):
        a = make(environment="prod", kms_key="own", vpc="true", ephemeral="true")
    print(a.findings); print(lint_findings(a,"streams")); 
    q=a.only("streams","SQS::Queue"); print(q)
    print([x for x in rights(a) if x[0].startswith("kms")])
    f=a.only("streams","Lambda::Function"); print(f.get("VpcConfig"))
    print(sorted(x for x in rights(a) if x[0].startswith("ec2")))
    assert 0
