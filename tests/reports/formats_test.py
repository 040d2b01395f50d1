# SPDX-License-Identifier: Apache-2.0
"""Reads every sample report back with parsers that are not ours.

    formats_test.py WRITE_SAMPLES

JUnit by xml.etree, against Surefire's schema as far as it goes (elements, order, attributes,
counts); SARIF by json, against what the schema of 2.1.0 requires of the objects used; CSV by csv.
"""
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")
CASE_ORDER = ["failure", "rerunFailure", "flakyFailure", "skipped", "error", "system-out"]
SARIF = {  # object: required, allowed
    "log": ("version runs", "$schema version runs"),
    "run": ("tool", "tool invocations automationDetails originalUriBaseIds columnKind results "
                    "properties"),
    "driver": ("name", "name version rules"),
    "rule": ("id", "id name shortDescription fullDescription help properties"),
    "result": ("message", "ruleId ruleIndex level message locations relatedLocations codeFlows "
                          "partialFingerprints properties"),
    "location": ("", "id physicalLocation logicalLocations message"),
    "physical": ("artifactLocation", "artifactLocation region"),
    "invocation": ("executionSuccessful", "executionSuccessful exitCode commandLine "
                                          "toolExecutionNotifications"),
    "notification": ("message", "level message"),
    "flow": ("threadFlows", "threadFlows"),
    "thread": ("locations", "id locations"),
    "step": ("location", "location nestingLevel"),
}


def check_junit(path):
    suite = ET.fromstring(path.read_bytes())
    assert suite.tag == "testsuite", suite.tag
    assert set(suite.attrib) == {"name", "time", "tests", "errors", "skipped", "failures"}
    assert [child.tag for child in suite][:1] == ["properties"]
    cases = suite.findall("testcase")
    assert len(cases) == len(suite) - 1
    for attribute, tag in (("errors", "error"), ("skipped", "skipped"), ("failures", "failure")):
        assert int(suite.get(attribute)) == len(suite.findall("testcase/" + tag)), attribute
    assert int(suite.get("tests")) == len(cases)
    for case in cases:
        assert TIME.fullmatch(case.get("time")), case.get("time")
        assert case.get("name") is not None and case.get("classname")
        order = [CASE_ORDER.index(child.tag) for child in case]
        assert order == sorted(order), order
        for child in case:
            if child.tag in ("failure", "error", "flakyFailure"):
                assert child.get("type") and child.get("message"), child.attrib
            if child.tag == "flakyFailure":
                assert [part.tag for part in child] == ["stackTrace"]
    return cases


def keys(kind, value):
    required, allowed = (set(words.split()) for words in SARIF[kind])
    assert required <= set(value) <= allowed, (kind, set(value))


def check_location(location):
    keys("location", location)
    if "physicalLocation" in location:
        keys("physical", location["physicalLocation"])
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri) and not uri.startswith("/"), uri
        assert location["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
    for logical in location.get("logicalLocations", []):
        assert logical["name"]


def check_sarif(path):
    log = json.loads(path.read_text(encoding="utf-8"))
    keys("log", log)
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    run = log["runs"][0]
    keys("run", run)
    keys("driver", run["tool"]["driver"])
    rules = run["tool"]["driver"]["rules"]
    for rule in rules:
        keys("rule", rule)
    assert len({rule["id"] for rule in rules}) == len(rules)
    for invocation in run["invocations"]:
        keys("invocation", invocation)
        for notification in invocation.get("toolExecutionNotifications", []):
            keys("notification", notification)
    prints = [tuple(result["partialFingerprints"].values()) for result in run["results"]]
    assert len(set(prints)) == len(prints)
    for result in run["results"]:
        keys("result", result)
        assert result["level"] in ("none", "note", "warning", "error")
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        related = [location["id"] for location in result.get("relatedLocations", [])]
        assert len(set(related)) == len(related)
        for location in result["locations"] + result.get("relatedLocations", []):
            check_location(location)
        for flow in result.get("codeFlows", []):
            keys("flow", flow)
            for thread in flow["threadFlows"]:
                keys("thread", thread)
                assert thread["locations"]
                for step in thread["locations"]:
                    keys("step", step)
                    check_location(step["location"])


def check_csv(path, record):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    for row in rows:
        assert None not in row and None not in row.values(), row
    evidence = record["evidence"]
    mutants = record.get("mutants", [])
    mutants = mutants["rows"] if isinstance(mutants, dict) else mutants
    wanted = (len(evidence["arms"]) + len(evidence["configs"]) + len(record["bench"]) +
              sum(len(row["cells"]) for row in mutants))
    assert len(rows) == wanted, (len(rows), wanted)
    cases = 1 + wanted - sum(len(row["cells"]) - 1 for row in mutants)
    return cases


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        reports = sorted(pathlib.Path(folder).glob("*.json"))
        assert reports
        for report in reports:
            try:
                record = json.loads(report.read_text(encoding="utf-8"))
                cases = check_junit(report.with_suffix(".xml"))
                check_sarif(report.with_suffix(".sarif"))
                assert len(cases) == check_csv(report.with_suffix(".csv"), record)
                markdown = report.with_suffix(".md").read_bytes()
                assert len(markdown) <= 1 << 20
                assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", markdown)
                assert markdown.decode("utf-8").startswith("## ")
                if report.stem == "hostile":
                    names = [case.get("name") for case in cases]
                    assert any("]]>" in name and "[U+0000]" in name and "\n# \"q\"" in name and
                               "<script>" in name for name in names), names
            except (AssertionError, KeyError, ValueError, ET.ParseError, csv.Error) as error:
                bad += 1
                print(f"{report.stem}: {type(error).__name__} {error}")
    print(f"{len(reports)} records, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
