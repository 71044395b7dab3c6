"use strict";

// The page of operators. It shows what the commands print with --json, asks again every two seconds while it is visible,
// and changes something only after a question. Texts go into the page as text, never as HTML.

const main = document.getElementById("main");
const views = document.getElementById("views");
const problem = document.getElementById("problem");
const away = document.getElementById("away");
const done = document.getElementById("done");
const interval = 2000;

let me = { signed_in: false, may_change: false };
let timer = null;
// When the view was last drawn; null while nothing of it is there.
let drawn = null;
// Grows with each change of the view, so that a late answer to the last one is not shown.
let turn = 0;

// ---- Building elements ----------------------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  fill(node, attributes, children);
  return node;
}

function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(node, attributes, children);
  return node;
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
}

// ---- Values as people read them -------------------------------------------------------------------------------------

// A low rate has up to nine decimal places.
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 9 });

function count(value, isPartial = false) {
  return value === null || value === undefined ? "–" : grouped.format(value) + (isPartial ? "+" : "");
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

function moment(text) {
  return text ? text.replace("T", " ").replace("Z", " UTC") : "–";
}

function title(name) {
  return name.replaceAll("_", " ");
}

const durations = new Set(["oldest", "median_latency", "p99_latency", "seen_ago"]);
const bad = new Set(["outage", "unreachable", "no credential", "credential unusable", "silent", "refused", "expired"]);
const doubtful = new Set(["paused", "suspended", "draining", "waiting", "campaign waits"]);

function shown(name, value) {
  if (value === null || value === undefined || value === "") return { text: "–", isEmpty: true };
  if (durations.has(name)) return { text: duration(value), isNumber: true };
  if (name.endsWith("_at") || name.endsWith("_run") || name === "at") return { text: moment(value) };
  if (typeof value === "number") return { text: count(value), isNumber: true };
  if (typeof value === "boolean") return { text: value ? "yes" : "no" };
  const style = name !== "state" ? null : bad.has(value) ? "bad" : doubtful.has(value) ? "doubtful" : null;
  return { text: String(value), style };
}

// A table of rows as a command lists them. `links` makes the content of a cell, `leave` are columns that are not shown.
function table(caption, rows, { links = {}, leave = [], more = [], empty = "Nothing." } = {}) {
  if (!rows.length) return element("p", { class: "weak" }, empty);
  const names = Object.keys(rows[0]).filter((name) => !leave.includes(name));
  const numbers = new Set(names.filter((name) => rows.some((row) => shown(name, row[name]).isNumber)));
  const head = names.map((name) =>
    element("th", { scope: "col", class: numbers.has(name) ? "number" : null }, title(name)));
  const body = rows.map((row) => {
    const cells = names.map((name) => {
      const value = shown(name, row[name]);
      const classes = [numbers.has(name) ? "number" : "", value.style ?? ""].join(" ").trim();
      const content = links[name] && !value.isEmpty ? links[name](row) : value.text;
      return element("td", {
        role: "cell", class: classes || null, "data-title": title(name), "data-empty": value.isEmpty,
      }, content);
    });
    for (const action of more) cells.push(element("td", { role: "cell", "data-title": "" }, action(row)));
    return element("tr", { role: "row" }, cells);
  });
  for (const _ of more) head.push(element("th", { scope: "col" }, "action"));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", { class: "rows", role: "table" }, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)));
}

function sums(pairs) {
  return element("dl", { class: "sums" }, pairs.map(([name, value, style]) =>
    element("div", {}, element("dt", {}, name), element("dd", { class: style ?? null }, value))));
}

function link(path, text) {
  return element("a", { href: "#" + path }, text);
}

function path(...parts) {
  return "/" + parts.map(encodeURIComponent).join("/");
}

// ---- Asking and ordering --------------------------------------------------------------------------------------------

async function send(url, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  };
  // A tunnel that stalls neither answers nor fails. The server itself gives up what is sent to it after 30 seconds.
  const limit = body === undefined ? 20000 : 35000;
  let response, answer;
  try {
    response = await fetch(url, {
      ...options, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(limit),
    });
    answer = await response.json();
  } catch (error) {
    const reason = error.name === "TimeoutError" ? `the server did not answer within ${limit / 1000} s` : error.message;
    throw new Error(url === "/api/order" ? `${reason}; the order may have been carried out, so look first` : reason);
  }
  if (response.status === 401 && me.signed_in) { me = { signed_in: false }; show(); }
  if (!response.ok) throw new Error(answer.error ?? `the server answered with status ${response.status}`);
  return answer;
}

function ask(url, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return send(query.size ? `${url}?${query}` : url);
}

function say(node, text) {
  // A screen reader would say the same text again.
  if (node.textContent !== text) node.textContent = text;
  node.hidden = !text;
}

// Answers the question that is open.
let giveAnswer = null;

function confirmed(text) {
  const dialog = document.getElementById("question");
  giveAnswer?.(false);
  document.getElementById("question-text").textContent = text;
  dialog.showModal();
  document.getElementById("question-no").focus();
  return new Promise((resolve) => { giveAnswer = resolve; });
}

document.getElementById("question").addEventListener("submit", (event) =>
  giveAnswer?.(event.submitter?.value === "yes"));
// By the Escape key. The event comes some time after the closing: the next question may be open by then.
document.getElementById("question").addEventListener("close", (event) => { if (!event.target.open) giveAnswer?.(false); });

// A button that does something after a question; nothing where the token may only read.
function action(label, question, order) {
  if (!me.may_change) return null;
  return element("button", { type: "button", onclick: async () => {
    if (!await confirmed(question)) return;
    say(problem, ""); say(done, "");
    try {
      say(done, (await send("/api/order", order)).done);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  } }, label);
}

// ---- The views ------------------------------------------------------------------------------------------------------

function campaignPath(row) { return path("campaign", row.queue, row.key); }

// A form by which a view is narrowed. What is typed goes into the address, so that it can be kept and sent to others.
function narrowing(view, values, fields) {
  const go = (event) => {
    event.preventDefault();
    const typed = new FormData(event.target);
    const place = "#" + path(view, ...fields.map(([name]) => typed.get(name).trim()));
    if (location.hash === place) refresh(); else location.hash = place;
  };
  return element("form", { class: "look-up", role: "search", "data-view": view, onsubmit: go },
    fields.map(([name, label, hint], index) => element("label", {}, label, element("input", {
      name, value: values[index] ?? "", placeholder: hint ?? "", autocomplete: "off", spellcheck: "false",
    }))),
    element("button", { type: "submit" }, "Show"));
}

// A time as the page shows it, as the server takes it.
function asTime(text) {
  const time = (text ?? "").trim().replace(" UTC", "").replace(" ", "T").replace(/Z$/, "");
  if (!time) return "";
  return (/T\d\d:\d\d$/.test(time) ? `${time}:00` : /T/.test(time) ? time : `${time}T00:00:00`) + "Z";
}

function cut(rows) {
  return rows.length < 100 ? null : element("p", { class: "weak" }, "Only the first 100 are shown. Use a filter to see others.");
}

async function overview(matching) {
  const { queues, queues_found: found, workers, answers } = await ask("/api/overview", { matching });
  const isCut = found > queues.length;
  const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
  const oldest = Math.max(-1, ...queues.map((row) => row.oldest ?? -1));
  const stopped = queues.filter((row) => bad.has(row.state) || row.state === "paused" || row.state === "suspended");
  const silent = (workers ?? []).filter((row) => row.state === "silent").length;
  // What nobody reports about is not good. A tenant's login does not see the workers.
  const isServed = !workers || workers.length > silent;
  const facts = [
    ["waiting", count(sum(queues, "waiting"), isCut || queues.some((row) => row.is_partial))],
    ["longest wait", oldest < 0 ? "–" : duration(oldest), oldest > 60 ? "doubtful" : null],
    ["sent per second", count(Math.round(sum(queues, "sent_per_second")), isCut)],
    ["in flight", count(sum(queues, "in_flight"), isCut)],
    ["stopped queues", count(stopped.length, isCut), stopped.length ? "bad" : isCut || !isServed ? null : "good"],
  ];
  if (workers) {
    facts.push(["workers", count(workers.length - silent) + (silent ? ` (${count(silent)} silent)` : ""),
      silent || !workers.length ? "bad" : null]);
  }
  return [
    element("h2", {}, "Overview"), sums(facts),
    narrowing("overview", [matching], [["matching", "Queues with this text in their names", "acme/"]]),
    isCut ? element("p", { class: "weak" },
      `Only ${count(queues.length)} of ${count(found)} queues are shown and counted. Use a filter to see others.`) : null,
    table("Queues", queues, {
      links: {
        queue: (row) => link(path("queue", row.queue), row.queue), waiting: (row) => count(row.waiting, row.is_partial),
      },
      leave: ["workers", "is_partial", "campaigns_unbegun", "median_latency"], empty: "There are no queues.",
    }),
    element("h3", {}, "Answers of APNs in the last seconds"),
    table("Answers by reason", answers, { empty: "There were no answers in the last seconds." }),
  ];
}

async function queue(name) {
  const [load, campaigns, failed, schedules] = await Promise.all([
    ask("/api/overview", { matching: name }), ask("/api/campaigns", { queue: name }), ask("/api/failed", { queue: name }),
    ask("/api/schedules", { queue: name }),
  ]);
  const row = load.queues.find((row) => row.queue === name);
  if (!row) throw new Error(`there is no queue ${name}`);
  const isPaused = row.paused_because !== null;
  return [
    element("h2", {}, name),
    isPaused ? element("p", { class: "doubtful" }, `Paused: ${row.paused_because}`) : null,
    sums([
      ["state", row.state, bad.has(row.state) ? "bad" : doubtful.has(row.state) ? "doubtful" : null],
      ["waiting", count(row.waiting, row.is_partial)], ["longest wait", duration(row.oldest)],
      ["sent per second", count(row.sent_per_second)], ["limit per second", count(row.limit_per_second)],
      ["in flight", count(row.in_flight)], ["median latency", duration(row.median_latency)],
      ["99% latency", duration(row.p99_latency)], ["refused %", count(row.refused_percent)],
      ["main reason", row.main_reason ?? "–"],
    ]),
    element("div", { class: "actions" }, !me.is_operator ? null : isPaused
      ? action("Resume the queue", `Resume ${name}?`, { action: "queue-resume", queue: name })
      : action("Pause the queue", `Pause ${name}? Pushes wait until it is resumed.`, { action: "queue-pause", queue: name })),
    element("h3", {}, "Campaigns"), campaignTable(campaigns), element("h3", {}, "Schedules"), scheduleTable(name, schedules),
    element("h3", {}, "Failed jobs"), failedTable(failed),
  ];
}

function scheduleTable(queue, rows) {
  const order = (action, row) => ({ action, queue, key: row.name });
  return table("Schedules, by name", rows, {
    links: { campaign: (row) => link(path("campaign", queue, row.campaign), row.campaign) },
    more: me.may_change ? [
      (row) => row.state === "paused"
        ? action(`Resume ${row.name}`, `Resume schedule ${row.name}?`, order("schedule-resume", row))
        : action(`Pause ${row.name}`, `Pause schedule ${row.name}? Campaigns that it has started continue.`, order("schedule-pause", row)),
      (row) => action(`Run ${row.name} now`, `Start the campaign of schedule ${row.name} now?`, order("schedule-run", row)),
    ] : [],
    empty: "There are no schedules.",
  });
}

function campaignTable(rows) {
  return table("Campaigns, newest first", rows, {
    links: {
      key: (row) => link(campaignPath(row), row.key), queue: (row) => link(path("queue", row.queue), row.queue),
    },
    leave: ["suppressed", "expired", "unknown", "retried", "max_rate", "stop_at_errors", "filter", "fanned_out_at", "id"],
    empty: "There are no campaigns.",
  });
}

async function campaigns() {
  return [element("h2", {}, "Campaigns"), campaignTable(await ask("/api/campaigns"))];
}

// Why pushq itself held pushes back: these count as suppressed, not as refused.
const heldBack = new Set(["lacks_attribute", "too_long", "frequency_cap", "quiet_hours"]);

async function campaign(name, key) {
  const row = await ask("/api/campaign", { queue: name, key });
  const order = (action) => ({ action, queue: name, key });
  const ended = row.total - row.waiting;
  const mayPause = row.state === "running" || row.state === "scheduled";
  // Jobs are made shortly before they are sent, so nobody knows yet how many recipients there will be.
  const isGrowing = !row.fanned_out_at && (mayPause || row.state === "paused");
  const plots = row.timeline.length
    ? [element("h3", {}, "Outcomes over time"), legend(), timelinePlot(row.timeline, row.timeline_seconds)] : [];
  // The reasons are those of some jobs; the counts above them are of all.
  const told = row.reasons.reduce((sum, one) => sum + (heldBack.has(one.reason) ? 0 : one.count), 0);
  const refused = row.rejected + row.failed;
  const untold = told < refused
    ? element("p", { class: "weak" }, `Reasons of ${count(told)} of ${count(refused)} refusals: those of up to 500 `
      + "jobs that have ended. All: pushq-admin campaign show") : null;
  const reasons = row.reasons.length || untold
    ? [element("h3", {}, "Refusals by reason"), row.reasons.length ? reasonPlot(row.reasons) : null, untold] : [];
  // Each device gets it at a local time: so far as its zone has come, and is on the way to.
  const waves = row.local_time ? sums([["local time", row.local_time], ["next wave", moment(row.next_wave_at)],
    ["left out", count(row.left_out)]]) : [];
  const partial = row.timeline_is_partial
    ? element("p", { class: "weak" }, "Only the latest jobs are shown here, because the campaign has very many.") : null;
  return [
    element("h2", {}, `Campaign ${key}`),
    element("p", {}, link(path("queue", name), name),
      `, ${row.state === "scheduled" ? "starts" : "started"} ${moment(row.starts_at)}`),
    isGrowing
      ? element("p", {}, `${count(ended)} recipients have an outcome; ${count(row.total)} are in jobs so far`)
      : element("label", {}, `${count(ended)} of ${count(row.total)} recipients have an outcome`,
        element("progress", { max: Math.max(1, row.total), value: ended })),
    row.stands_because ? element("p", { class: "doubtful" }, row.stands_because) : null,
    sums([["state", row.state], ...["waiting", "delivered", "rejected", "failed", "suppressed", "expired", "cancelled",
      "unknown", "retried"].map((name) => [name, count(row[name])])]),
    element("div", { class: "actions" }, mayPause
      ? action("Pause", `Pause campaign ${key}?`, order("campaign-pause")) : null,
    row.state === "paused" ? action("Resume", `Resume campaign ${key}?`, order("campaign-resume")) : null,
    mayPause || row.state === "paused"
      ? action("Cancel", `Cancel campaign ${key}? At least ${count(row.waiting)} recipients will not be sent to. This cannot be undone.`,
        order("campaign-cancel")) : null,
    row.failed > 0 && row.state !== "cancelled"
      ? action("Send again to failed recipients",
        `Send once more to those failed recipients of campaign ${key} whose jobs have ended and are still kept?`,
        order("campaign-retry-failed")) : null),
    waves, plots, reasons, partial,
  ];
}

function failedTable(rows) {
  return table("Jobs with failed recipients, newest first", rows, {
    links: {
      queue: (row) => link(path("queue", row.queue), row.queue),
      campaign: (row) => link(path("campaign", row.queue, row.campaign), row.campaign),
    },
    more: me.may_change ? [(row) => action("Send again",
      `Send once more to the ${count(row.failed)} failed recipients of job ${row.job}?`,
      { action: "job-retry", queue: row.queue, job: row.job })] : [],
    empty: "There are no failed jobs.",
  });
}

async function failed(queue, campaign, reason, since, until) {
  const filter = { queue, campaign, reason, since: asTime(since), until: asTime(until) };
  const rows = await ask("/api/failed", filter);
  const isNarrow = queue && (campaign || reason || since || until);
  const jobs = rows.length < 100 ? `${count(rows.length)} jobs` : "100 jobs or more";
  return [
    element("h2", {}, "Failed jobs"),
    narrowing("failed", [queue, campaign, reason, since, until], [
      ["queue", "Queue", "acme/com.acme.shop/production"], ["campaign", "Campaign"],
      ["reason", "Reason", "InternalServerError"], ["since", "Ended since (UTC)", "2026-03-01 09:00"],
      ["until", "until (UTC)", "2026-03-01 12:00"],
    ]),
    rows.length && isNarrow ? element("div", { class: "actions" }, action("Send again to all that match",
      `Send once more to the failed recipients of ${jobs} of ${queue} that match?`, { action: "jobs-retry", ...filter })) : null,
    failedTable(rows), cut(rows),
  ];
}

async function workers() {
  const { workers } = await ask("/api/overview");
  return [element("h2", {}, "Workers"),
    table("Workers", workers ?? [], { empty: "No worker is running. Start one with: pushq work" })];
}

async function credentials(matching) {
  const rows = await ask("/api/credentials", { matching });
  return [element("h2", {}, "Credentials"),
    narrowing("credentials", [matching], [["matching", "Credentials with this text in their names", "acme/"]]),
    table("Credentials, by expiry date", rows, { empty: "There are no credentials." }), cut(rows)];
}

async function audit() {
  return [element("h2", {}, "Audit"), table("The latest changes", await ask("/api/audit"), { empty: "There are no changes." })];
}

// What somebody looks for is not in the address: it may be a token.
async function trace() {
  const results = element("div", { "aria-live": "polite" });
  const field = (name, label, hint) =>
    element("label", {}, label, element("input", { name, placeholder: hint, autocomplete: "off", spellcheck: "false" }));
  const look = async (event) => {
    event.preventDefault();
    say(problem, "");
    const wanted = Object.fromEntries(new FormData(event.target));
    try {
      const [devices, steps] = await Promise.all([send("/api/devices", wanted), send("/api/trace", wanted)]);
      results.replaceChildren(
        element("h3", {}, "Devices"), table("Devices", devices, { empty: "There is no such device in this queue." }),
        element("h3", {}, "What happened to notifications"),
        table("Steps in order", steps, { empty: "Nothing was sent to them." }));
    } catch (error) {
      results.replaceChildren();
      say(problem, error.message);
    }
  };
  return [
    element("h2", {}, "Trace"),
    element("p", {}, "Find out why somebody got a notification, or did not. Enter the queue, and a user or a device token."),
    element("form", { class: "look-up", onsubmit: look },
      field("queue", "Queue", "acme/com.acme.shop/production"), field("user", "User", "4711"),
      field("device", "or device token", ""), field("campaign", "Campaign (optional)", ""),
      element("button", { type: "submit", class: "primary" }, "Look up")),
    results,
  ];
}

function signIn() {
  const enter = async (event) => {
    event.preventDefault();
    say(problem, "");
    try {
      me = await send("/api/sign-in", Object.fromEntries(new FormData(event.target)));
      show();
    } catch (error) {
      say(problem, error.message);
    }
  };
  return [element("form", { class: "sign-in", onsubmit: enter },
    element("h2", {}, "Sign in"),
    element("label", {}, "Token (printed when the dashboard was started)",
      element("input", { name: "token", type: "password", required: true, autocomplete: "current-password" })),
    element("label", {}, "Your name, for the audit",
      element("input", { name: "name", maxlength: 40, autocomplete: "username" })),
    element("button", { type: "submit", class: "primary" }, "Sign in"))];
}

// ---- Going from view to view ----------------------------------------------------------------------------------------

const pages = { "": overview, overview, queue, campaigns, campaign, failed, workers, credentials, audit, trace };
// A form that somebody fills in is not drawn again.
const still = new Set(["trace"]);

function place() {
  return location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
}

// Shows the view of the address, from its beginning.
function show() {
  turn += 1;
  views.hidden = !me.signed_in;
  document.getElementById("who").hidden = !me.signed_in;
  document.getElementById("login").textContent =
    (me.name ? `${me.name} as ` : "") + (me.login ?? "") + (me.may_change ? "" : " (read-only)");
  for (const item of views.querySelectorAll("[data-operators]")) item.hidden = !me.is_operator;
  const name = place()[0].replace("overview", "");
  for (const item of views.querySelectorAll("a")) {
    const isCurrent = item.getAttribute("href") === "#/" + name;
    if (isCurrent) item.setAttribute("aria-current", "page"); else item.removeAttribute("aria-current");
  }
  say(problem, ""); say(away, ""); say(done, "");
  drawn = null;
  if (!me.signed_in) {
    clearTimeout(timer);
    main.replaceChildren(...signIn());
    main.querySelector("input").focus();
    return;
  }
  // What is refused can be typed again.
  const form = main.querySelector("form.look-up");
  main.replaceChildren(
    ...(form?.dataset.view === place()[0] ? [form] : []), element("p", { class: "weak loading" }, "Loading …"));
  refresh(true);
}

// Asks for the view again. What has the focus keeps it.
async function refresh(isNew = false) {
  clearTimeout(timer);
  const mine = turn;
  const [name, ...parts] = place();
  try {
    const content = (await (pages[name] ?? overview)(...parts)).flat().filter(Boolean);
    if (mine !== turn) return;
    const focused = focusPath();
    // What somebody types stays.
    const form = isNew ? null : main.querySelector("form.look-up");
    const scrolled = new Map(isNew ? [] : tables().map(([caption, node]) => [caption, node.scrollLeft]));
    main.replaceChildren(...content.map((node) => (form && node.matches("form.look-up") ? form : node)));
    for (const [caption, node] of tables()) node.scrollLeft = scrolled.get(caption) ?? 0;
    if (!isNew) restoreFocus(focused);
    document.title = `${main.querySelector("h2")?.textContent ?? "pushq"} – pushq`;
    drawn = new Date();
    say(away, "");
  } catch (error) {
    if (mine !== turn || !me.signed_in) return;
    main.querySelector("p.loading")?.remove();
    // What the page shows is not the present any more. The error of an order stays beside that.
    const time = drawn && moment(drawn.toISOString().replace(/\.\d+Z$/, "Z"));
    say(away, time ? `${error.message}; the figures are of ${time}` : error.message);
  }
  if (mine === turn && !still.has(name)) timer = setTimeout(again, interval);
}

function again() {
  if (document.hidden || document.getElementById("question").open) timer = setTimeout(again, interval);
  else refresh();
}

// The tables by their captions. Each is scrolled by itself, if it is wider than the screen.
function tables() {
  return [...main.querySelectorAll(".scroll")].map((node) => [node.getAttribute("aria-label"), node]);
}

// Where the focus is, as the numbers of the children on the way to it.
function focusPath() {
  const path = [];
  for (let node = document.activeElement; node && node !== main; node = node.parentElement) {
    if (!main.contains(node)) return null;
    path.unshift([...node.parentElement.children].indexOf(node));
  }
  return path;
}

function restoreFocus(path) {
  if (!path?.length) return;
  let node = main;
  for (const index of path) node = node?.children[index];
  node?.focus({ preventScroll: true });
}

document.getElementById("sign-out").addEventListener("click", async () => {
  await send("/api/sign-out", {});
  me = { signed_in: false };
  show();
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => { show(); main.focus({ preventScroll: true }); });
send("/api/me").then((answer) => { me = answer; }).catch((error) => say(problem, error.message)).finally(show);
