"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // The colours of the figures, and the colours that replace them on a dark page, with enough contrast.
  const onDark = {
    "#1b2733": "#e6ebf0", "#6b7885": "#a7b1bb", "#e5e9ee": "#35404b", "#0072b2": "#4aa8e0", "#d55e00": "#ff8c3b",
    "#009e73": "#37c99b", "#cc79a7": "#e3a3c8", "#56b4e9": "#2c5f7d", "#e69f00": "#f2bd4d",
  };
  // Replace colours of the drawing only: the data may contain a name that looks like a colour.
  const repaint = (part) => {
    if (typeof part === "string") return onDark[part] ?? part;
    if (Array.isArray(part)) return part.map(repaint);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(
      ([key, value]) => [key, ["data", "datasets", "params"].includes(key) ? value : repaint(value)]));
  };
  const views = [];
  const draw = async () => {
    views.splice(0).forEach((view) => view.finalize());
    for (const place of document.querySelectorAll("[data-figure]")) {
      const chart = charts[place.dataset.figure];
      const painted = dark.matches ? repaint(chart) : chart;
      place.hidden = false;
      const view = await vegaEmbed(place, { ...painted, background: "transparent" }, {
        actions: false, ast: true, defaultStyle: false, renderer: "svg",
        tooltip: { disableDefaultStyle: true },
      });
      views.push(view);
      place.closest("figure").classList.add("drawn");
    }
    document.documentElement.dataset.drawn = "yes";
  };
  const redraw = () => draw().catch((error) => console.error(error));
  dark.addEventListener("change", redraw);
  redraw();

  const table = document.getElementById("exposed");
  if (table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const compare = (one, two) => {
      if (one === "" || two === "") return (one === "") - (two === "");
      const numbers = [Number(one), Number(two)];
      return numbers.some(Number.isNaN) ? one.localeCompare(two, undefined, { numeric: true }) : numbers[0] - numbers[1];
    };
    table.querySelectorAll("thead button").forEach((button) => button.addEventListener("click", () => {
      const head = button.closest("th");
      const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      table.querySelectorAll("thead th[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      const key = (row) => row.cells[head.cellIndex].dataset.sort;
      rows.sort((one, two) => {
        const empty = (key(one) === "") - (key(two) === "");
        return empty || turn * compare(key(one), key(two));
      });
      body.append(...rows);
    }));
    const filter = document.getElementById("filter");
    const matches = document.getElementById("matches");
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
      const shown = rows.filter((row) => !row.hidden).length;
      matches.textContent = wanted ? `${shown} of ${rows.length}` : "";
    });
  }

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  };
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await copy(button.dataset.copy);
    const before = button.innerHTML;
    button.textContent = "Copied";
    setTimeout(() => { button.innerHTML = before; }, 1500);
  }));
})();
