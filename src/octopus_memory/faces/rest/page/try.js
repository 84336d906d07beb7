"use strict";

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

const resolve = (spec, schema) =>
  schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((at, part) => at[part], spec) : schema || {};

const bodySchema = (spec, operation) => {
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  if (!content) return null;
  const schema = resolve(spec, content.schema);
  return schema.anyOf ? resolve(spec, schema.anyOf[0]) : schema;
};

function show(spec, path, method, operation, button) {
  for (const other of document.querySelectorAll("nav button")) other.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  const inputs = (operation.parameters || []).filter((each) => each.in !== "header").map((each) => {
    const input = element("input", { name: each.name, required: each.required || false });
    input.dataset.place = each.in;
    return element("label", {}, `${each.name}${each.required ? " *" : ""}`, input);
  });
  const schema = bodySchema(spec, operation);
  const body = schema && element("textarea", { spellcheck: false, value: JSON.stringify(schema.example || {}, null, 2) });
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
  document.getElementById("route").replaceChildren(
    element("h2", {}, element("span", { className: "method", textContent: method.toUpperCase() }), path),
    element("p", { textContent: operation.description || operation.summary || "" }), form, answer);
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
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(query.size ? `${target}?${query}` : target,
    { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
  const text = await response.text();
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: shown as it is */ }
  return `${response.status} ${response.statusText}\n\n${shown}`;
}

async function start() {
  const spec = await (await fetch("api/octopus/openapi.json")).json();
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

start();
