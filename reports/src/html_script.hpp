// SPDX-License-Identifier: Apache-2.0
// Script of the HTML report: copies commands, chooses the theme, zooms and explains tile maps,
// shows failing trials one by one. Without it the page has tables (docs/reports.md).
#pragma once

#include <string_view>

namespace faultline::reports {

inline constexpr std::string_view kScript = R"js(
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const say = text => { document.getElementById("said").textContent = text; };
const grouped = number => Number(number).toLocaleString("en-US");
const counted = (number, noun) => `${grouped(number)} ${noun}${+number === 1 ? "" : "s"}`;

// Commands are copied.
for (const button of all("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    let done = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      done = true;
    } catch (refused) {
      const range = document.createRange();
      range.selectNodeContents(code);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    say(done ? "Command copied" : "Press Control and C to copy the selected command");
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// The theme: the system's, light, dark.
{
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try {
    theme = localStorage.getItem("faultline-theme") || "system";
  } catch (refused) { /* pages from files may have no storage */ }
  const apply = () => {
    if (!themes.includes(theme)) theme = "system";
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  apply();
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    apply();
    try {
      localStorage.setItem("faultline-theme", theme);
    } catch (refused) { /* then it lasts as long as the page */ }
  });
}

// Tile maps.
const bound = code => code === "n" ? "not finite"
  : code.slice(1) + (code[0] === "a" ? " of bound" : " x bound");

class TileMap {
  constructor(table) {
    this.table = table;
    this.cells = all("td:not(.none)", table);
    this.figures = table.dataset.cells.split(";").map(text => {
      const [tile, trials, elements, ratio, ulps, first, infinite, poison, blind] =
        text.split("/");
      const [name, size = table.dataset.size] = tile.split("*");
      return {name, size, trials, elements, ratio, ulps, first, infinite, poison, blind};
    });
    this.shades = this.cells.map(cell => cell.className);
    this.held = new Map(table.dataset.held.split(";").filter(Boolean).map(
      text => text.split(/=(.*)/s).slice(0, 2)));
    this.index = new Map(this.cells.map((cell, i) => [cell, i]));
    this.scroll = table.parentElement;
    const figure = table.closest("figure");
    this.readout = figure.querySelector(".readout");
    this.level = this.first_level = +table.dataset.level.slice(1);
    this.written = this.cells.length > 0 && this.cells[0].childElementCount > 0;
    this.texts = this.cells.map(cell => this.written ? cell.children[1].textContent : null);
    this.failed = this.figures.some(f => +f.elements > 0);
    this.trial = null;  // what one trial did, by square; null: all trials
    this.at = Math.max(0, this.figures.findIndex(f => +f.elements > 0));
    table.setAttribute("role", "grid");
    this.scroll.removeAttribute("tabindex");  // its squares take the focus
    this.cells[this.at].tabIndex = 0;  // the others when they are gone to
    this.readout.hidden = false;
    this.explain(this.at);
    const tools = figure.querySelector(".tools");
    tools.hidden = false;
    for (const button of all("button", tools)) {
      button.addEventListener("click", () => this.zoom(+button.dataset.zoom));
    }
    table.addEventListener("mouseover", event => {
      const i = this.index.get(event.target.closest("td"));
      if (i !== undefined) this.explain(i);
    });
    table.addEventListener("mouseleave", () => this.explain(this.at));
    table.addEventListener("focusin", event => {
      const i = this.index.get(event.target);
      if (i !== undefined) this.move(i);
    });
    table.addEventListener("click", event => {
      const i = this.index.get(event.target.closest("td"));
      if (i !== undefined) this.go(this.cells[i]);
    });
    table.addEventListener("keydown", event => this.key(event));
    this.scroll.addEventListener("wheel", event => {
      if (!event.ctrlKey && !table.contains(document.activeElement)) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1 : -1, event.target.closest("td"));
    }, {passive: false});
  }

  text(i) {
    const f = this.figures[i];
    const name = /^\d+$/.test(f.name) ? `tile ${f.name}`
      : /^\d/.test(f.name) ? `tiles ${f.name}` : `${f.name} of tiles`;
    if (this.trial) {
      const wrong = this.trial.get(i);
      return wrong ? `${name}: ${counted(wrong.elements, "wrong element")} in this trial, worst ` +
                     bound(wrong.ratio)
                   : `${name}: right in this trial`;
    }
    const ulps = f.ulps === "n" ? "" : ` (${f.ulps} ulps)`;
    if (+f.elements === 0) {
      return `${name}: wrong in 0 of ${this.table.dataset.of}, worst ${bound(f.ratio)}${ulps}`;
    }
    const held = this.held.get(f.name);
    return `${name}: wrong in ${grouped(f.trials)} of ${this.table.dataset.of}, ` +
      `${counted(f.elements, "wrong element")}, worst ${bound(f.ratio)}${ulps}, first at ` +
      `element ${f.first}` +
      (+f.infinite ? `, ${grouped(f.infinite)} not finite` : "") +
      (+f.poison ? `, ${grouped(f.poison)} never written` : "") +
      (+f.blind ? `, ${grouped(f.blind)} without a usable reference` : "") +
      (held ? `; held ${held} of its wrong elements` : "");
  }

  // What stands below the map; the square says it to a screen reader.
  explain(i) {
    for (const cell of all(".at", this.table)) cell.classList.remove("at");
    this.cells[i].classList.add("at");
    this.readout.textContent = this.text(i);
  }
  move(i) {
    this.cells[this.at].tabIndex = -1;
    this.at = i;
    this.cells[i].tabIndex = 0;
    this.cells[i].setAttribute("aria-label", this.text(i));
    this.explain(i);
  }

  key(event) {
    const i = this.index.get(event.target);
    if (i === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const zooms = {"+": 1, "=": 1, "-": -1, "0": 0};
    if (event.key in zooms) {
      event.preventDefault();
      this.zoom(zooms[event.key], this.cells[i]);
      return;
    }
    const cell = this.cells[i], row = all("td:not(.none)", cell.parentElement);
    const below = direction => {
      let line = cell.parentElement;
      const column = cell.cellIndex;
      while ((line = direction > 0 ? line.nextElementSibling : line.previousElementSibling)) {
        const next = line.cells[column];
        if (this.index.has(next)) return next;
      }
      return null;
    };
    const goals = {
      ArrowRight: () => this.cells[i + 1], ArrowLeft: () => this.cells[i - 1],
      ArrowDown: () => below(1), ArrowUp: () => below(-1),
      Home: () => row[0], End: () => row.at(-1),
    };
    if (!(event.key in goals)) return;
    event.preventDefault();
    const goal = goals[event.key]();
    if (goal) this.go(goal);
  }
  go(cell) {
    if (!cell.hasAttribute("tabindex")) cell.tabIndex = -1;
    cell.focus();
  }

  // Larger squares say more; the square that was pointed at stays where it is.
  zoom(step, anchor = null) {
    const level = step === 0 ? this.first_level : Math.min(5, Math.max(0, this.level + step));
    if (level === this.level) return;
    const kept = anchor || this.cells[this.at];
    const before = kept.getBoundingClientRect();
    this.table.classList.replace(`z${this.level}`, `z${level}`);
    this.level = level;
    if (level > 2) this.write();
    const after = kept.getBoundingClientRect();
    this.scroll.scrollLeft += after.left - before.left;
    this.scroll.scrollTop += after.top - before.top;
    say(`Zoom ${level + 1} of 6`);
  }
  write() {
    this.cells.forEach((cell, i) => {
      const f = this.figures[i], wrong = this.trial && this.trial.get(i);
      if (!this.written) {
        const name = document.createElement("b"), tile = document.createElement("i");
        tile.textContent = /^\d/.test(f.name) ? "tile " : "";
        name.append(tile, f.name);
        cell.append(name, document.createElement("span"));
      }
      if (cell.childElementCount < 3) cell.append(document.createElement("small"));
      const share = 100 * f.trials / this.table.dataset.outOf;
      cell.children[1].textContent = this.trial ? (wrong ? `${grouped(wrong.elements)} wrong` : "-")
        : this.texts[i] !== null ? this.texts[i]
        : +f.elements === 0 ? (this.failed ? "0 %" : bound(f.ratio).replace(" of bound", ""))
        : f.trials === this.table.dataset.outOf ? "100 %"
        : share >= 99.5 ? "> 99 %" : share < 0.1 ? "< 0.1 %" : `${share.toPrecision(2)} %`;
      cell.children[2].textContent = this.trial ? (wrong ? bound(wrong.ratio) : "")
        : +f.elements ? `${grouped(f.elements)} wrong, ${bound(f.ratio)}` : "";
    });
    this.written = true;
  }

  // Shows one trial, or all of them again; nothing where this map is not of the trial's problem.
  show(trial, concerned) {
    this.trial = trial;
    const figure = this.table.closest("figure");
    figure.hidden = !concerned;
    if (!concerned) return;
    if (trial && figure.closest("details")) figure.closest("details").open = true;
    this.cells.forEach((cell, i) => {
      if (!trial) {
        cell.className = this.shades[i];
        return;
      }
      const wrong = trial.get(i);
      const share = wrong ? wrong.elements / this.figures[i].size : 0;
      cell.className = !wrong ? "h0" : share < 0.01 ? "h1" : share < 0.1 ? "h2"
        : share < 0.5 ? "h3" : "h4";
    });
    if (this.level > 2) this.write();
    this.explain(trial && trial.size > 0 ? Math.min(...trial.keys()) : this.at);
  }
}
const maps = all("table.map").map(table => new TileMap(table));
for (const hint of all("[data-hint]")) hint.hidden = maps.length === 0;

// Failing trials one by one, over the same maps.
const player = document.getElementById("player");
if (player) {
  const sources = all("ol li", player).map(item => (
    {name: item.textContent, maps: new Set(item.dataset.maps.split(" ").map(Number))}));
  const quiet = all("#tiles figure").filter(figure => !figure.querySelector("table.map"));
  const folded = all("#tiles details").filter(details => details.querySelector("table.map"));
  const frames = player.dataset.frames.split(";").map(text => {
    const [head, ...tiles] = text.split(" ");
    const [source, trial] = head.split("/");
    return {source: sources[source], trial, tiles: tiles.map(tile => tile.split("/"))};
  });
  const range = player.querySelector("input"), shown = player.querySelector(".shown");
  const play = player.querySelector("[data-play]");
  const remark = document.querySelector("#tiles-title small");
  const remark_of_all = remark.textContent;
  const opened = [];  // folds that a trial opened
  let timer = 0, hidden_before = 0;
  const show = at => {
    range.value = at;
    const frame = at > 0 ? frames[at - 1] : null;
    const by_map = new Map(maps.map(map => [+map.table.dataset.map, new Map()]));
    for (const [map, cell, elements, ratio] of frame ? frame.tiles : []) {
      by_map.get(+map).set(+cell, {elements, ratio});
    }
    const left = folded.map(details => details.open);
    let hidden = 0;
    for (const map of maps) {
      const m = +map.table.dataset.map, concerned = !frame || frame.source.maps.has(m);
      map.show(frame ? by_map.get(m) : null, concerned);
      hidden += concerned ? 0 : 1;
    }
    for (const figure of quiet) figure.hidden = hidden > 0;
    // What a trial opened is closed again with it.
    folded.forEach((details, i) => {
      if (!frame && opened[i]) details.open = false;
      opened[i] = frame !== null && (opened[i] || (details.open && !left[i]));
    });
    if (hidden !== hidden_before) player.scrollIntoView({block: "nearest"});
    hidden_before = hidden;
    shown.textContent = frame
      ? `Trial ${grouped(frame.trial)} of ${frame.source.name}: ` +
        `${counted(frame.tiles.length, "wrong square")} (${at} of ${frames.length})` +
        (hidden ? `; ${counted(hidden, "map")} of other problems hidden` : "")
      : `All ${player.dataset.trials}`;
    range.setAttribute("aria-valuetext", shown.textContent);
    remark.textContent = frame ? "share of its elements that were wrong in this trial"
                               : remark_of_all;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const step = by => (+range.value + by + frames.length + 1) % (frames.length + 1);
  play.addEventListener("click", () => {
    if (timer) {
      stop();
      say(shown.textContent);
      return;
    }
    play.textContent = "Pause";
    if (+range.value === frames.length) show(0);
    show(step(1));
    timer = setInterval(() => {
      show(step(1));
      if (+range.value === frames.length) stop();
    }, 400);
  });
  for (const button of all("[data-step]", player)) {
    button.addEventListener("click", () => {
      stop();
      show(step(+button.dataset.step));
      say(shown.textContent);
    });
  }
  player.querySelector("[data-all]").addEventListener("click", () => {
    stop();
    show(0);
    say(shown.textContent);
  });
  range.addEventListener("input", () => {
    stop();
    show(+range.value);
  });
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  const respect = () => {
    play.hidden = reduced.matches;
    player.querySelector("[data-still]").hidden = !reduced.matches;
    if (reduced.matches) stop();
  };
  reduced.addEventListener("change", respect);
  respect();
  addEventListener("beforeprint", () => { stop(); show(0); });
  player.hidden = false;
  show(0);
}

// What can be scrolled to the right fades out there.
{
  const look = area => area.classList.toggle("cut",
    area.scrollLeft + area.clientWidth < area.scrollWidth - 4);
  const sizes = new ResizeObserver(entries => { for (const entry of entries) look(entry.target); });
  for (const area of all(".scroll")) {
    sizes.observe(area);
    area.addEventListener("scroll", () => look(area), {passive: true});
  }
}

// On paper everything is open.
let closed = [];
addEventListener("beforeprint", () => {
  closed = all("details:not([open])");
  for (const details of closed) details.open = true;
});
addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
)js";

}  // namespace faultline::reports
