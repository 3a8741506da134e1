"""Pages show what was found, need nothing else, and escape every name."""

import html.parser
import re

import sdbr
from sdbr.inspection.html import elements
from sdbr.inspection.memory import live_bytes

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from .networks import Net, batch, trained, triple

EVIL = "<script>alert('&\")</script>"


class Checked(html.parser.HTMLParser):
    """The elements of a page, opened and closed as they should be."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.stack, self.text, self.references = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [v for k, v in attributes if k in ("src", "href")]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(report, tmp_path):
    path = tmp_path / "report.html"
    report.html(path)
    return path.read_text(encoding="utf-8")


def test_the_page_of_a_whole_step(tmp_path):
    model, optimizer = trained(between=triple)
    optimizer.update(model, *batch())
    report = sdbr.explain(model, lambda: optimizer.update(model, *batch()))
    text = page_of(report, tmp_path)
    found = Checked(text)
    assert found.references == [] and "http" not in text
    shown = "".join(found.text)
    programs = {p["name"]: p for p in report.to_dict()["managers"][0]["schedules"][0]["programs"]}
    rows = found.tags.count("tr") - found.tags.count("thead")
    ops = sum(p["ops"] for p in programs.values())
    assert rows > ops and found.tags.count("svg") == len(programs) == 3
    assert text.count('<tr class="python">') == sum(p["python_ops"] for p in programs.values())
    for name in ("/predictor/l1", "(/predictor/l2/W):float32[2,8]", "Triple", "networks.py"):
        assert name in shown
    assert "return self.l2(self.between(self.l1(x)))" in shown  # the text of the line
    assert "runs in Python: no native code" in shown  # advice
    assert "sdbrSearch(this)" in text and "Time of a call" in shown


def test_every_name_is_escaped(tmp_path):
    class Evil(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.add_link(EVIL, L.Linear(3, 2))

        def forward(self, x):
            return EVIL_CODE(getattr(self, EVIL)(x))

    space = {"F": F, "__name__": "evil"}
    exec(compile("def code(h):\n    return F.sum(h)", EVIL, "exec"), space)
    EVIL_CODE = space["code"]
    Evil.__name__ = Evil.__qualname__ = EVIL
    model = sdbr.static_graph(Evil())
    for _ in range(3):
        model(batch()[0])
    with sdbr.profile(model) as p:
        model(batch()[0])
    report = sdbr.explain(model)
    schedule = model.schedule_manager.static_schedule
    program = schedule.programs["forward"]
    assert f"/{EVIL}" in program.links and EVIL in program.lines[-1]
    page = page_of(report, tmp_path)
    for text in (page, *(x._repr_html_() for x in (report, p, schedule, program))):
        found = Checked(text)
        assert "alert" not in "".join(re.findall(r"<script>.*?</script>", text, re.S))
        assert found.tags.count("script") == (text is page)
        assert f"/{EVIL}" in "".join(found.text) or text == report._repr_html_()


def test_attributes_are_escaped_too():
    made = elements.element("p", "<b>", class_='"><script>')
    assert made == '<p class="&quot;&gt;&lt;script&gt;">&lt;b&gt;</p>'
    assert elements.table(("<i>",), [("<u>", 3)], ['"']).count("<") == 16
    assert '<tr class="&quot;">' in elements.table(("a",), [("b",)], ['"'])


def test_misses_and_dynamic_calls(tmp_path):
    def dynamic(h):
        return h * 2 if float(str(F.sum(h).array)) > 0 else h

    model = sdbr.static_graph(Net(dynamic))
    with pytest.warns(sdbr.SdbrWarning):
        model(batch()[0])
    model(batch(5)[0])
    shown = "".join(Checked(page_of(sdbr.explain(model), tmp_path)).text)
    assert "Advice" in shown and "test_html.py" in shown and "Traced anew" in shown
    schedule = model.schedule_manager.static_schedule
    assert schedule is None or "define-by-run" in schedule._repr_html_()


def test_what_was_not_traced_has_a_page(tmp_path):
    shown = "".join(Checked(page_of(sdbr.explain(sdbr.static_graph(Net())), tmp_path)).text)
    assert "not traced yet" in shown


def test_memory_in_use():
    model, optimizer = trained()
    (plan,) = model.schedule_manager.static_schedule.step_plans.values()
    program = plan.program
    used = live_bytes(program)
    assert len(used) == len(program)
    assert 0 < used.max() <= program.arena_bytes
    # Without reuse all of it lies apart, and is not needed all the time.
    debug, another = trained(memory="no_reuse")
    (plan,) = debug.schedule_manager.static_schedule.step_plans.values()
    assert live_bytes(plan.program).max() < plan.program.arena_bytes
    assert optimizer.target is model and another.target is debug


def test_a_large_network_stays_small(tmp_path):
    """ResNet-50 has some 170 functions; the page has to stay below 2 MB."""

    class Deep(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.parts = chainer.ChainList(*(L.Linear(4, 4) for _ in range(170)))

        def forward(self, x):
            for part in self.parts:
                x = F.tanh(part(x))
            return F.sum(x)

    model = sdbr.static_graph(Deep())
    x = np.ones((2, 4), "f")
    for _ in range(3):
        model.cleargrads()
        model(x).backward()
    text = page_of(sdbr.explain(model), tmp_path)
    assert text.count("<tr>") > 500 and len(text) < 2e6
