"use strict";
(() => {
  const tip = document.getElementById("tip");
  const keys = [...document.querySelectorAll("button.key[data-series]")];
  const all = [...document.querySelectorAll("button.key.all")];
  const series = [...document.querySelectorAll(".series")];

  // a series is shown or hidden in all figures at once
  const show = (name, on) => {
    for (const key of keys) if (key.dataset.series === name) key.setAttribute("aria-pressed", String(on));
    for (const group of series) if (group.dataset.series === name) group.classList.toggle("off", !on);
    const hidden = keys.some((key) => key.getAttribute("aria-pressed") === "false");
    for (const button of all) button.hidden = !hidden;
  };
  const point = (name) => {
    document.body.classList.toggle("dimmed", name !== null);
    for (const group of series) group.classList.toggle("lit", group.dataset.series === name);
  };
  for (const key of keys) {
    const name = key.dataset.series;
    key.addEventListener("click", () => {
      show(name, key.getAttribute("aria-pressed") === "false");
      point(null);
    });
    key.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && key.getAttribute("aria-pressed") === "true") point(name);
    });
    key.addEventListener("pointerleave", () => point(null));
  }
  for (const button of all)
    button.addEventListener("click", () => {
      for (const key of keys) show(key.dataset.series, true);
      keys.find((key) => key.parentNode === button.parentNode).focus();
    });

  const put = (parent, name, text) => {
    const made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
  };

  // what is above a value of the horizontal axis, best first
  const readings = (figure, at) =>
    [...figure.querySelectorAll(`.series:not(.off) .mark[data-at="${at}"]`)]
      .map((mark) => ({ name: mark.closest(".series").dataset.series, mark }))
      .sort((a, b) => b.mark.dataset.value - a.mark.dataset.value);

  const hide = (figure) => {
    tip.hidden = true;
    figure.querySelector(".cursor")?.classList.remove("on");
  };
  const tell = (figure, at) => {
    const [x, label] = JSON.parse(figure.dataset.stops)[at];
    figure.dataset.at = at;
    tip.replaceChildren();
    put(tip, "b", label);
    const panels = figure.closest(".panels");
    for (const { name, mark } of readings(figure, at)) {
      const line = document.createElement("div");
      const key = keys.find((one) => one.dataset.series === name && panels.contains(one));
      line.append(key.querySelector(".swatch").cloneNode(true));
      put(line, "span", name);
      put(line, "span", mark.dataset.note);
      tip.append(line);
    }
    const cursor = figure.querySelector(".cursor");
    if (cursor) {
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.classList.add("on");
    }
    tip.hidden = false;
    const box = figure.getBoundingClientRect();
    const stop = box.left + (x / figure.viewBox.baseVal.width) * box.width;
    const room = document.documentElement.clientWidth;
    const left = stop + 16 + tip.offsetWidth < room ? stop + 16 : Math.max(4, stop - 16 - tip.offsetWidth);
    tip.style.left = `${Math.min(left, Math.max(4, room - tip.offsetWidth - 4)) + scrollX}px`;
    tip.style.top = `${Math.max(4, box.top + 8) + scrollY}px`;
  };

  for (const figure of document.querySelectorAll("svg.figure[data-stops]")) {
    for (const title of figure.querySelectorAll(".mark > title")) {
      title.parentNode.dataset.note = title.textContent; // the browser's own tip would cover ours
      title.remove();
    }
    const stops = JSON.parse(figure.dataset.stops);
    const nearest = (event) => {
      const box = figure.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * figure.viewBox.baseVal.width;
      return stops.reduce((best, stop, at) => (Math.abs(stop[0] - x) < Math.abs(stops[best][0] - x) ? at : best), 0);
    };
    const moved = (event) => tell(figure, nearest(event));
    figure.addEventListener("pointermove", moved);
    figure.addEventListener("pointerdown", moved);
    figure.addEventListener("pointerleave", () => hide(figure));
    figure.addEventListener("blur", () => hide(figure));
    figure.addEventListener("keydown", (event) => {
      const last = stops.length - 1;
      const at = figure.dataset.at === undefined ? -1 : Number(figure.dataset.at);
      const next = {
        ArrowRight: Math.min(at + 1, last),
        ArrowLeft: Math.max(at - 1, 0),
        Home: 0,
        End: last,
      }[event.key];
      if (event.key === "Escape") hide(figure);
      if (next === undefined) return;
      event.preventDefault();
      tell(figure, next);
    });
  }

  // on paper, nothing can be unfolded
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
})();
