"""What may be in no report: secrets and identifiers in every form that commands, notices and paths carry them in.

A form makes a text around a tag, which occurs nowhere else; the tag (or what is made of it) is what is looked for.
Everything here is invented, and put together at run time, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: A text and what of it may not be shown.
Made = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Plant:
    """One text: its form, what is to be written, and what of it is looked for."""

    form: str
    text: str
    looked_for: tuple[str, ...]


def _digest(number: int) -> str:
    return hashlib.sha256(f"planted {number}".encode()).hexdigest()


def _tag(number: int) -> str:
    """Letters that occur nowhere else: ``qzb`` and a number in letters."""
    return "qzb" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


def _mixed(number: int, length: int) -> str:
    """Letters and digits of both cases, as generated keys have."""
    text = base64.b64encode(hashlib.sha512(f"planted {number}".encode()).digest()).decode()
    return text.replace("+", "x").replace("/", "Y").replace("=", "")[:length]


def _simple(template: str) -> Callable[[int], Made]:
    """Make a form of a text with ``{t}`` (letters), ``{m20}`` (mixed), ``{x40}`` (hexadecimal), ``{d}`` (digits)."""

    def make(number: int) -> Made:
        found: list[str] = []
        text = template
        digits = str(int(_digest(number)[:12], 16) + 10**14)
        pieces = {"{t}": _tag(number), "{T}": _tag(number).upper(), "{d}": digits[:14]}
        pieces |= {
            f"{{m{n}}}": _mixed(number, n) for n in (11, 16, 20, 22, 24, 27, 32, 35, 36, 40, 43, 64, 88)
        }
        pieces |= {f"{{x{n}}}": _digest(number)[:n] for n in (7, 12, 32, 40, 64)}
        for piece, value in pieces.items():
            if piece in text:
                text = text.replace(piece, value)
                found.append(value)
        return text, tuple(found)

    return make


def _basic(number: int) -> Made:
    encoded = base64.b64encode(f"user:{_tag(number)}-pass".encode()).decode()
    return f"Authorization: Basic {encoded}", (encoded,)


def _address(template: str) -> Callable[[int], Made]:
    def make(number: int) -> Made:
        address = f"10.{number % 200 + 20}.{number // 200 + 11}.{number % 90 + 100}"
        return template.format(address), (address,)

    return make


def _block(kind: str) -> Callable[[int], Made]:
    def make(number: int) -> Made:
        dashes = "-" * 5
        body = _mixed(number, 64)
        return f"{dashes}BEGIN {kind}{dashes}\n{body}\n{dashes}END {kind}{dashes}", (body,)

    return make


#: Forms that a text can be recognised by wherever it stands, in a name of a function too.
FORMED: dict[str, Callable[[int], Made]] = {
    "github": _simple("gh" + "p_{m36}"),
    "github-fine": _simple("github_" + "pat_{m22}_{m36}"),
    "gitlab": _simple("gl" + "pat-{m20}"),
    "aws-id": lambda n: ((f"AK{'IA'}{_digest(n)[:16].upper()}"), (_digest(n)[:16].upper(),)),
    "slack": _simple("xo" + "xb-12345-{m24}"),
    "slack-hook": _simple("https://hooks.slack.com/services/T0A/B0B/{m24}"),
    "discord-hook": _simple("https://discord.com/api/webhooks/1234/{m64}"),
    "discord-bot": _simple("M{m24}.G1a2b3.{m27}"),
    "telegram-url": _simple("https://api.telegram.org/bot123456789:{m35}/send"),
    "telegram": _simple("123456789:{m35}"),
    "teams-hook": _simple("https://corp.webhook.office.com/webhookb2/{x32}/IncomingWebhook/x"),
    "hugging-face": _simple("hf" + "_{m36}"),
    "openai": _simple("sk" + "-proj-{m43}"),
    "anthropic": _simple("sk" + "-ant-api03-{m43}"),
    "google-key": _simple("AI" + "za{m35}"),
    "google-oauth": _simple("ya" + "29.a0{m40}"),
    "npm": _simple("npm" + "_{m36}"),
    "stripe": _simple("sk" + "_live_{m24}"),
    "sendgrid": _simple("SG" + ".{m22}.{m43}"),
    "twilio": _simple("SK" + "{x32}"),
    "mailchimp": _simple("{x32}-us12"),
    "digitalocean": _simple("dop" + "_v1_{x64}"),
    "databricks": _simple("dapi" + "{x32}"),
    "vault": _simple("hvs" + ".{m24}"),
    "jwt": _simple("ey" + "JhbGciOiJI.{m24}.{m43}"),
    "nvidia": _simple("nv" + "api-{m64}"),
    "docker": _simple("dckr" + "_pat_{m27}"),
    "replicate": _simple("r8" + "_{m36}"),
    "shopify": _simple("shp" + "at_{x32}"),
    "grafana": _simple("gl" + "sa_{m32}_{x7}"),
    "bearer": _simple("Authorization: Bearer {m40}"),
    "basic": _basic,
    "url-userinfo": _simple("https://bob:{t}@db.example/x"),
    "postgres": _simple("postgresql://svc:{t}@pg.example:5432/db"),
    "redis": _simple("redis://:{t}@cache.example:6379/0"),
    "mongodb": _simple("mongodb+srv://svc:{t}@m0.example/x?retry=1"),
    "presigned-aws": _simple("https://b.s3.amazonaws.com/k?X-Amz-Credential={m20}&X-Amz-Signature={x64}"),
    "presigned-azure": _simple("https://a.blob.core.windows.net/c?sv=2024-01-01&sig={m43}"),
    "presigned-google": _simple("https://storage.googleapis.com/b/k?X-Goog-Signature={x64}"),
    "url-token": _simple("https://api.example/v1?token={t}&n=1"),
    "url-fragment": _simple("https://app.example/cb#access_token={t}"),
    "connection-string": _simple("Server=db;Uid=svc;Password={t};"),
    "account-key": _simple("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={m88}"),
    "private-key": _block("RSA PRIVATE KEY"),
    "openssh-key": _block("OPENSSH PRIVATE KEY"),
    "pgp-key": _block("PGP PRIVATE KEY BLOCK"),
    "age-key": lambda n: (f"AGE-SECRET{'-KEY-1'}{_mixed(n, 40).upper()}", (_mixed(n, 40).upper(),)),
    "email": _simple("{t}@corp.example"),
    "email-plus": _simple("ada+{t}@mail.example.org"),
}

#: Names of functions, ranges and threads of which a part is private, which what is around it says.
IN_NAMES: dict[str, Callable[[int], Made]] = {
    "token-part": _simple("load token={t}"),
    "secret-key-part": _simple("fetch(secret_key={t}, n=3)"),
    "key-part": _simple("call api_key: {t} now"),
    "password-part": _simple("login password: {t}"),
    "password-number": _simple("login?password={d}&n=1"),
    "quoted-part": _simple("post {'client_secret': '{t}', 'lr': 0.1}"),
    "environment-part": _simple("HF_TOKEN={t} python step"),
    "attached-password": _simple("mysql -p{t}2"),
    "aws-secret-part": _simple("put aws_secret_access_key=wJalr/{m32}"),
    "aws-id-part": lambda n: ((f"put_AK{'IA'}{_digest(n)[:16].upper()}"), (_digest(n)[:16].upper(),)),
    "bucket-part": _simple("read s3://{t}/train/data"),
    "bucket-of-part": _simple("gs://data/{t}.parquet: read"),
    "url-part": _simple("GET https://wiki.example/{t}"),
    "url-user-part": _simple("clone https://bob:{t}@git.example/x.git"),
    "ipv4-part": _address("send to {} (2/3)"),
    "ipv4-joined": _address("all_reduce_{}_rank3"),
    "ipv4-port-part": _address("connect[{}:29500]"),
    "ipv4-hyphens": lambda n: ((made := f"ip-10-{n % 200 + 20}-{n // 200 + 11}-7"), (made,)),
    "ipv6-part": lambda n: (f"bind [2001:db8::{n + 4096:x}]:443", (f"db8::{n + 4096:x}",)),
    "ipv6-local": lambda n: (f"ping fe80::{n + 4096:x}", (f"fe80::{n + 4096:x}",)),
    "mac-part": lambda n: ((made := f"de:ad:be:{n // 256:02x}:{n % 256:02x}:5f"), (made,)),
    "host-port-part": _simple("recv {t}.corp.example:5432"),
    "host-user-part": _simple("scp ada@{t}.corp.example"),
    "host-path-part": _simple("scp ada@{t}:/data/x"),
}

#: Forms that nothing can recognise for certain: only what is known to be harmless may be shown where they can stand.
FORMS: dict[str, Callable[[int], Made]] = {
    **FORMED,
    "word": _simple("{t}"),
    "word-with-digits": _simple("{t}42"),
    "signs": _simple("P@ss/{t}!"),
    "two-words": _simple("{t} horse"),
    "letters-beyond-ascii": _simple("пароль{t}"),
    "user-and-password": _simple("bob:{t}"),
    "capitals": _simple("{T}"),
    "hex-40": _simple("{x40}"),
    "uuid": _simple("{x7}a-1234-4321-abcd-{x12}"),
    "base64": _simple("{m43}="),
    "aws-secret": _simple("wJalr/{m32}"),
    "licence-key": _simple("ABCD-{T}-1234"),
    "card": lambda n: ((made := "-".join(("4111", f"{n:04}", "1111", f"{n + 7:04}"))), (made,)),
    "account-number": _simple("{d}"),
    "iban": _simple("DE89{d}"),
    "telephone": _simple("+{d}"),
    "ipv4": _address("{}"),
    "ipv4-port": _address("{}:29500"),
    "ipv4-url": _address("tcp://{}:2345"),
    "ipv6": lambda n: (f"fe80::{n + 4096:x}:ab3c", (f"fe80::{n + 4096:x}",)),
    "ipv6-port": lambda n: (f"[2001:db8::{n + 4096:x}]:443", (f"db8::{n + 4096:x}",)),
    "mac": lambda n: ((made := f"de:ad:be:{n // 256:02x}:{n % 256:02x}:5f"), (made,)),
    "host": _simple("{t}.corp.example"),
    "host-port": _simple("{t}:2345"),
    "tcp": _simple("tcp://{t}.corp.example:2345"),
    "ssh": _simple("ssh://ada@{t}.corp.example/x"),
    "scp": _simple("ada@{t}:/data/x"),
    "git-remote": _simple("git@git.example:{t}/repo.git"),
    "principal": _simple("{t}/admin@REALM.EXAMPLE"),
    "ldap": _simple("cn={t},ou=people,dc=corp"),
    "image": _simple("registry.example/{t}/train:1.0"),
    "bucket": _simple("s3://{t}/train/data"),
    "bucket-google": _simple("gs://data/{t}.parquet"),
    "hdfs": _simple("hdfs://nn/{t}/part-0"),
    "url": _simple("https://wiki.example/{t}"),
    "home": _simple("/home/{t}/job/x"),
    "scratch": _simple("/scratch/{t}/run"),
    "data": _simple("/data/{t}/train.csv"),
    "mount": _simple("/mnt/nfs/{t}/data/x.bin"),
    "relative": _simple("configs/{t}/base.yaml"),
    "file": _simple("{t}.csv"),
    "dotted-file": _simple("../{t}.tar.gz"),
    "windows": _simple("C:\\work\\{t}\\x.bin"),
    "windows-home": _simple("D:\\Users\\{t}\\x"),
    "share": _simple("\\\\filer\\{t}\\x"),
    "environment": _simple("/opt/{t}/bin/python"),
    "json": _simple('{"password": "{t}", "lr": 0.1}'),
    "yaml": _simple("password: {t}"),
    "list": _simple("train,{t},test"),
    "pairs": _simple("lr=0.1,owner={t}"),
    "python": _simple("import os; os.environ['P'] = '{t}'"),
    "shell": _simple("cd /x && P={t} python train.py"),
    "like-an-option": _simple("-{t}9x{t}"),
}


def plants(forms: dict[str, Callable[[int], Made]], first: int) -> Iterator[Plant]:
    """Make one text of each form, none of which is made again for another `first` a thousand away."""
    for at, (form, make) in enumerate(forms.items()):
        text, looked_for = make(first + at)
        yield Plant(form, text, looked_for)
