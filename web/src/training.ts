// A training that the page shows while it runs: progress, curves, evaluation, times, faults, and the newest policy.

import { element } from "./controls";
import type { PagePolicy, PageRobot, PageTraining, TrainingNews } from "./page_data";
import { startCanvas } from "./plots";

const CURVE_HEIGHT = 58; // [px]
const COUNTERS = ["iteration", "env_steps", "collect_s", "learn_s", "steps_per_s"];
const LEADING = ["mean_reward", "mean_episode_length"];
const LOST = 10_000; // without connection, until the page says so [ms]

type Values = Record<string, number>;

/** One small diagram: a metric of the training, and that of the evaluations with its limit. */
interface Curve {
  title: string;
  names: { name: string; kind: "training" | "evaluation" }[];
  limit: number | null;
}

const words = (name: string) => name.replaceAll("_", " ");

/** Return a number with four digits. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 5 });
}

/** Return a time [s] as 1:02:03. */
export function clock(seconds: number): string {
  const [hours, minutes, rest] = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  const two = (value: number) => `${value}`.padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Return what is drawn: progress first, then what the gate limits, then the numbers of the learner. */
export function curvesOf(names: string[], gate: Values): { main: Curve[]; others: Curve[] } {
  const known = new Set(names);
  const one = (name: string): Curve => ({ title: words(name), names: [{ name, kind: "training" }], limit: null });
  const limited = Object.entries(gate).map(([metric, limit]): Curve => {
    const training = { name: `episode/${metric}`, kind: "training" as const };
    const evaluation = { name: `evaluation/${metric}`, kind: "evaluation" as const };
    return { title: words(metric), names: [training, evaluation].filter(({ name }) => known.has(name)), limit };
  });
  const shown = new Set([...COUNTERS, ...LEADING, ...limited.flatMap((curve) => curve.names.map(({ name }) => name))]);
  const rest = names.filter((name) => !shown.has(name) && !/^(faults|ranks)\/|^(skipped|excluded)_steps$/.test(name));
  const main = [
    ...LEADING.filter((name) => known.has(name)).map(one),
    ...limited.filter((curve) => curve.names.length),
    ...rest.filter((name) => !name.includes("/")).map(one),
  ];
  const kindOf = (name: string) => (name.startsWith("evaluation/") ? ("evaluation" as const) : ("training" as const));
  const others = rest.filter((name) => name.includes("/")).map((name) => {
    return { title: words(name.replace(/^episode\//, "")), names: [{ name, kind: kindOf(name) }], limit: null };
  });
  return { main, others };
}

/** A diagram and the newest value beside its title. */
class Diagram {
  private canvas = document.createElement("canvas");
  private output = document.createElement("output");
  private pointed: number | null = null; // share of the width at which the pointer is

  constructor(
    container: HTMLElement,
    readonly curve: Curve,
    private redraw: () => void,
  ) {
    const row = container.appendChild(document.createElement("div"));
    row.className = "curve";
    const title = row.appendChild(document.createElement("span"));
    title.textContent = title.title = curve.title;
    this.output.setAttribute("aria-label", curve.title);
    this.output.setAttribute("aria-live", "off");
    this.canvas.setAttribute("role", "img");
    row.append(this.output, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX / this.canvas.clientWidth));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
  }

  private point(share: number | null): void {
    this.pointed = share;
    this.redraw();
  }

  draw(records: Values[], first: number, last: number): void {
    const { names, limit, title } = this.curve;
    const lines = names.map(({ name, kind }) => ({ name, kind, points: records.filter((record) => name in record) }));
    const values = lines.flatMap(({ name, points }) => points.map((record) => record[name]));
    const newest = lines.flatMap(({ name, points }) => points.slice(-1).map((record) => record[name])).at(-1);
    this.output.value = newest === undefined ? "" : short(newest);
    if (!this.canvas.clientWidth || !values.length) return;
    const [lowest, highest] = [Math.min(...values, limit ?? Infinity), Math.max(...values, limit ?? -Infinity)];
    const label = `${title}, from ${short(lowest)} to ${short(highest)}`;
    this.canvas.setAttribute("aria-label", limit === null ? label : `${label}, limit ${short(limit)}`);
    const { context, width, height, css } = startCanvas(this.canvas, CURVE_HEIGHT);
    const x = (record: Values) => ((record.iteration - first) / Math.max(1, last - first)) * (width - 4) + 2;
    const y = (value: number) => height - 4 - ((value - lowest) / (highest - lowest || 1)) * (height - 8);
    context.fillStyle = css("--fill");
    context.fillRect(0, 0, width, height);
    if (limit !== null) {
      context.strokeStyle = css("--good");
      context.setLineDash([4, 3]);
      context.strokeRect(0, y(limit), width, 0);
      context.setLineDash([]);
    }
    for (const { name, kind, points } of lines) {
      context.strokeStyle = context.fillStyle = css(kind === "training" ? "--commanded" : "--measured");
      context.lineWidth = 1.4;
      context.beginPath();
      for (const record of points) context.lineTo(x(record), y(record[name]));
      context.stroke();
      for (const record of kind === "evaluation" || points.length === 1 ? points : []) {
        context.fillRect(x(record) - 2, y(record[name]) - 2, 4, 4);
      }
    }
    if (this.pointed !== null) this.showPointed(records, x, height, context, css("--muted"), this.pointed * width);
  }

  /** Show the values of the iteration below the pointer. */
  private showPointed(
    records: Values[],
    x: (record: Values) => number,
    height: number,
    context: CanvasRenderingContext2D,
    color: string,
    at: number,
  ): void {
    const known = records.filter((record) => this.curve.names.some(({ name }) => name in record));
    const nearest = known.reduce((best, record) => (Math.abs(x(record) - at) < Math.abs(x(best) - at) ? record : best));
    context.fillStyle = color;
    context.fillRect(x(nearest) - 0.5, 0, 1, height);
    const values = this.curve.names.filter(({ name }) => name in nearest).map(({ name }) => short(nearest[name]));
    this.output.value = `${values.join(", ")} at ${nearest.iteration}`;
  }
}

/** The section of a training; policies are handed to ``show``. */
export class Training {
  private records: Values[] = [];
  private diagrams: Diagram[] = [];
  private drawn = ""; // names of the metrics that have diagrams
  private newest = -1; // checkpoint in the run folder
  private shown = -1; // checkpoint that walks
  private refused = -1; // checkpoint without a policy for the page
  private notBefore = 0; // time of the next policy [ms]
  private isFetching = false;
  private hasEnded = false;
  private lost = 0; // timer

  constructor(
    private training: PageTraining,
    private show: (robot: PageRobot) => Promise<void>,
    private say: (text: string) => void,
  ) {
    document.body.classList.add("training");
    document.body.classList.toggle("no-robot", !training.has_robot);
    document.title = element("title").textContent = training.task;
    element("run").textContent = training.run;
    document.querySelector<HTMLButtonElement>("[data-section=training]")!.click();
    this.tell("Waiting for the first iteration");
    const events = new EventSource("events");
    events.onmessage = ({ data }) => this.take(JSON.parse(data), events);
    events.onopen = () => clearTimeout(this.lost);
    events.onerror = () => {
      clearTimeout(this.lost);
      if (!this.hasEnded) this.lost = setTimeout(() => this.tell("No connection to the training"), LOST) as unknown as number;
    };
    document.addEventListener("visibilitychange", () => this.fetchPolicy());
    element("newest").addEventListener("change", () => this.fetchPolicy());
    element("more-curves").addEventListener("toggle", () => this.draw());
    addEventListener("resize", () => this.draw());
  }

  private tell(text: string): void {
    element("training-state").textContent = text;
  }

  private take(news: TrainingNews, events: EventSource): void {
    clearTimeout(this.lost);
    if (news.replaces) this.records = [];
    this.records.push(...news.records);
    this.newest = news.checkpoint;
    const { first, last } = this.training;
    const { iteration = first, env_steps, steps_per_s } = news.newest;
    const progress = element<HTMLProgressElement>("progress");
    [progress.max, progress.value] = [Math.max(1, last), iteration];
    this.tell(news.ending ? `Ended: ${news.ending}` : `Iteration ${iteration} of ${last}`);
    element("left").textContent = news.ending ? "ended" : news.seconds_left === null ? "–" : clock(news.seconds_left);
    element("samples").textContent = env_steps === undefined ? "–" : short(env_steps);
    element("speed-of-training").textContent = steps_per_s === undefined ? "–" : `${short(steps_per_s)} /s`;
    this.showTimes(news.newest);
    this.showEvaluation(news.evaluation);
    this.showFaults(news);
    this.draw();
    if (news.ending) {
      this.hasEnded = true;
      events.close();
      this.say("The training has ended.");
      document.body.classList.add("ended");
    } else {
      this.fetchPolicy();
    }
    this.tellPolicy();
  }

  private showTimes(newest: Values): void {
    const phases = ["collect_s", "learn_s"].filter((name) => name in newest);
    const parts = phases.map((name) => {
      const part = document.createElement("span");
      part.style.flexGrow = `${Math.max(newest[name], 1e-9)}`;
      part.textContent = `${words(name.slice(0, -2))} ${newest[name].toFixed(2)} s`;
      return part;
    });
    element("phases").replaceChildren(...parts);
  }

  private showEvaluation(evaluation: Values): void {
    const { gate } = this.training;
    const rows = Object.entries(evaluation).filter(([name]) => name.startsWith("evaluation/"));
    const ordered = rows.map(([name, value]) => [name.slice("evaluation/".length), value] as const);
    ordered.sort(([a], [b]) => Number(Object.hasOwn(gate, b)) - Number(Object.hasOwn(gate, a)));
    element("evaluation").hidden = !rows.length;
    element("evaluation-title").textContent = `Newest evaluation, iteration ${evaluation.iteration}`;
    const cells = ordered.map(([name, value]) => {
      const row = document.createElement("tr");
      const limit = Object.hasOwn(gate, name) ? gate[name] : null;
      const verdict = limit === null ? "" : value <= limit ? "met" : "missed";
      for (const text of [words(name), short(value), limit === null ? "" : `≤ ${short(limit)}`, verdict]) {
        row.appendChild(document.createElement("td")).textContent = text;
      }
      row.lastElementChild!.className = verdict;
      return row;
    });
    element("evaluation-rows").replaceChildren(...cells);
  }

  private showFaults({ faults, damaged }: TrainingNews): void {
    const counts = Object.entries(faults).map(([name, count]) => `${words(name.replace("faults/", ""))} ${short(count)}`);
    if (damaged) counts.push(`${damaged} damaged lines in metrics.jsonl`);
    element("faults").textContent = counts.length ? counts.join(", ") : "none";
    element("faults").classList.toggle("missed", counts.length > 0);
  }

  private draw(): void {
    const names = [...new Set(this.records.flatMap((record) => Object.keys(record)))];
    if (names.join() !== this.drawn) {
      this.drawn = names.join();
      const { main, others } = curvesOf(names, this.training.gate);
      for (const id of ["curves", "other-curves"]) element(id).replaceChildren();
      const add = (id: string) => (curve: Curve) => new Diagram(element(id), curve, () => this.draw());
      this.diagrams = [...main.map(add("curves")), ...others.map(add("other-curves"))];
      element("more-curves").hidden = !others.length;
    }
    const start = Math.min(this.training.first, this.records[0]?.iteration ?? 0);
    for (const diagram of this.diagrams) diagram.draw(this.records, start, this.records.at(-1)?.iteration ?? 1);
  }

  /** Get the newest policy, if the page is looked at and shows another one. */
  private async fetchPolicy(): Promise<void> {
    const isWanted = this.shown < 0 || element<HTMLInputElement>("newest").checked;
    const isNew = this.newest > Math.max(this.shown, this.refused);
    const isPause = performance.now() < this.notBefore;
    if (!this.training.has_robot || !isWanted || !isNew || isPause || document.hidden || this.isFetching || this.hasEnded) return;
    this.isFetching = true;
    const asked = this.newest;
    this.tellPolicy();
    try {
      const answer: PagePolicy = await (await fetch("policy")).json();
      this.notBefore = performance.now() + 1000 * answer.pause;
      if (answer.robot) {
        if (answer.checkpoint !== this.shown) await this.show(answer.robot);
        [this.shown, this.refused] = [answer.checkpoint, -1];
      } else {
        this.refused = asked;
        this.tellPolicy(answer.problem);
        return;
      }
    } catch (error) {
      this.refused = asked;
      this.tellPolicy(`${(error as Error).message}`);
      return;
    } finally {
      this.isFetching = false;
    }
    this.tellPolicy();
    this.fetchPolicy();
  }

  private tellPolicy(problem = ""): void {
    const texts = [];
    if (this.shown >= 0) texts.push(`The policy of iteration ${this.shown} walks.`);
    if (this.hasEnded) texts.push(`rsl-rl play --task ${this.training.task} --page walk.html writes a page with the last one.`);
    else if (problem) texts.push(`No policy of iteration ${this.refused}: ${problem}`);
    else if (this.isFetching) texts.push(`The policy of iteration ${this.newest} is being exported.`);
    else if (this.shown < 0) texts.push("Waiting for the first checkpoint.");
    element("policy-state").textContent = texts.join(" ");
  }
}
