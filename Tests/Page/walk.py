"""Goes through the dashboard in a browser as a person does, and looks at what a person would: light and dark, on a large
screen and on a phone. `scripts/page` starts it, with what `pushq dev --json` has said on standard input.

    walk.py CHROMIUM FOLDER      pictures go into the folder
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import urllib.parse

from browser import Browser

# Contrast as WCAG 2.1 defines it, 1.4.3; the ground is the nearest that is not transparent.
AUDIT = r"""
const problems = [];
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return { r, g, b, a };
};
const luminance = ({ r, g, b }) => {
  const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.a === 1) return colour;
  }
  return { r: 255, g: 255, b: 255, a: 1 };
};
const isShown = (node) => {
  const box = node.getBoundingClientRect();
  return node.checkVisibility() && box.width > 1 && box.height > 1 && box.right > 0 && box.bottom > 0;
};
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !isShown(node) || ["SCRIPT", "STYLE", "TITLE", "title"].includes(node.tagName))
    continue;
  const style = getComputedStyle(node);
  const colour = parse(node instanceof SVGElement ? style.fill : style.color);
  const [one, other] = [luminance(colour), luminance(ground(node))];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
  texts += 1;
  if (contrast < (isLarge ? 3 : 4.5))
    problems.push(`contrast ${contrast.toFixed(2)} of “${walker.currentNode.textContent.trim().slice(0, 40)}”`);
}
if (texts < 5) problems.push(`only ${texts} texts were looked at`);
const wide = document.scrollingElement.scrollWidth - document.documentElement.clientWidth;
if (wide > 0) problems.push(`the page is ${wide} pixels wider than the screen`);
const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
if (new Set(ids).size !== ids.length) problems.push("an id is there twice");
if (document.querySelectorAll("h1").length !== 1) problems.push("there is not one h1");
if (!document.documentElement.lang) problems.push("the page has no language");
return problems;
"""

NAMED_ROLES = {"button", "link", "textbox", "table", "region", "dialog", "alertdialog", "image", "img", "progressbar", "ProgressIndicator",
               "navigation", "columnheader", "heading"}

failures = []


def note(where, problems):
    for problem in problems:
        failures.append(f"{where}: {problem}")
        print(f"page: {where}: {problem}", file=sys.stderr)


def listener(port):
    """The process that listens at a port of this machine."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # proc(5): 0A is TCP_LISTEN, and the tenth column is the socket's inode.
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) in sockets:
                return int(link.parts[2])
        except OSError:
            continue  # It was closed meanwhile, or belongs to another user.
    raise LookupError(f"nobody listens at port {port}")


class Walk:
    def __init__(self, facts, executable, pictures):
        self.facts = facts
        self.queue = facts["queue"]
        self.pictures = pictures
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.page = Browser(executable, self.profile.name)
        self.setting = ""
        # What is asked for although the server must refuse it.
        self.refused = set()

    def close(self):
        self.page.close()
        self.profile.cleanup()

    # ---- What a person does --------------------------------------------------------------------------------------------

    def dress(self, scheme, width, height):
        self.setting = f"{scheme}-{width}"
        self.page.order("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.page.order("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                        mobile=width < 600)

    def click(self, text, within="document"):
        self.page.wait(f"a button or link “{text}”", f"""
            const found = [...{within}.querySelectorAll("button, a")]
              .find((node) => node.textContent === values[0] && node.checkVisibility());
            if (found) found.click();
            return Boolean(found);""", text)

    def fill(self, name, value):
        self.page.wait(f"the field {name}", """
            const field = document.querySelector(`input[name=${values[0]}]`);
            if (!field) return false;
            field.value = values[1];
            return true;""", name, value)

    def wait_for(self, text):
        self.page.wait(f"“{text}”", "return document.body.innerText.includes(values[0])", text)

    def sign_in(self, token):
        self.page.order("Page.navigate", url=self.facts["dashboard"])
        self.page.wait("the sign-in", "return document.querySelector('form.sign-in') !== null")
        self.audit("sign-in")
        self.fill("token", token)
        self.fill("name", "Walker")
        self.click("Sign in", "document.querySelector('main')")
        self.wait_for("Queues")

    def open(self, place, text):
        self.page.run("location.hash = values[0]", place)
        # The heading of the view before is gone, and what was asked for is there.
        self.page.wait(f"the view {place}", """
            return location.hash === values[0] && !document.querySelector("main .loading")
              && document.querySelector("main").innerText.includes(values[1])""", place, text)

    def act(self, button, done, answer="Yes"):
        """Presses a button, answers the question, and waits for what the page says."""
        self.click(button, "document.querySelector('main')")
        self.page.wait("the question", "return document.getElementById('question').open")
        focused = self.page.run("return document.activeElement.id")
        if focused != "question-no":
            note(f"{self.setting} {button}", [f"the question begins at “{focused}” and not at No"])
        self.audit(f"question-{button.lower().replace(' ', '-')}")
        self.click(answer, "document.getElementById('question')")
        self.page.wait("the question is gone", "return !document.getElementById('question').open")
        if done:
            self.page.wait(f"it says “{done}”", "return document.getElementById('done').textContent.includes(values[0])", done)

    def change_answers(self, path, change):
        """From now on the page gets what the server answers to this path as a script has changed it."""
        self.page.run("""
            window.given ??= window.fetch;
            window.fetch = async (url, options) => {
              const response = await window.given(url, options);
              if (!url.startsWith(values[0])) return response;
              const answer = await response.json();
              """ + change + """
              return new Response(JSON.stringify(answer), { status: response.status });
            };""", path)

    def leave_answers(self):
        self.page.run("window.fetch = window.given")

    # ---- What a person notices -----------------------------------------------------------------------------------------

    def audit(self, name):
        problems = self.page.run(AUDIT)
        for node in self.page.order("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if not node.get("ignored") and role in NAMED_ROLES and not node.get("name", {}).get("value", "").strip():
                problems.append(f"a {role} has no name")
        note(f"{self.setting} {name}", problems)
        self.page.shoot(f"{self.pictures}/{self.setting}-{name}.png")

    def tab_through(self, name):
        """Every control is reached by the keyboard alone, and is seen to have the focus."""
        count = self.page.run("""
            const controls = [...document.querySelectorAll("a[href], button, input, [tabindex='0']")]
              .filter((node) => node.checkVisibility());
            controls.forEach((node, index) => { node.dataset.walk = index; });
            document.activeElement.blur();
            return controls.length""")
        reached = set()
        for _ in range(count + 5):
            self.page.press("Tab", 9)
            focus = self.page.run("""
                const node = document.activeElement, style = getComputedStyle(node);
                return { number: node.dataset.walk ?? null, text: node.textContent.slice(0, 30),
                  isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 }""")
            if focus["number"] is None:
                continue
            reached.add(focus["number"])
            if not focus["isSeen"]:
                note(f"{self.setting} {name}", [f"nobody sees that “{focus['text']}” has the focus"])
        if len(reached) < count:
            note(f"{self.setting} {name}", [f"the keyboard reaches {len(reached)} of {count} controls"])

    # ---- The walks -----------------------------------------------------------------------------------------------------

    def look_at_all(self):
        queue = self.queue.replace("/", "%2F")
        for name, place, text in [
            ("overview", "#/", "Answers of APNs"), ("campaigns", "#/campaigns", "summer-preview"),
            ("queue", f"#/queue/{queue}", "weekly-offer"), ("campaign", f"#/campaign/{queue}/spring-sale", "Refusals by reason"),
            ("waves", f"#/campaign/{queue}/good-morning", "next wave"),
            ("failed", "#/failed", "Send again"), ("workers", "#/workers", "connections"),
            ("credentials", "#/credentials", "simulator"), ("audit", "#/audit", "created"), ("trace", "#/trace", "Look up"),
        ]:
            self.open(place, text)
            self.audit(name)
        self.open("#/campaigns", "summer-preview")
        # The page is drawn again every two seconds: what the keyboard is in stays there.
        self.open("#/trace", "Look up")
        self.tab_through("trace")

    def scroll(self):
        """A table that is wider than the screen stays where somebody has scrolled it to."""
        self.open("#/campaigns", "summer-preview")
        self.page.run("""
            const sheet = document.styleSheets[0];
            sheet.insertRule("table.rows { min-width: 1500px }", sheet.cssRules.length);
            window.drawn = document.querySelector("main .scroll");
            window.drawn.scrollLeft = 120;""")
        place = self.page.wait("the view is drawn again", """
            const part = document.querySelector("main .scroll");
            return part !== window.drawn && String(part.scrollLeft)""")
        if place != "120":
            note(f"{self.setting} campaigns", [f"a table that was scrolled to 120 pixels is drawn again at {place}"])
        self.page.run("const sheet = document.styleSheets[0]; sheet.deleteRule(sheet.cssRules.length - 1)")

    def miss_workers(self):
        """All workers are dead, and what they last said of their queues is still there."""
        self.change_answers("/api/overview", "for (const worker of answer.workers) worker.state = 'silent';")
        self.open("#/", "Answers of APNs")
        self.page.wait("the silent worker", """
            const facts = new Map([...document.querySelectorAll("dl.sums div")]
              .map((part) => [part.querySelector("dt").textContent, part.querySelector("dd")]));
            return facts.get("workers")?.textContent === "0 (1 silent)" && facts.get("workers").className === "bad"
              && !facts.get("stopped queues").classList.contains("good")""")
        self.audit("workers-silent")
        self.leave_answers()

    def miss_reasons(self):
        """A campaign has more refusals than those whose reasons are shown. Who was held back was not refused."""
        place = f"#/campaign/{self.queue.replace('/', '%2F')}/spring-sale"
        self.change_answers("/api/campaign?", """
            answer.reasons = [{ reason: "frequency_cap", count: 9 }, { reason: "Unregistered", count: 3 }];
            [answer.rejected, answer.failed] = [5, 2];""")
        self.open(place, "Reasons of 3 of 7 refusals")
        self.audit("reasons-partial")
        self.change_answers("/api/campaign?", "answer.reasons = [];")
        self.page.wait("no reason", "return document.querySelector('main').innerText.includes('Reasons of 0 of ')")
        self.change_answers("/api/campaign?", "[answer.rejected, answer.failed] = [answer.reasons[0].count, 0];")
        self.page.wait("all reasons", "return !document.querySelector('main').innerText.includes('Reasons of ')")
        self.leave_answers()

    def do_all(self):
        queue = self.queue.replace("/", "%2F")
        self.open(f"#/queue/{queue}", "Pause the queue")
        self.act("Pause the queue", None, answer="No")
        self.act("Pause the queue", f"paused {self.queue}")
        self.act("Resume the queue", f"resumed {self.queue}")
        self.act("Pause weekly-offer", "paused schedule weekly-offer")
        self.act("Resume weekly-offer", "resumed schedule weekly-offer")
        self.act("Run weekly-offer now", "started campaign weekly-offer")
        self.open(f"#/campaign/{queue}/summer-preview", "Pause")
        self.act("Pause", "paused campaign summer-preview")
        self.act("Resume", "resumed campaign summer-preview")
        self.lose_the_server("Pause", "campaign-pause", "summer-preview")
        self.act("Resume", "resumed campaign summer-preview")
        self.act("Cancel", "cancelled campaign summer-preview")
        self.open(f"#/campaign/{queue}/broken", "Send again to failed recipients")
        self.act("Send again to failed recipients", "1 failed recipient of 1 job will be sent to again")
        # A person types a filter; the page that is drawn again every two seconds leaves what is typed alone.
        self.open("#/failed", "Send again")
        self.fill("queue", self.queue)
        # No other push of the installation fails for this.
        self.fill("reason", "Forbidden")
        self.page.run("window.drawn = document.querySelector('main table')")
        self.page.wait("the view is drawn again", "return document.querySelector('main table') !== window.drawn")
        self.click("Show", "document.querySelector('main')")
        self.wait_for("Send again to all that match")
        self.audit("failed-narrow")
        self.act("Send again to all that match", "1 failed recipient of 1 job will be sent to again")
        self.open("#/overview/none", "There are no queues.")
        self.fill("matching", "PRODUCTION")
        self.click("Show", "document.querySelector('main')")
        self.wait_for(self.queue)
        self.audit("overview-narrow")
        self.open("#/audit", "dashboard: Walker")
        self.mistype()

        self.open("#/trace", "Look up")
        self.fill("queue", self.queue)
        self.fill("user", "42")
        self.fill("campaign", "spring-sale")
        self.click("Look up", "document.querySelector('main')")
        self.wait_for("Unregistered")
        self.audit("traced")
        self.click("Sign out")
        self.page.wait("the sign-in", "return document.querySelector('form.sign-in') !== null")

    def mistype(self):
        """Somebody gives a tenant where a queue is wanted, and can correct it."""
        self.open("#/failed", "Failed jobs")
        self.fill("queue", "acme")
        self.refused.add("/api/failed?queue=acme")
        self.click("Show", "document.querySelector('main')")
        self.page.wait("what is wrong, and what was typed", """
            return document.getElementById("away").textContent.includes("is not of the form")
              && document.querySelector("main input[name=queue]")?.value === "acme"
              && !document.querySelector("main .loading")""")
        self.audit("failed-mistyped")
        self.fill("queue", self.queue)
        self.click("Show", "document.querySelector('main')")
        self.page.wait("the jobs of the queue", """
            const title = document.querySelector("main h2");
            return document.getElementById("away").hidden && title?.textContent === "Failed jobs"
              && document.querySelector("main input[name=queue]").value === values[0]""", self.queue)

    def lose_the_server(self, button, action, key):
        """An order is refused, and then the dashboard does not answer any more, as behind a tunnel that stalls."""
        self.click(button, "document.querySelector('main')")
        self.page.wait("the question", "return document.getElementById('question').open")
        # Another operator is quicker.
        order = {"action": action, "queue": self.queue, "key": key}
        self.page.run("await send('/api/order', values[0])", order)
        self.refused.add("/api/order")
        self.click("Yes", "document.getElementById('question')")
        self.page.wait("a refusal", "return document.getElementById('problem').textContent.includes('not in a state')")
        dashboard = listener(urllib.parse.urlsplit(self.facts["dashboard"]).port)
        os.kill(dashboard, signal.SIGSTOP)
        try:
            self.page.wait("it says how old the figures are", """
                const away = document.getElementById("away");
                return away && !away.hidden && away.textContent.includes("the server did not answer")
                  && away.textContent.includes("the figures are of 2")""")
            self.audit("away")
        finally:
            os.kill(dashboard, signal.SIGCONT)
        self.page.wait("the figures are of the present", "return document.getElementById('away').hidden")
        if not self.page.run("return document.getElementById('problem').textContent.includes('not in a state')"):
            note(f"{self.setting} {button}", ["the refusal is gone before anybody has read it"])

    def read_only(self):
        self.open("#/failed", "Failed jobs")
        if self.page.run("return document.querySelectorAll('main button:not(.look-up button)').length") != 0:
            note("reading", ["there are buttons to change something"])

    def check_requests(self):
        elsewhere = {url for url in self.page.requests if not url.startswith((self.facts["dashboard"], "about:"))}
        note("requests", [f"the page asks {url}" for url in sorted(elsewhere)])
        if len(self.page.requests) < 20:
            note("requests", [f"only {len(self.page.requests)} were seen"])
        note("console", [problem for problem in self.page.problems if not self.is_expected(problem)])

    def is_expected(self, problem):
        return any(f"{path} answers 4" in problem or problem.endswith(path) for path in self.refused)


def main():
    executable, pictures = sys.argv[1:]
    pathlib.Path(pictures).mkdir(parents=True, exist_ok=True)
    walk = Walk(json.loads(sys.stdin.readline()), executable, pictures)
    try:
        walk.dress("light", 1280, 900)
        walk.sign_in(walk.facts["token_to_read"])
        walk.read_only()
        walk.click("Sign out")
        for scheme, width, height in [("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 844), ("dark", 390, 844)]:
            walk.dress(scheme, width, height)
            walk.sign_in(walk.facts["token_to_change"])
            walk.look_at_all()
            if (scheme, width) != ("dark", 390):
                walk.click("Sign out")
        walk.dress("light", 760, 900)
        walk.scroll()
        walk.miss_workers()
        walk.miss_reasons()
        walk.dress("light", 390, 844)
        walk.do_all()
        walk.check_requests()
    finally:
        walk.close()
    if failures:
        sys.exit(f"page: {len(failures)} faults; pictures are in {pictures}")
    print(f"page: all is well; pictures are in {pictures}", file=sys.stderr)


main()
