"""uv is told what pip is told."""

from tools.install import as_pip


def test_what_pip_is_told_holds_for_uv() -> None:
    config = "\n".join(
        [
            ":env:.find-links='/own/wheels'",
            "global.cert='/etc/ca.crt'",
            "global.extra-index-url='file:///one/simple https://two/simple'",
            "global.find-links='/opt/wheels /more/wheels'",
            "global.timeout='9'",
            "install.index-url='https://three/simple'",
        ]
    )
    assert as_pip(config, {"HOME": "/root"}) == {
        "HOME": "/root",
        "SSL_CERT_FILE": "/etc/ca.crt",
        "UV_DEFAULT_INDEX": "https://three/simple",
        "UV_FIND_LINKS": "/own/wheels",
        "UV_INDEX": "file:///one/simple https://two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_SYSTEM_CERTS": "1",
    }
    assert as_pip("global.find-links='/a /b'", {})["UV_FIND_LINKS"] == "/a,/b"


def test_what_uv_itself_is_told_comes_first() -> None:
    told = as_pip("global.index-url='https://one/simple'", {"UV_DEFAULT_INDEX": "https://two/simple"})
    assert told["UV_DEFAULT_INDEX"] == "https://two/simple"
