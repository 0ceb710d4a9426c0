"""Where deliveries may go: a hundred ways to write an address inside, and none leads there."""
# ruff: noqa: E501, S104 (addresses, many in a line)

import ipaddress
import socket
import threading
from collections.abc import Sequence

import pytest

from holdfast.core.errors import Misused
from holdfast.core.redact import shown_url
from holdfast.webhooks.address import AddressRefused, checked, is_public, networks_of, place_of
from holdfast.webhooks.client import Post
from holdfast.webhooks.connection import Undelivered
from tests.webhooks.receivers import receiver

# The inner server listens at 127.0.0.1; {p} is its port.
HOSTS = [
    # Plain, short, and with other bases.
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001",
    "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "0177.1", "017700000001", "0x7F.0x0.0x0.0x1", "127.0.0.1.", "127.00.00.01",
    "%31%32%37.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "localhost", "LOCALHOST", "localhost.", "ip6-localhost",
    # Private, shared, link-local, documentation, benchmark, multicast, reserved.
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1",
    "100.127.255.255", "169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
    "192.0.0.1", "192.0.0.8", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255",
    "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "0.1.2.3",
    # IPv6.
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[0000::0001]", "[fe80::1]", "[fe80::1%25lo]", "[febf::1]", "[fec0::1]",
    "[fc00::1]", "[fd00::1]", "[fd00:ec2::254]", "[ff02::1]", "[ff0e::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]",
    "[2001::1]", "[2001:10::1]", "[2001:2::1]", "[5f00::1]", "[2001:0:7f00:1::]",
    # IPv4 in IPv6: mapped, compatible, translated, 6to4, Teredo.
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:10.0.0.1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]", "[::7f00:1]", "[::a9fe:a9fe]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::127.0.0.1]", "[64:ff9b:1::a9fe:a9fe]", "[2002:7f00:1::1]", "[2002:7f00:0001::]",
    "[2002:a9fe:a9fe::1]", "[2002:0a00:0001::1]", "[2002:c0a8:0101::1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    # ISATAP, and a cloud's own services on an address that looks public.
    "[2606:4700:4700::5efe:127.0.0.1]", "[2606:4700:4700::200:5efe:a9fe:a9fe]", "168.63.129.16",
]  # fmt: skip
URLS = [
    "http://user@127.0.0.1:{p}/", "http://example.com@127.0.0.1:{p}/", "http://127.0.0.1:{p}\\@example.com/",
    "http://127.0.0.1:{p}#@example.com/", "http:///127.0.0.1:{p}/", "http:127.0.0.1:{p}", "//127.0.0.1:{p}/",
    "gopher://127.0.0.1:{p}/", "file:///etc/passwd", "http+unix://%2Frun%2Fx.sock/", "ftp://127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\r\nX: y/", "http://127.0.0.1 :{p}/", "http://[127.0.0.1]:{p}/", "http://[::1:{p}/",
    "http://:{p}/", "http://127.0.0.1:99999/", "http://127.0.0.1:22/", "http://127.0.0.1:x/", "",
]  # fmt: skip
FORMS = [f"http://{host}:{{p}}/" for host in HOSTS] + URLS


def test_there_are_a_hundred_forms() -> None:
    assert len(set(FORMS)) >= 100


@pytest.mark.catches("addresses-unchecked")
async def test_b7_no_form_of_an_address_inside_reaches_the_inner_server() -> None:
    async with receiver() as inner:
        post = Post()
        for form in FORMS:
            url = form.format(p=inner.port)
            with pytest.raises((Misused, AddressRefused, Undelivered)) as refused:
                await post(place_of(url), {}, b"{}", 2.0)
            if isinstance(refused.value, Undelivered):
                # Not a name that anybody has: nothing was connected to.
                assert refused.value.code == "dns", url
        post.close()
        assert inner.connections == 0
        # And yet it is there, for those who allow it.
        allowed = Post(networks_of("127.0.0.0/8"))
        assert (await allowed(place_of(inner.url()), {}, b"{}", 2.0)).status == 200
        allowed.close()


@pytest.mark.catches("first-address-decides")
@pytest.mark.parametrize(
    "answers", [["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["2606:4700::1", "::1"]]
)
async def test_a_name_with_an_address_inside_among_others_is_refused(answers: list[str]) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return answers

    with pytest.raises(AddressRefused):
        await checked(place_of("https://example.com/"), (), resolve)


@pytest.mark.catches("looked-up-twice")
async def test_a_name_that_changes_its_mind_is_looked_up_once() -> None:
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        # The first answer is allowed and nobody listens there; the second would lead inside.
        return ["127.0.0.9"] if len(asked) == 1 else ["127.0.0.1"]

    async with receiver() as inner:
        post = Post(networks_of("127.0.0.9/32"), rebinding)
        with pytest.raises(Undelivered) as failed:
            await post(place_of(inner.url(host="rebind.example")), {}, b"{}", 2.0)
        assert (failed.value.code, asked, inner.connections) == ("connect", ["rebind.example"], 0)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_what_is_public_is_allowed(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://example.com", "example.com", "/"),
        ("https://example.com:443/a?b=c", "example.com", "/a?b=c"),
        ("http://example.com:8080/a", "example.com:8080", "/a"),
        ("https://[2606:4700::1]:8443/", "[2606:4700::1]:8443", "/"),
    ],
)
def test_a_url_is_read_as_it_is_sent(url: str, authority: str, path: str) -> None:
    place = place_of(url)
    assert (place.authority, place.path) == (authority, path)


def test_without_tls_only_where_it_is_allowed() -> None:
    with pytest.raises(Misused, match="begins with https"):
        place_of("http://example.com/", plain=False)


def test_networks_that_are_none_are_refused() -> None:
    with pytest.raises(Misused, match="are no networks"):
        networks_of("10.0.0.0/8, everything")


@pytest.mark.catches("lookups-not-shared")
async def test_a_silent_name_server_holds_up_one_thread_for_each_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, asked = threading.Event(), []

    def silent(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        answer.wait(10)
        return [(2, 1, 6, "", ("127.0.0.9", port))]

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    post = Post(networks_of("127.0.0.9/32"))
    for _ in range(10):
        with pytest.raises(Undelivered) as failed:
            await post(place_of("http://silent.example:8080/"), {}, b"{}", 0.02)
        assert failed.value.code == "timeout"
    answer.set()
    post.close()
    assert asked == ["silent.example"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://a.example/", "https://a.example/"),
        ("https://a.example/hook", "https://a.example/hook"),
        ("https://a.example:8443/hook/", "https://a.example:8443/hook/"),
        (
            "https://hooks.slack.example/services/T00/B00/key",
            "https://hooks.slack.example/services/[redacted]",
        ),
        ("https://a.example/hook?token=key", "https://a.example/hook?[redacted]"),
        ("https://a.example/?token=key", "https://a.example/?[redacted]"),
        ("https://a.example/a/b?token=key", "https://a.example/a/[redacted]?[redacted]"),
        ("https://me:key@a.example/hook", "https://a.example/hook"),
        ("https://a.example/0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f", "https://a.example/[redacted]"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_token(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_url(shown) == shown, "what was struck out in the log is shown as it is"
