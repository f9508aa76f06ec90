// Curves of the last seconds, on canvases.

import type { Simulation } from "./simulation";

const SECONDS = 6; // shown
const NAMES = ["Forward", "Left", "Turn left"];
const UNITS = ["m/s", "m/s", "rad/s"];
const ROW = 13; // height of a bar [px]
const DOWN = 1; // force of a foot on the ground [N]

interface Sample {
  time: number;
  commanded: number[];
  measured: number[];
  feet: boolean[];
}

interface Pen {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  css: (name: string) => string;
}

/** Return an empty canvas in the size in which it is shown. */
export function startCanvas(canvas: HTMLCanvasElement, height: number): Pen {
  const [width, ratio] = [canvas.clientWidth, devicePixelRatio];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const style = getComputedStyle(canvas);
  return { context, width, height, css: (name) => style.getPropertyValue(name) };
}

export class Plots {
  private samples: Sample[] = [];
  private curves: { canvas: HTMLCanvasElement; commanded: HTMLOutputElement; measured: HTMLOutputElement }[];

  constructor(
    container: HTMLElement,
    private feet: HTMLCanvasElement,
    private torques: HTMLCanvasElement,
  ) {
    this.curves = NAMES.map((name, i) => {
      const row = container.appendChild(document.createElement("div"));
      row.className = "velocity";
      row.append(`${name}, ${UNITS[i]}`);
      const [commanded, measured] = ["commanded", "measured"].map((kind) => {
        const output = row.appendChild(document.createElement("output"));
        output.className = kind;
        output.setAttribute("aria-label", `${name}, ${kind}`);
        output.setAttribute("aria-live", "off");
        return output;
      });
      const canvas = row.appendChild(document.createElement("canvas"));
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${name}, commanded and measured, the last six seconds`);
      return { canvas, commanded, measured };
    });
  }

  clear(): void {
    this.samples = [];
  }

  add(simulation: Simulation): void {
    this.samples.push({
      time: simulation.time,
      commanded: [...simulation.policy.command],
      measured: simulation.measured(),
      feet: simulation.feet.map((foot) => simulation.contactForce(foot) > DOWN),
    });
    if (this.samples[0].time < simulation.time - SECONDS) this.samples.shift();
  }

  draw(simulation: Simulation): void {
    if (!this.feet.clientWidth || !this.samples.length) return; // hidden
    const ranges = simulation.policy.commandRange;
    this.curves.forEach(({ canvas, commanded, measured }, axis) => {
      const newest = this.samples[this.samples.length - 1];
      commanded.value = newest.commanded[axis].toFixed(2);
      measured.value = newest.measured[axis].toFixed(2);
      this.drawCurve(startCanvas(canvas, 56), axis, 1.3 * Math.max(...ranges[axis].map(Math.abs), 0.2), simulation.time);
    });
    this.drawFeet(startCanvas(this.feet, ROW * simulation.feet.length), simulation);
    drawTorques(startCanvas(this.torques, ROW * simulation.jointNames.length), simulation);
  }

  private drawCurve({ context, width, height, css }: Pen, axis: number, largest: number, now: number): void {
    const x = (time: number) => width * (1 - (now - time) / SECONDS);
    const y = (value: number) => height / 2 - (height / 2 - 2) * Math.min(Math.max(value / largest, -1), 1);
    context.strokeStyle = css("--line");
    context.strokeRect(0, height / 2, width, 0);
    for (const kind of ["commanded", "measured"] as const) {
      context.strokeStyle = css(`--${kind}`);
      context.lineWidth = kind === "commanded" ? 2 : 1.4;
      context.beginPath();
      for (const sample of this.samples) context.lineTo(x(sample.time), y(sample[kind][axis]));
      context.stroke();
    }
  }

  private drawFeet({ context, width, css }: Pen, simulation: Simulation): void {
    const left = 46;
    const perSecond = (width - left) / SECONDS;
    simulation.feet.forEach((foot, i) => {
      context.fillStyle = css("--muted");
      context.fillText(foot.replace(/_?foot$/i, ""), 0, (i + 0.5) * ROW, left - 4);
      context.fillStyle = css("--fill");
      context.fillRect(left, i * ROW + 2, width - left, ROW - 4);
      context.fillStyle = css("--ink");
      for (const sample of this.samples) {
        const x = width - (simulation.time - sample.time) * perSecond;
        const step = simulation.controlPeriod * perSecond;
        if (sample.feet[i] && x - step >= left) context.fillRect(x - step, i * ROW + 2, step + 0.5, ROW - 4);
      }
    });
  }
}

function drawTorques({ context, width, css }: Pen, simulation: Simulation): void {
  const left = 128;
  const half = (width - left) / 2;
  simulation.torqueShares().forEach((share, i) => {
    context.fillStyle = css("--muted");
    context.fillText(simulation.jointNames[i].replace(/_joint$/, ""), 0, (i + 0.5) * ROW, left - 8);
    context.fillStyle = css("--fill");
    context.fillRect(left, i * ROW + 2, width - left, ROW - 4);
    context.fillStyle = css(Math.abs(share) > 0.98 ? "--bad" : "--measured");
    context.fillRect(left + half, i * ROW + 2, half * Math.min(Math.max(share, -1), 1), ROW - 4);
  });
  context.fillStyle = css("--muted");
  context.fillRect(left + half - 0.5, 0, 1, ROW * simulation.jointNames.length);
}
