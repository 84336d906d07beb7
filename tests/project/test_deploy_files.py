"""The files in `deploy/`: valid by their schemas and linters, and true to the program."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from octopus_memory import __version__
from octopus_memory.__main__ import program
from octopus_memory.settings import Settings
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
RESOURCES = [resource for path in KUBERNETES for resource in yaml.safe_load_all(path.read_text())]
VERSION = "1.30"
"""A release of Kubernetes that is old enough to be everywhere, and has every field used here."""


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason="the extra dev is not installed whole")


def kinds(kind: str) -> list[dict[str, Any]]:
    return [resource for resource in RESOURCES if resource["kind"] == kind]


def pods() -> Iterator[dict[str, Any]]:
    for resource in (*kinds("Deployment"), *kinds("Job")):
        yield resource["spec"]["template"]


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods():
        yield from (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])


@needs("kubernetes_validate")
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each["metadata"]["name"])
def test_a_manifest_follows_its_schema(resource: dict[str, Any]):
    import kubernetes_validate

    kubernetes_validate.validate(resource, VERSION, strict=True)


def test_there_is_what_an_installation_needs():
    found = {(each["kind"], each["metadata"]["name"]) for each in RESOURCES}
    assert {
        ("Deployment", "octopus-service"),
        ("Deployment", "octopus-worker"),
        ("Job", "octopus-migrate"),
        ("NetworkPolicy", "octopus"),
        ("NetworkPolicy", "octopus-service"),
        ("Service", "octopus"),
    } <= found
    assert {each["metadata"]["namespace"] for each in RESOURCES} == {"octopus"}


def test_containers_run_commands_of_this_version():
    commands = typer.main.get_command(program()).commands
    ours = [each for each in containers() if each["image"].startswith("octopus:")]
    assert sorted(each["args"][0] for each in ours) == ["doctor", "serve", "worker"]
    for each in ours:
        assert each["image"] == f"octopus:{__version__}"
        name, *options = each["args"]
        commands[name].make_context(name, list(options))


def test_containers_have_no_rights_to_spare():
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in DOCKERFILE
        assert pod["spec"]["automountServiceAccountToken"] is False
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["limits"]["memory"]


def test_the_service_is_the_application_and_the_worker_the_owner():
    keys = {
        each["args"][0]: each["env"][0]["valueFrom"]["secretKeyRef"]["key"]
        for each in containers()
        if "args" in each
    }
    assert keys == {"serve": "app-url", "worker": "owner-url", "doctor": "owner-url"}


def test_probes_ask_what_the_service_answers():
    [service] = [each for each in containers() if each.get("args", [""])[0] == "serve"]
    [port] = [each["containerPort"] for each in service["ports"]]
    assert port == Settings().server.port
    paths = {
        kind: service[kind]["httpGet"]["path"]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }


def test_keys_are_on_and_never_beside_the_data():
    [config] = kinds("ConfigMap")
    data = config["data"]
    assert data["OCTOPUS_KEYS"] == "vault"
    for pod in pods():
        for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            if each["image"].startswith("octopus:"):
                [mount] = [m for m in each["volumeMounts"] if m["name"] == "vault"]
                assert data["OCTOPUS_VAULT_TOKEN_FILE"] == f"{mount['mountPath']}/token"
                [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "vault"]
                # Readable by the user of the pods alone, who is not root.
                assert volume["secret"]["defaultMode"] == 0o440
                assert pod["spec"]["securityContext"]["fsGroup"]
    assert "OCTOPUS_KEYS=local" in DOCKERFILE
    volumes = json.loads(re.findall(r"^VOLUME (.+)$", DOCKERFILE, re.MULTILINE)[0])
    [path] = re.findall(r"OCTOPUS_KEYS_PATH=(\S+)", DOCKERFILE)
    [database] = re.findall(r"OCTOPUS_DATABASE_URL=sqlite:///(\S+)", DOCKERFILE)
    assert sorted(volumes) == sorted(str(Path(each).parent) for each in (path, database))


def test_every_process_of_the_compose_file_has_the_same_keys():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    ours = {name: services[name] for name in ("service", "worker", "tables")}
    for each in ours.values():
        assert each["environment"]["OCTOPUS_KEYS"] == "local"
        assert each["volumes"] == ["keys:/keys"]
        assert each["environment"]["OCTOPUS_KEYS_PATH"].startswith("/keys/")
        assert "OCTOPUS_INDEX" not in each["environment"]


def test_the_unit_keeps_keys_in_a_folder_of_their_own():
    text = (DEPLOY / "octopus.service").read_text()
    [folders] = re.findall(r"^StateDirectory=(.+)$", text, re.MULTILINE)
    [keys] = re.findall(r"OCTOPUS_KEYS_PATH=(\S+)", text)
    [database] = re.findall(r"OCTOPUS_DATABASE_URL=sqlite:///(\S+)", text)
    made = {f"/var/lib/{name}" for name in folders.split()}
    assert {str(Path(keys).parent), str(Path(database).parent)} == made


def test_every_selector_finds_its_pods():
    labels = [pod["metadata"]["labels"] for pod in pods()]
    wanted = [each["spec"]["selector"] for each in kinds("Service")]
    wanted += [each["spec"]["selector"]["matchLabels"] for each in kinds("PodDisruptionBudget")]
    wanted += [each["spec"]["podSelector"]["matchLabels"] for each in kinds("NetworkPolicy")]
    assert len(wanted) == 4
    for selector in wanted:
        assert any(selector.items() <= given.items() for given in labels)


def test_what_is_set_is_a_setting():
    known = {f"OCTOPUS_{each.name.upper()}" for each in fields(Settings)}
    given = set(re.findall(r"\b(OCTOPUS_[A-Z_]+)\b", DOCKERFILE))
    for path in (*KUBERNETES, DEPLOY / "octopus.service"):
        given |= set(re.findall(r"\b(OCTOPUS_[A-Z_]+)\b", path.read_text()))
    assert given
    assert {name.partition("__")[0] for name in given} <= known


@pytest.mark.process
@needs("check_jsonschema")
def test_the_compose_file_follows_its_schema():
    schema = ["--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    subprocess.run([sys.executable, "-m", "check_jsonschema", *schema], check=True)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_verified_by_systemd(tmp_path: Path):
    """With a program that is there in place of the one that an installation has."""
    text = (DEPLOY / "octopus.service").read_text()
    assert "ExecStart=/opt/octopus/bin/octopus serve\n" in text
    unit = tmp_path / "octopus.service"
    unit.write_text(text.replace("/opt/octopus/bin/octopus", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_the_linter_finds_nothing_in_the_dockerfile():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [hadolint, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.process
@pytest.mark.install
@pytest.mark.timeout(1800)
@pytest.mark.skipif(os.name == "nt", reason="the image is a Linux one")
def test_the_steps_of_the_dockerfile_give_a_service(tmp_path: Path):
    """Run in folders of their own in place of an image: copy, install, serve, check health."""
    source, target, data = tmp_path / "src", tmp_path / "octopus", tmp_path / "data"
    for folder in (source, data):
        folder.mkdir()
    steps = DOCKERFILE.replace("\\\n", "")
    for copied, where in re.findall(r"^COPY (?!--from)(.+) (\S+)$", steps, re.MULTILINE):
        for name in copied.split():
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, source / where, ignore=ignored)
            else:
                (source / where).mkdir(exist_ok=True)
                shutil.copy(ROOT / name, source / where)
    [install] = [step for step in re.findall(r"^RUN (.+)$", steps, re.MULTILINE) if "pip" in step]
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    command = install.replace("/opt/octopus", str(target))
    command = command.replace("python -m venv", f"{sys.executable} -m venv")
    subprocess.run(["sh", "-ec", command], cwd=source, env=environment, check=True)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    [given] = re.findall(r"^ENV (.+)$", steps, re.MULTILINE)
    given = given.replace("/data", str(data)).replace("/opt/octopus", str(target))
    for pair in given.replace("/keys", str(tmp_path / "keys")).split():
        name, _, value = pair.partition("=")
        environment[name] = value.replace("$PATH", os.environ["PATH"])
    environment |= {"OCTOPUS_SERVER__HOST": "127.0.0.1", "OCTOPUS_SERVER__PORT": str(port)}
    entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", steps, re.MULTILINE)[0])
    default = json.loads(re.findall(r"^CMD (.+)$", steps, re.MULTILINE)[0])
    health = json.loads(re.findall(r"^HEALTHCHECK .*? CMD (.+)$", steps, re.MULTILINE)[0])
    health = [part.replace("8765", str(port)) for part in health]
    program_path = shutil.which(entry[0], path=environment["PATH"])
    assert program_path == str(target / "bin" / entry[0])
    served = subprocess.Popen([program_path, *default], cwd=data, env=environment)
    try:
        python = str(target / "bin" / health[0])
        for _ in range(300):
            assert served.poll() is None
            asked = subprocess.run(
                [python, *health[1:]], env=environment, capture_output=True, check=False
            )
            if asked.returncode == 0:
                break
            time.sleep(0.2)
        assert asked.returncode == 0
        assert (data / "memory.db").exists()
        assert not list(data.glob("keys*"))
    finally:
        served.terminate()
        assert served.wait(60) == 0
