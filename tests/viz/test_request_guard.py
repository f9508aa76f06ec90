"""Which requests a viewer answers."""

from types import SimpleNamespace

import pytest

from rsl_rl.viz.request_guard import RequestGuard


class Headers(dict):
    """Headers of a request, by name."""

    def get_all(self, name):
        return [self[name]] if name in self else []


def asked(path, **headers):
    return SimpleNamespace(path=path, headers=Headers({"Host": "localhost:9000", **headers}))


@pytest.fixture
def guard():
    return RequestGuard()


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        ("/", {}, "with its token"),
        ("/?token=", {}, "with its token"),
        ("/?token=gr\u00fc\u00df", {}, "with its token"),
        ("/", {"Cookie": "rsl_rl_0=x; other"}, "with its token"),
        ("/?TOKEN", {"Host": "evil.example"}, "host name"),
        ("/?TOKEN", {"Host": "evil.example:8080"}, "host name"),
        ("/?TOKEN", {"Host": "[::1"}, "host name"),
        ("/?TOKEN", {"Origin": "http://localhost:9001"}, "not allowed"),
        ("/?TOKEN", {"Origin": "null"}, "not allowed"),
        ("/../x?TOKEN", {}, "not served"),
        ("/a/%2E%2e/%2e%2e/x?TOKEN", {}, "not served"),
        ("/..%5C..%5Cx?TOKEN", {}, "not served"),
        ("//etc/passwd?TOKEN", {}, "not served"),
        ("etc?TOKEN", {}, "not served"),
    ],
)
def test_guard_of_a_foreign_request_refuses_it(guard, path, headers, message):
    assert message in guard.refusal(asked(path.replace("TOKEN", f"token={guard.token}"), **headers))


def test_guard_without_a_host_refuses(guard):
    request = asked(f"/?token={guard.token}")
    request.headers.clear()
    assert "host name" in guard.refusal(request)


def test_guard_of_the_first_request_gives_the_cookie_for_later_ones(guard):
    handler = guard.wrap(lambda connection, request: SimpleNamespace(headers={}))
    response = handler(None, asked(f"/index.html?token={guard.token}", Origin="http://localhost:9000"))
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert guard.refusal(asked("/assets/a.js", Cookie=f"a=b; {cookie.partition(';')[0]}")) is None
    assert RequestGuard().refusal(asked("/", Cookie=cookie.partition(";")[0])) is not None


def test_guard_without_a_handler_of_files_opens_the_web_socket(guard):
    assert guard.wrap(None)(None, asked(f"/?token={guard.token}")) is None
