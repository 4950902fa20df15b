"""Writes expressions.json and field.json beside this file: what jinja2 3.1.6 gives, set up as transformers 4.57 does.

Usage: python make_expressions.py   (jinja2==3.1.6; expressions come from expressions.txt, one a line;
a line that begins with TEMPLATE holds a whole template as a JSON string)
"""
import datetime
import json
import os

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

assert jinja2.__version__ == "3.1.6"
HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1721995200  # 2024-07-26 12:00 UTC


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f)


def render(template, variables):
    try:
        return {"rendered": env.from_string(template).render(**variables)}
    except RecursionError:
        return {"error": "RecursionError"}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def expressions():
    variables = json.load(open(os.path.join(HERE, "variables.json")))
    cases = []
    for line in open(os.path.join(HERE, "expressions.txt"), encoding="utf-8"):
        line = line.rstrip("\n")
        template = json.loads(line[9:]) if line.startswith("TEMPLATE ") else "{{ " + line + " }}"
        cases.append({"template": template, **render(template, variables)})
        assert " object at 0x" not in cases[-1].get("rendered", ""), template
    return {"jinja2": jinja2.__version__, "now": NOW, "variables": variables, "cases": cases}


def field():
    conversations = {}
    for case in json.load(open(os.path.join(HERE, "golden.json")))["cases"]:
        conversations[case["conversation"], case["add_generation_prompt"]] = case
    cases = []
    for name in sorted(os.listdir(os.path.join(HERE, "templates"))):
        if not name.startswith("f_"):
            continue
        source = open(os.path.join(HERE, "templates", name), encoding="utf-8").read()
        for (conversation, prompt), c in conversations.items():
            for extra in ({}, {"enable_thinking": False, "date_string": "1 May 2025"}):
                variables = dict(messages=c["messages"], tools=c["tools"], documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **extra)
                cases.append({"template": name, "conversation": conversation, "messages": c["messages"], "tools": c["tools"], "add_generation_prompt": prompt,
                              "extra_variables": extra, "bos_token": "<s>", "eos_token": "</s>", **render(source, variables)})
    return {"jinja2": jinja2.__version__, "now": NOW, "cases": cases}


for name, data in (("expressions.json", expressions()), ("field.json", field())):
    with open(os.path.join(HERE, name), "w") as f:
        json.dump(data, f, indent=0)
        f.write("\n")
    print(name, len(data["cases"]), "cases,", sum("error" in c for c in data["cases"]), "of them errors")
