"use strict";

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

const resolve = (spec, schema) =>
  schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((at, part) => at[part], spec) : schema || {};

const bodyOf = (spec, operation) => {
  if (!operation.requestBody) return null;
  const [[type, content]] = Object.entries(operation.requestBody.content);
  let schema = resolve(spec, content.schema);
  if (schema.anyOf) schema = resolve(spec, schema.anyOf[0]);
  const example = schema.example ?? (schema.examples || [{}])[0];
  return { type, text: typeof example === "string" ? example : JSON.stringify(example, null, 2) };
};

function show(spec, path, method, operation, button) {
  for (const other of document.querySelectorAll("nav button")) other.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  const inputs = (operation.parameters || []).filter((each) => each.in !== "header").map((each) => {
    const input = element("input",
      { name: each.name, required: each.required || false, placeholder: each.description || "" });
    input.dataset.place = each.in;
    return element("label", {}, `${each.name}${each.required ? " *" : ""}`, input);
  });
  const offered = bodyOf(spec, operation);
  const body = offered && element("textarea", { spellcheck: false, required: true, value: offered.text });
  if (body) body.dataset.type = offered.type;
  const answer = element("pre", { textContent: "The answer is shown here." });
  const form = element("form", {},
    ...inputs, ...(body ? [element("label", {}, "Body", body)] : []),
    element("button", { className: "send", textContent: "Send" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.textContent = "…";
    try {
      answer.textContent = await send(path, method, form, body);
    } catch (error) {
      answer.textContent = String(error);
    }
  });
  if (method === "put") {
    // It replaces what is there, so that is what is offered: sent as it is, it changes nothing.
    body.value = "";
    body.placeholder = "What is there now is filled in when the fields above are.";
    form.addEventListener("change", async (event) => {
      if (event.target === body || !form.querySelector("input").value) return;
      const [status, now] = (await send(path, "get", form)).split("\n\n");
      if (status.startsWith("200")) body.value = now;
      else answer.textContent = `${status}\n\n${now}`;
    });
  }
  const route = document.getElementById("route");
  route.replaceChildren(
    element("h2", {}, element("span", { className: "method", textContent: method.toUpperCase() }), path),
    element("p", { textContent: operation.description || operation.summary || "" }), form, answer);
  // On a narrow screen it stands under the list.
  if (matchMedia("(max-width: 50rem)").matches) route.scrollIntoView();
}

async function send(path, method, form, body) {
  const query = new URLSearchParams();
  let target = path;
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.place === "path") target = target.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(input.name, input.value);
  }
  const key = document.getElementById("key").value;
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body) headers["Content-Type"] = body.dataset.type;
  const response = await fetch(query.size ? `${target}?${query}` : target,
    { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
  const text = await response.text();
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: shown as it is */ }
  return `${response.status} ${response.statusText}\n\n${shown}`;
}

async function start() {
  const response = await fetch("api/octopus/openapi.json");
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const spec = await response.json();
  const nav = document.getElementById("routes");
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const group = (operation.tags || ["Others"])[0];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push([path, method, operation]);
    }
  for (const [group, routes] of groups) {
    nav.append(element("h2", { textContent: group }));
    for (const [path, method, operation] of routes) {
      const button = element("button", { type: "button", title: operation.summary || "" },
        element("span", { className: "method", textContent: method.toUpperCase() }), path.replace("/api/octopus", ""));
      button.addEventListener("click", () => show(spec, path, method, operation, button));
      nav.append(button);
    }
  }
}

start().catch((error) => {
  document.getElementById("route").replaceChildren(element("p", {
    textContent: `The routes could not be loaded (${error.message}): see that the service runs, and load this page again.`,
  }));
});
