// Sorting and filtering of the table of claims. Without it the page is whole, and the claims are in the paper's order.
"use strict";
(() => {
  const table = document.querySelector("table.claims");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const controls = document.querySelector(".controls");
  const words = controls.querySelector("input");
  const scale = controls.querySelector("select");
  const shown = controls.querySelector("output");
  const nothing = document.querySelector(".nothing");
  const counts = Array.from(document.querySelectorAll(".count"));
  const natural = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  let verdict = "";

  const inScale = (row) => !scale || scale.value === "all" || row.dataset.scale === scale.value || (scale.value === "fullest" && row.dataset.fullest === "yes");

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const inside = rows.filter(inScale);
    let visible = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const show = inside.includes(row) && (!verdict || row.dataset.verdict === verdict) && wanted.every((word) => text.includes(word));
      row.hidden = !show;
      visible += show ? 1 : 0;
    }
    for (const count of counts) {
      count.querySelector("b").textContent = inside.filter((row) => row.dataset.verdict === count.dataset.verdict).length;
      count.setAttribute("aria-pressed", String(count.dataset.verdict === verdict));
    }
    shown.textContent = visible === inside.length ? `all ${visible} claims` : `${visible} of ${inside.length} claims`;
    nothing.hidden = visible > 0;
  }

  // A first click sorts upwards, a second downwards, a third brings back the paper's order.
  function sort(head) {
    const next = { ascending: "descending", descending: "" };
    const before = head.getAttribute("aria-sort");
    const order = before in next ? next[before] : "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    const sorted = rows.slice();
    if (order) {
      head.setAttribute("aria-sort", order);
      const key = (row) => row.cells[head.cellIndex].dataset.sort || row.cells[head.cellIndex].textContent;
      const sign = order === "ascending" ? 1 : -1;
      sorted.sort((a, b) => sign * natural.compare(key(a), key(b)));
    }
    body.append(...sorted);
  }

  for (const head of heads) {
    if (!head.hasAttribute("data-sortable")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(head));
    head.replaceChildren(button);
  }
  for (const count of counts) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = count.className;
    button.dataset.verdict = count.dataset.verdict;
    button.append(...count.childNodes);
    button.addEventListener("click", () => {
      verdict = verdict === button.dataset.verdict ? "" : button.dataset.verdict;
      filter();
    });
    count.replaceWith(button);
    counts[counts.indexOf(count)] = button;
  }
  words.addEventListener("input", filter);
  if (scale) scale.addEventListener("change", filter);
  controls.hidden = false;
  filter();

  // A link to a claim shows it, whatever the filter says; one to a folded figure unfolds it.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest("details")) target.closest("details").open = true;
    if (rows.includes(target)) target.hidden = false;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  if (location.hash) reveal();
})();
