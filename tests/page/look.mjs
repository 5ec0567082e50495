// Opens each page from disk and looks; see .ci/page.
//   node look.mjs BROWSER FOLDER NAME...
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [browserPath, folder, ...names] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const BYTES_MAX = 500_000;
const failures = [];
let checks = 0;

function check(holds, what) {
  checks += 1;
  if (!holds) {
    failures.push(what);
    console.error(`FAILED ${what}`);
  }
}

// A page in a context of its own; every complaint of the browser is collected.
async function open(browser, name, { width = 1280, scheme = "light", scripts = true } = {}) {
  const url = pathToFileURL(`${folder}/${name}.html`).href;
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: scheme,
    javaScriptEnabled: scripts,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(url);
  return { page, complaints, requests, url, close: () => context.close() };
}

function quiet({ complaints, requests, url }, what) {
  check(complaints.length === 0, `${what}: the console says ${complaints.join("; ")}`);
  const others = requests.filter((request) => request !== url);
  check(others.length === 0, `${what}: asked for ${others.join(", ")}`);
}

// axe is put in by the driver, which the page's policy does not concern.
async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  check(passes.length > 10, `${what}: axe looked at nothing`);
  for (const violation of violations) {
    const where = violation.nodes.slice(0, 3).map((node) => node.target.join(" ") + " " + node.failureSummary);
    check(false, `${what}: axe: ${violation.id} (${violation.nodes.length}): ${where.join(" | ")}`);
  }
  check(violations.length === 0, `${what}: axe found ${violations.length}`);
}

async function fits(page, what) {
  const wide = await page.evaluate(() => {
    const room = document.documentElement.clientWidth;
    const out = [];
    for (const node of document.querySelectorAll("body *")) {
      const box = node.getBoundingClientRect();
      if (box.right > room + 1 && !node.closest(".scroll, pre, .heard, .skip")) out.push(node.tagName + "." + node.className);
    }
    return { page: document.documentElement.scrollWidth - room, out: out.slice(0, 5) };
  });
  check(wide.page <= 0 && wide.out.length === 0, `${what}: ${wide.page} pixels too wide, ${wide.out.join(", ")}`);
}

const column = (page, table, index) =>
  page.evaluate(
    ([table, index]) =>
      [...document.querySelectorAll("table")[table].tBodies].map((body) =>
        [...body.rows].filter((row) => row.className !== "label").map((row) => row.cells[index].dataset.key ?? row.cells[index].textContent),
      ),
    [table, index],
  );

// Sorts the first sortable table by its first column of numbers, both ways, with the keyboard.
async function sorting(page, what) {
  const place = await page.evaluate(() => {
    for (const [table, node] of [...document.querySelectorAll("table")].entries()) {
      const heads = [...node.tHead.rows[0].cells];
      const index = heads.findIndex((head) => head.className === "number" && head.querySelector("button"));
      const keys = [...node.tBodies].flatMap((body) => [...body.rows].map((row) => row.cells[index]?.dataset.key));
      if (index >= 0 && new Set(keys.filter((key) => key !== undefined)).size > 2) return [table, index];
    }
    return null;
  });
  if (!place) return check(false, `${what}: nothing to sort`);
  const [table, index] = place;
  const before = await column(page, table, index);
  const head = page.locator("table").nth(table).locator("thead th").nth(index);
  for (const [direction, sign] of [["ascending", 1], ["descending", -1]]) {
    await head.locator("button").focus();
    await page.keyboard.press("Enter");
    check((await head.getAttribute("aria-sort")) === direction, `${what}: aria-sort is not ${direction}`);
    const after = await column(page, table, index);
    check(after.length === before.length, `${what}: sorting mixed groups`);
    after.forEach((group, at) => {
      const numbers = group.map(Number).filter((number) => !Number.isNaN(number));
      check(numbers.every((number, i) => i === 0 || sign * (number - numbers[i - 1]) >= 0), `${what}: not ${direction}: ${group}`);
      check([...group].sort().join() === [...before[at]].sort().join(), `${what}: sorting lost rows`);
    });
  }
}

// Every table that can be picked from, by each of its filters.
async function picking(page, what, least) {
  await page.evaluate(() => document.querySelectorAll("section > details").forEach((details) => (details.open = true)));
  const tables = page.locator("table[data-filters]");
  const count = await tables.count();
  check(count >= least, `${what}: ${count} tables to pick from, not ${least}`);
  for (let place = 0; place < count; place += 1) {
    const table = tables.nth(place);
    const tools = page.locator(`.tools:has(+ .scroll #${await table.getAttribute("id")})`);
    const rows = () => table.locator("tbody tr:not(.label):visible").count();
    const all = await rows();
    const selects = tools.locator("select");
    const filters = await selects.count();
    check(filters > 0, `${what}: no filters above a table`);
    for (let at = 0; at < filters; at += 1) {
      const select = selects.nth(at);
      await select.selectOption(await select.locator("option").nth(1).getAttribute("value"));
      const some = await rows();
      check(some > 0 && some < all, `${what}: picking shows ${some} of ${all} rows`);
      const said = await tools.locator("output").textContent();
      check(said === `${some} of ${all}`, `${what}: ${said}, not ${some} of ${all}`);
      await select.selectOption("");
    }
    check((await rows()) === all, `${what}: picking all does not show all`);
  }
}

async function exploring(page, what, required) {
  const box = page.locator(".requests");
  if ((await box.count()) === 0) return check(!required, `${what}: no requests to look into`);
  const shown = () => box.locator("details.request:visible").count();
  const all = await shown();
  const tools = page.locator(".tools:has(+ .requests)");
  const id = (await box.locator("details.request summary bdi").first().textContent()).trim();
  await tools.locator("input").fill(id);
  check((await shown()) >= 1 && (await shown()) < all, `${what}: text ${id} finds ${await shown()} of ${all}`);
  await tools.locator("input").fill("");
  const select = tools.locator("select");
  await select.selectOption(await select.locator("option").nth(1).getAttribute("value"));
  check((await shown()) >= 1 && (await shown()) < all, `${what}: a task finds ${await shown()} of ${all}`);
  await select.selectOption("");
  check((await shown()) === all, `${what}: not all requests come back`);
}

async function copying(page, what) {
  const box = page.locator(".source pre.copy").first();
  const text = (await box.textContent()).trim();
  await page.locator(".source button").first().click();
  await page.waitForFunction(() => document.querySelector(".source button").textContent !== "copy");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  check(copied === text && text.startsWith("routelab "), `${what}: copied ${copied}`);
}

async function colours(page, what) {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const first = await paper();
  await page.locator(".theme").click();
  const second = await paper();
  await page.locator(".theme").click();
  check(first !== second && (await paper()) === first, `${what}: the switch of colours does nothing`);
}

const rowsShown = (page) =>
  page.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.setAttribute("open", "");
    const isSeen = (row) => row.getClientRects().length > 0;
    return ["tr", ".verdicts li", "details.request", "svg", "li", "p", "pre"].map(
      (kind) => [...document.querySelectorAll(kind)].filter(isSeen).length,
    );
  });

const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
for (const name of names) {
  const size = statSync(`${folder}/${name}.html`).size;
  check(size < BYTES_MAX, `${name}: ${size} bytes`);

  const opened = await open(browser, name);
  const { page } = opened;
  if (name !== "size-eval" && name !== "size-shadow") await sorting(page, name);
  // What a drill, a sweep or a size has to show is too little to pick from.
  const least = { compare: 2, everyday: 2, hostile: 2 }[name] ?? 0;
  await picking(page, name, least);
  await exploring(page, name, ["everyday", "hostile"].includes(name));
  await copying(page, name);
  await colours(page, name);
  const dialogs = await page.evaluate(() => document.querySelectorAll("script").length);
  check(dialogs === 1, `${name}: ${dialogs} scripts`);
  quiet(opened, name);
  const withScript = await rowsShown(page);
  await accessible(page, `${name} with all open`);
  await opened.close();

  const bare = await open(browser, name, { scripts: false });
  // The driver's own questions do not count as the page's script.
  const withoutScript = await rowsShown(bare.page);
  check(withScript.join() === withoutScript.join(), `${name}: without script ${withoutScript}, with it ${withScript}`);
  quiet(bare, `${name} without script`);
  await bare.close();

  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      const what = `${name} ${scheme} ${width}`;
      const seen = await open(browser, name, { width, scheme });
      await fits(seen.page, what);
      await accessible(seen.page, what);
      quiet(seen, what);
      await seen.page.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png`, fullPage: true });
      await seen.close();
    }
  }

  const paper = await open(browser, name);
  await paper.page.pdf({ path: `${folder}/${name}.pdf`, format: "A4", margin: { top: "15mm", bottom: "15mm", left: "15mm", right: "15mm" } });
  await paper.close();
  console.log(`${name}: ${size} bytes`);
}
await browser.close();
console.log(`${checks - failures.length} passed, ${failures.length} failed`);
process.exit(failures.length === 0 && checks > 100 ? 0 : 1);
