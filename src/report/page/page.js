"use strict";
// Sorting, picking, copying, dark and light. The page is whole without it.

function element(tag, attributes, ...inner) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inner);
  return made;
}

function button(text, className, act) {
  const made = element("button", { type: "button", class: className }, text);
  made.addEventListener("click", act);
  return made;
}

// The whole text of a cell, also where what is shown is cut.
function words(cell) {
  const name = cell.querySelector("bdi");
  return name ? name.title || name.textContent : cell.textContent.trim();
}

// Unknown numbers come last, in either direction.
function compare(a, b, sign) {
  const [x, y] = [a.dataset.key, b.dataset.key];
  if (x !== undefined && y !== undefined) return sign * (Number(x) - Number(y));
  if (x !== undefined || y !== undefined) return x === undefined ? 1 : -1;
  const [s, t] = [words(a), words(b)];
  return sign * (s < t ? -1 : s > t ? 1 : 0);
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const hasNumbers = heads.some((head) => head.className === "number");
  if (!hasNumbers || [...table.tBodies].every((body) => body.rows.length < 3)) return;
  heads.forEach((head, column) => {
    const act = () => {
      const isUp = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => row.className !== "label");
        rows.sort((a, b) => compare(a.cells[column], b.cells[column], isUp ? 1 : -1));
        body.append(...rows);
      }
    };
    const made = button("", "", act);
    made.removeAttribute("class");
    made.append(...head.childNodes);
    head.append(made);
  });
}

function choice(name, values, act) {
  const select = element("select", {}, element("option", { value: "" }, "all"));
  for (const value of values) {
    const text = value === "" ? "(none)" : value;
    const short = text.length > 48 ? text.slice(0, 47) + "…" : text;
    select.append(element("option", { value: "=" + value }, short));
  }
  select.addEventListener("change", act);
  return [select, element("label", {}, name, select)];
}

function counter(total) {
  const output = element("output", {});
  output.show = (count) => (output.textContent = count === total ? `${total}` : `${count} of ${total}`);
  output.show(total);
  return output;
}

function filters(table) {
  if (!table.dataset.filters) return;
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.className !== "label");
  const columns = table.dataset.filters.split(",").map(Number);
  const output = counter(rows.length);
  const made = [];
  const act = () => {
    let count = 0;
    for (const row of rows) {
      row.hidden = made.some(([column, select]) => select.value && select.value !== "=" + words(row.cells[column]));
      count += row.hidden ? 0 : 1;
    }
    output.show(count);
  };
  const tools = element("div", { class: "tools" });
  for (const column of columns) {
    const values = [...new Set(rows.map((row) => words(row.cells[column])))];
    if (values.length < 2) continue;
    const [select, label] = choice(table.tHead.rows[0].cells[column].textContent, values, act);
    made.push([column, select]);
    tools.append(label);
  }
  if (made.length === 0) return;
  tools.append(element("span", {}, "rows: ", output));
  table.parentElement.before(tools);
}

function explorer(box) {
  const requests = [...box.children];
  if (requests.length < 2) return;
  const output = counter(requests.length);
  const texts = requests.map((request) => request.textContent.toLowerCase());
  const input = element("input", { type: "search" });
  const act = () => {
    let count = 0;
    requests.forEach((request, at) => {
      const isTask = !select.value || select.value === "=" + request.dataset.task;
      request.hidden = !(isTask && texts[at].includes(input.value.trim().toLowerCase()));
      count += request.hidden ? 0 : 1;
    });
    output.show(count);
  };
  const tasks = [...new Set(requests.map((request) => request.dataset.task))];
  const [select, label] = choice("task", tasks, act);
  input.addEventListener("input", act);
  const tools = element("div", { class: "tools" }, label, element("label", {}, "text", input));
  tools.append(element("span", {}, "requests: ", output));
  box.before(tools);
}

async function copy(text, made) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // Not allowed here: the old way.
    const area = element("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  made.textContent = done ? "copied" : "select it and copy";
  setTimeout(() => (made.textContent = "copy"), 2000);
}

function copies(box) {
  const made = button("copy", "tool", () => copy(box.textContent.trim(), made));
  made.setAttribute("aria-describedby", box.id);
  box.before(made);
}

function theme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const made = button("", "tool theme", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  const name = () => (made.textContent = isDark() ? "light" : "dark");
  dark.addEventListener("change", name);
  name();
  document.querySelector("header").append(made);
}

// On paper everything is open.
function printing() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
}

document.querySelectorAll("table").forEach(sortable);
document.querySelectorAll("table").forEach(filters);
document.querySelectorAll(".requests").forEach(explorer);
document.querySelectorAll(".source pre.copy, .file pre.copy").forEach(copies);
theme();
printing();
