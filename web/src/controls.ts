// Elements that pages have in common: sliders, sections of the panel, the card and messages.

import type { PageFact } from "./page_data";

const PHONE = 760; // largest width of a page whose sections can be closed [px]

export interface SliderOptions {
  label: string;
  unit: string;
  range: number[];
  step: number;
}

export const element = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

export function message(text: string, isError = false): void {
  element("message").textContent = text;
  element("message").classList.toggle("error", isError);
}

/** A slider with its label and its value. */
export class Slider {
  private input = document.createElement("input");
  private output = document.createElement("output");
  private row = document.createElement("div");
  private nominal = 0;

  constructor(
    container: HTMLElement,
    private options: SliderOptions,
    private changed: () => void,
  ) {
    const label = document.createElement("label");
    label.textContent = options.label;
    label.htmlFor = this.input.id = `${container.id}-${container.childElementCount}`;
    this.row.className = "slider";
    this.row.append(label, this.output, this.input);
    this.input.type = "range";
    this.input.addEventListener("input", () => {
      this.show();
      this.changed();
    });
    this.output.setAttribute("aria-live", "off");
    container.append(this.row);
    this.setRange(options.range);
  }

  setRange([low, high]: number[]): void {
    this.row.hidden = low === high;
    Object.assign(this.input, { min: `${low}`, max: `${high}`, step: `${this.options.step}` });
  }

  setNominal(value: number): void {
    this.nominal = value;
    this.value = value;
  }

  get value(): number {
    return Number(this.input.value);
  }

  set value(value: number) {
    this.input.value = `${value}`;
    this.show();
  }

  get isChanged(): boolean {
    return Math.abs(this.value - this.nominal) > this.options.step / 2;
  }

  private show(): void {
    const { step, unit } = this.options;
    this.output.value = `${this.value.toFixed(step < 1 ? 2 : 0)} ${unit}`.trim();
    this.row.classList.toggle("changed", this.isChanged);
  }
}

/** Let the buttons of the panel open its sections. */
export function watchSections(): void {
  const buttons = [...document.querySelectorAll<HTMLButtonElement>("#panel nav button")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const each of buttons) {
        const closes = innerWidth <= PHONE && each.getAttribute("aria-expanded") === "true";
        const isOpen = each === button && !closes;
        each.setAttribute("aria-expanded", `${isOpen}`);
        element(each.dataset.section!).classList.toggle("open", isOpen);
      }
    });
  }
}

/** Show the facts of what the page shows. */
export function showCard(facts: PageFact[]): void {
  const card = facts.map(({ name, value }) => {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    [term.textContent, text.textContent] = [name, value];
    return [term, text];
  });
  element("card").replaceChildren(...card.flat());
}
