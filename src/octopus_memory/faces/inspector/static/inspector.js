// Small comforts. Every page works without them.
const at = (name) => document.querySelectorAll(`[data-${name}]`);

// Times in the zone of the browser; the title keeps UTC.
const two = (number) => String(number).padStart(2, "0");
const localize = (root) => {
  for (const time of root.querySelectorAll("time[data-shown]")) {
    const then = new Date(time.dateTime);
    if (time.title || Number.isNaN(then.getTime())) continue;
    time.title = `${time.dateTime.slice(0, 16).replace("T", " ")} UTC`;
    time.textContent = time.dataset.shown === "day"
      ? then.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" })
      : `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${two(then.getHours())}:${two(then.getMinutes())}`;
  }
};
localize(document);

for (const button of at("copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const from = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(from.textContent);
    button.textContent = "Copied";
  });
}

for (const filter of at("filter")) {
  filter.hidden = false;
  const rows = document.getElementById(filter.dataset.filter)?.tBodies[0].rows ?? [];
  filter.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
  });
}

for (const form of at("busy")) {
  form.addEventListener("submit", () => {
    const says = document.getElementById(form.dataset.busy);
    says.textContent = "Removing the rows. The other steps follow on the next page.";
    says.classList.add("note", "busy");
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  });
}

for (const field of at("type")) {
  const form = field.form;
  const button = form.querySelector("[data-typed]");
  const check = () => { button.disabled = field.value !== form.elements[field.dataset.type].value || !field.value; };
  field.addEventListener("input", check);
  form.elements[field.dataset.type].addEventListener("input", check);
  check();
}

for (const form of at("live")) {
  const target = document.getElementById(form.dataset.live);
  let waiting = 0;
  let asked = 0;
  const show = () => {
    for (const said of form.querySelectorAll("output[for]")) {
      const of = form.elements[said.htmlFor.value];
      said.textContent = of.dataset.scale ? (of.value / of.dataset.scale).toFixed(2) : of.value;
    }
  };
  const load = async () => {
    const mine = ++asked;
    const query = new URLSearchParams(new FormData(form));
    const answer = await fetch(`${form.dataset.from}?${query}`, { headers: { Accept: "text/html" } });
    if (answer.redirected) location.reload();
    if (!answer.ok || answer.redirected || mine !== asked) return;
    target.innerHTML = await answer.text();
    localize(target);
    history.replaceState(null, "", `${location.pathname}?${query}`);
  };
  form.addEventListener("input", () => {
    show();
    clearTimeout(waiting);
    waiting = setTimeout(load, 250);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
}

// Reloads a part of a page until that part no longer asks for it.
for (const part of at("poll")) {
  let last = "";
  const least = 1000 * Number(part.dataset.every || 2);
  let every = least;
  const open = () => new Set([...part.querySelectorAll("details[open][id]")].map((each) => each.id));
  const load = async () => {
    if (!document.hidden) {
      const answer = await fetch(part.dataset.poll, { headers: { Accept: "text/html" } }).catch(() => null);
      if (answer && answer.redirected) return location.reload();
      if (answer && answer.ok && !part.contains(document.activeElement)) {
        const text = await answer.text();
        // Only news, because a screen reader announces every change.
        every = Math.min(1.2 * every, 30000);
        if (text !== last) {
          const kept = open();
          part.innerHTML = last = text;
          every = least;
          localize(part);
          for (const id of kept) document.getElementById(id)?.setAttribute("open", "");
        }
        if (part.querySelector("[data-end]")) return undefined;
      }
    }
    return setTimeout(load, every);
  };
  setTimeout(load, every);
}
