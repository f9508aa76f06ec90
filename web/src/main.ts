// The page: what a user sees and does, and the loop that runs the simulation in real time.

import { element, message, showCard, Slider, watchSections, type SliderOptions } from "./controls";
import { Input } from "./input";
import { MotionPage } from "./motion";
import { loadMujoco, type Mujoco } from "./mujoco";
import type { PageData, PageRobot } from "./page_data";
import { Plots } from "./plots";
import { Training } from "./training";
import type { Command } from "./policy";
import { Scene, type Grip } from "./scene";
import { Simulation, type Conditions } from "./simulation";

const FORMAT = 1;
const MAX_LAG = 0.25; // of real time, that is made up [s]
const PLOT_PERIOD = 50; // [ms]
const LIVE_WIDTH = 290; // of the section with the plots, with its margin [px]
const PUSH = 1.0; // change of velocity [m/s]
const LINK_DELAY = 300; // after a change of a slider, until it is in the address [ms]

const CONDITIONS: Record<keyof Conditions, SliderOptions> = {
  friction: { label: "Friction", unit: "", range: [0.05, 1.5], step: 0.05 },
  payload: { label: "Payload", unit: "kg", range: [-2, 10], step: 0.5 },
  strength: { label: "Motor strength", unit: "×", range: [0.3, 1.3], step: 0.05 },
  delay: { label: "Action delay", unit: "ms", range: [0, 60], step: 5 },
  noise: { label: "Sensor noise, 1 as in training", unit: "×", range: [0, 5], step: 0.25 },
  slope: { label: "Slope, uphill", unit: "°", range: [-20, 20], step: 1 },
};
const COMMANDS = [
  { label: "Forward", unit: "m/s" },
  { label: "Left", unit: "m/s" },
  { label: "Turn left", unit: "rad/s" },
];

const robotName = (data: PageData, select: HTMLSelectElement) => data.robots[Number(select.value)].name;

class Page {
  private simulation!: Simulation;
  private command: Slider[];
  private conditions: Record<keyof Conditions, Slider>;
  private input: Input;
  private scene = new Scene(element("view"), element("panel"), LIVE_WIDTH);
  private plots = new Plots(element("velocities"), element("feet"), element("torques"));
  private isPaused = false;
  private speed = 1;
  private lag = 0; // of the simulation behind real time [s]
  private lastFrame = 0; // [ms]
  private lastPlots = 0; // [ms]
  private computing = 0; // of a control step, smoothed [ms]
  private falls = 0; // when the status was last shown
  private grip: Grip | null = null;
  private pointer: number[] | null = null; // where the grip is pulled to
  private pointerId = -1; // of the pointer that has gripped
  private loading: Promise<void> = Promise.resolve(); // of robots, one after the other
  private linkTimer = 0;
  private messageTimer = 0;

  constructor(
    private mujoco: Mujoco,
    private data: PageData,
  ) {
    const slider = (id: string, options: SliderOptions, changed: () => void) => new Slider(element(id), options, changed);
    this.command = COMMANDS.map((each) =>
      slider("command-sliders", { ...each, range: [-1, 1], step: 0.05 }, () => this.writeLinkSoon()),
    );
    const entries = Object.entries(CONDITIONS).map(([name, options]) => {
      return [name, slider("condition-sliders", options, () => this.changeConditions())];
    });
    this.conditions = Object.fromEntries(entries);
    this.input = new Input(element("left-stick"), element("right-stick"), (action) => this.act(action));
    for (const action of ["pause", "step", "reset", "push", "camera", "stop", "nominal", "link"]) {
      element(action).addEventListener("click", () => this.act(action));
    }
    element("speed").addEventListener("change", () => (this.speed = Number(element<HTMLSelectElement>("speed").value)));
    this.offerRobots();
    watchSections();
    this.watchPointer();
    addEventListener("hashchange", () => this.readLink());
  }

  /** Let another policy walk; camera, command and conditions stay. */
  async replace(robot: PageRobot): Promise<void> {
    this.data.robots.splice(0, 1, robot);
    await this.show(0, true);
    await this.readLink();
    document.body.classList.add("walking");
  }

  private offerRobots(): void {
    const select = element<HTMLSelectElement>("robot");
    this.data.robots.forEach((robot, i) => select.add(new Option(robot.name, `${i}`)));
    element("robot-choice").hidden = this.data.robots.length <= 1;
    select.addEventListener("change", async () => {
      try {
        await this.show(Number(select.value));
        this.writeLink();
      } catch (error) {
        this.say(`${robotName(this.data, select)} cannot be shown: ${(error as Error).message}`);
        select.value = `${this.data.robots.indexOf(this.simulation.robot)}`;
      }
    });
    element("start").addEventListener("change", () => {
      this.simulation.start = Number(element<HTMLSelectElement>("start").value);
      this.act("reset");
      this.scene.lookAt(this.simulation);
      this.writeLink();
    });
  }

  /** Show one of the robots, from where the camera is or from beside the robot. */
  show(index: number, keepsCamera = false): Promise<void> {
    const load = () => this.load(this.data.robots[index] ?? this.data.robots[0], keepsCamera);
    return (this.loading = this.loading.then(load, load));
  }

  private async load(robot: PageRobot, keepsCamera: boolean): Promise<void> {
    if (this.simulation?.robot === robot) return;
    const loaded = await Simulation.load(this.mujoco, robot);
    this.letGo();
    this.simulation?.delete();
    this.simulation = loaded;
    const { commandRange } = this.simulation.policy;
    element<HTMLSelectElement>("robot").value = `${this.data.robots.indexOf(robot)}`;
    document.title = element("title").textContent = robot.name;
    this.command.forEach((slider, axis) => {
      slider.setRange(commandRange[axis]);
      slider.setNominal(0);
    });
    for (const [name, value] of Object.entries(this.simulation.nominal)) {
      this.conditions[name as keyof Conditions].setNominal(value);
    }
    const starts = element<HTMLSelectElement>("start");
    starts.replaceChildren(...(robot.ground?.starts ?? []).map((each, i) => new Option(each.name, `${i}`)));
    element("start-choice").hidden = starts.length === 0;
    showCard(robot.card);
    this.plots.clear();
    this.falls = 0;
    this.computing = 0;
    this.scene.show(this.simulation, keepsCamera);
  }

  private changeConditions(): void {
    if (!this.simulation) return; // before the first policy of a training
    const values = Object.entries(this.conditions).map(([name, slider]) => [name, slider.value]);
    this.simulation.setConditions(Object.fromEntries(values));
    this.writeLinkSoon();
  }

  act(action: string): void {
    if (!this.simulation) return; // before the first policy of a training
    if (action === "pause") {
      this.isPaused = !this.isPaused;
      element("pause").textContent = this.isPaused ? "Go on" : "Pause";
    } else if (action === "step") {
      if (!this.isPaused) this.act("pause");
      this.advance();
    } else if (action === "reset") {
      this.simulation.reset();
      this.plots.clear();
    } else if (action === "push") {
      const angle = 2 * Math.PI * Math.random();
      this.push(PUSH * Math.cos(angle), PUSH * Math.sin(angle));
    } else if (action === "camera") {
      this.scene.follows = !this.scene.follows;
      element("camera").setAttribute("aria-pressed", `${this.scene.follows}`);
    } else if (action === "stop") {
      for (const slider of this.command) slider.value = 0;
      this.writeLink();
    } else if (action === "nominal") {
      for (const [name, value] of Object.entries(this.simulation.nominal)) {
        this.conditions[name as keyof Conditions].value = value;
      }
      this.changeConditions();
    } else if (action === "link") {
      this.copyLink();
    }
  }

  push(vx: number, vy: number): void {
    this.simulation.push(vx, vy);
  }

  private async copyLink(): Promise<void> {
    this.writeLink();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The link is copied.");
    } catch {
      this.say("Copy the address of this page: it has the settings.");
    }
  }

  say(text: string): void {
    message(text);
    clearTimeout(this.messageTimer);
    this.messageTimer = setTimeout(() => message(""), 2500) as unknown as number;
  }

  /** Write the link soon: browsers refuse to change the address often. */
  private writeLinkSoon(): void {
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => this.writeLink(), LINK_DELAY) as unknown as number;
  }

  /** Write the settings that a user changed to the address. */
  private writeLink(): void {
    if (!this.simulation) return;
    const settings = new URLSearchParams();
    const robot = this.data.robots.indexOf(this.simulation.robot);
    if (robot) settings.set("robot", `${robot}`);
    if (this.simulation.start) settings.set("start", `${this.simulation.start}`);
    if (this.command.some((slider) => slider.value)) {
      settings.set("command", this.command.map((slider) => slider.value).join());
    }
    for (const [name, slider] of Object.entries(this.conditions)) {
      if (slider.isChanged) settings.set(name, `${slider.value}`);
    }
    history.replaceState(null, "", `#${settings}`);
  }

  /** Take the settings from the address; what is not understood is left out. */
  async readLink(): Promise<void> {
    if (!this.data.robots.length) return;
    const settings = new URLSearchParams(location.hash.slice(1));
    const number = (text: string | null) => (text && Number.isFinite(Number(text)) ? Number(text) : null);
    await this.show(number(settings.get("robot")) ?? 0);
    const start = number(settings.get("start")) ?? 0;
    if (start !== this.simulation.start && this.simulation.robot.ground?.starts[start]) {
      this.simulation.start = start;
      element<HTMLSelectElement>("start").value = `${start}`;
      this.simulation.reset();
      this.scene.lookAt(this.simulation);
    }
    const command = (settings.get("command") ?? "").split(",").map(number);
    this.command.forEach((slider, axis) => (slider.value = command[axis] ?? 0));
    for (const [name, slider] of Object.entries(this.conditions)) {
      slider.value = number(settings.get(name)) ?? this.simulation.nominal[name as keyof Conditions];
    }
    this.changeConditions();
  }

  private watchPointer(): void {
    const view = element("view");
    view.addEventListener(
      "pointerdown",
      (event) => {
        if (this.grip) return; // a second finger
        this.grip = event.button === 0 ? this.scene.grab(this.simulation, event.clientX, event.clientY) : null;
        this.scene.turnsCamera = this.grip === null;
        this.pointerId = event.pointerId;
        if (this.grip) view.setPointerCapture(event.pointerId);
      },
      { capture: true },
    );
    view.addEventListener("pointermove", ({ pointerId, clientX, clientY }) => {
      if (this.grip && pointerId === this.pointerId) {
        this.pointer = this.scene.pointAt(clientX, clientY, this.grip.distance);
      }
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      view.addEventListener(end, ({ pointerId }) => {
        if (pointerId === this.pointerId) this.letGo();
      });
    }
  }

  private letGo(): void {
    if (this.grip) this.simulation.pull(this.grip.body, this.grip.point, null);
    this.grip = this.pointer = null;
    this.scene.turnsCamera = true;
  }

  /** Ends of the rope that pulls the robot; none if nobody pulls it. */
  private rope(): number[][] {
    if (!this.grip || !this.pointer) return [];
    return [this.simulation.pointOf(this.grip.body, this.grip.point), this.pointer];
  }

  /** The command of the sliders, and what keys, gamepad and touch add to it. */
  private wantedCommand(): Command {
    const ranges = this.simulation.policy.commandRange;
    return this.input.read().map((share, axis) => {
      const [low, high] = ranges[axis];
      return this.command[axis].value + share * (share < 0 ? -low : high);
    }) as Command;
  }

  /** Simulate one control step. */
  private advance(): void {
    if (this.grip && this.pointer) this.simulation.pull(this.grip.body, this.grip.point, this.pointer);
    this.simulation.step(this.wantedCommand());
    const { computing } = this.simulation;
    this.computing = this.computing ? 0.98 * this.computing + 0.02 * computing : computing;
    this.plots.add(this.simulation);
  }

  /** Show a frame, and ask for the next one. */
  frame(now: number): void {
    requestAnimationFrame((next) => this.frame(next));
    const elapsed = (now - this.lastFrame) / 1000;
    this.lastFrame = now;
    if (!this.simulation) return;
    this.input.readButtons();
    if (!this.isPaused) {
      this.lag = Math.min(this.lag + this.speed * elapsed, MAX_LAG * Math.max(1, this.speed));
      for (; this.lag >= this.simulation.controlPeriod; this.lag -= this.simulation.controlPeriod) this.advance();
    }
    this.scene.draw(this.simulation, this.rope());
    if (now - this.lastPlots < PLOT_PERIOD) return;
    this.lastPlots = now;
    this.plots.draw(this.simulation);
    this.showStatus();
  }

  private showStatus(): void {
    const { time, falls, sinceFall, controlPeriod } = this.simulation;
    element("time").textContent = `${time.toFixed(1)} s`;
    element("falls").textContent = `${falls}`;
    element("since").textContent = `${sinceFall.toFixed(1)} s`;
    element("computing").textContent = `${this.computing.toFixed(1)} of ${(1000 * controlPeriod).toFixed(0)} ms`;
    if (falls > this.falls && !this.data.training) this.say("The robot fell.");
    this.falls = falls;
  }

  /** Simulate a time [s] at once, with a command; return the mean velocity error [m/s], the falls, and the mean time of
   *  a control step [ms]. */
  simulate(seconds: number, command?: Command): { error: number; falls: number; computing: number } {
    const { simulation } = this;
    const [before, steps] = [simulation.falls, Math.round(seconds / simulation.controlPeriod)];
    let [error, computing] = [0, 0];
    for (let i = 0; i < steps; i++) {
      const wanted = command ?? this.wantedCommand();
      simulation.step(wanted);
      const measured = simulation.measured();
      error += Math.hypot(wanted[0] - measured[0], wanted[1] - measured[1]) / steps;
      computing += simulation.computing / steps;
      this.plots.add(simulation);
    }
    return { error, falls: simulation.falls - before, computing };
  }

  get current(): Simulation {
    return this.simulation;
  }
}

async function openPage(mujoco: Mujoco, data: PageData): Promise<Page | MotionPage> {
  if (data.motion) return MotionPage.open(mujoco, data.motion);
  const page = new Page(mujoco, data);
  if (data.training) new Training(data.training, (robot) => page.replace(robot), (text) => page.say(text));
  else await page.readLink();
  return page;
}

async function open(): Promise<void> {
  const data: PageData = JSON.parse(element("page-data").textContent!);
  if (data.format !== FORMAT || !(data.robots.length || data.training || data.motion)) {
    throw new Error("this page has no robot; write it with rsl-rl play --page");
  }
  const mujoco = await loadMujoco(element("mujoco-wasm").textContent!);
  element("mujoco-wasm").remove();
  const page = await openPage(mujoco, data);
  requestAnimationFrame((now) => page.frame(now));
  Object.assign(window, { robotPage: page }); // for programs that drive the page
}

const fail = (error: unknown) => message(`This page cannot run: ${(error as Error)?.message ?? error}`, true);
addEventListener("error", (event) => fail(event.error ?? event.message));
addEventListener("unhandledrejection", (event) => fail(event.reason));
open().catch(fail);
