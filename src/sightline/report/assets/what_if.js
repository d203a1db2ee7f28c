
(() => {
  const part = document.getElementById("what-if");
  if (!part) return;
  const data = JSON.parse(document.getElementById("what-if-data").textContent);
  const find = (name) => document.getElementById(`what-if-${name}`);
  const slider = find("noise"), accountant = find("accountant");
  const switches = [...part.querySelectorAll('[name="what-if-switch"]')];
  const own = { accountant: slider.dataset.accountant, stop: slider.defaultValue };
  const bars = [...find("histogram").querySelectorAll("rect")];
  const counts = [...find("histogram").querySelectorAll("text:not(.axis)")];
  const highest = Math.max(1, ...Object.values(data.settings).flatMap((one) => one[7].map(([, records]) => records)));

  // Look the setting up. Nothing is computed but the heights of the bars.
  const show = () => {
    const on = switches.filter((one) => one.checked).map((one) => one.value);
    const setting = data.settings[`${accountant ? accountant.value : own.accountant}/${slider.value}/${on.join(".")}`];
    find("stop").textContent = data.stops[slider.value];
    slider.setAttribute("aria-valuetext", data.stops[slider.value]);
    const words = setting ? setting.slice(0, 6).map((place) => data.texts[place]) : ["Not computed", "", "", "", "", ""];
    find("verdict").firstElementChild.textContent = words[0];
    find("verdict").className = setting && setting[6] !== null ? (setting[6] ? "good" : "bad") : "";
    if (find("below")) find("below").textContent = words[1];
    find("keeps").textContent = words[2];
    find("worst").textContent = words[3];
    find("amount").textContent = words[4];
    find("budget").textContent = words[5];
    find("missing").hidden = Boolean(setting);
    const records = new Map(setting ? setting[7] : []);
    let free = 0; // from where on the next number has room
    bars.forEach((bar, place) => {
      const height = 110 * Math.log1p(records.get(place) ?? 0) / Math.log1p(highest);
      bar.setAttribute("y", 130 - height);
      bar.setAttribute("height", height);
      counts[place].setAttribute("y", 126 - height);
      const text = records.has(place) ? records.get(place).toLocaleString("en") : "";
      const middle = Number(counts[place].getAttribute("x")), half = 3 * text.length;
      counts[place].textContent = middle - half < free ? "" : text;
      if (text && middle - half >= free) free = middle + half;
    });
    const said = [...records].map(([place, number]) => `${data.edges[place]} to ${data.edges[place + 1]}: ${number.toLocaleString("en")}`);
    find("histogram").setAttribute("aria-label", said.length ? `Records by what they keep. ${said.join("; ")}.` : "Nothing to show.");
  };
  [slider, accountant, ...switches].forEach((control) => control && control.addEventListener("input", show));
  find("reset").addEventListener("click", () => {
    if (accountant) accountant.value = own.accountant;
    slider.value = own.stop;
    switches.forEach((one) => { one.checked = false; });
    show();
  });
  find("list").addEventListener("click", () => {
    const listed = part.classList.toggle("listed");
    find("list").setAttribute("aria-expanded", listed);
  });
  find("live").hidden = false;
  part.classList.add("scripted");
  show();
})();
