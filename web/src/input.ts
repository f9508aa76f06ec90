// Commands from keyboard, gamepad and touch: each gives shares from -1 to 1 of the range of the training.

import type { Command } from "./policy";

const KEYS: Record<string, [axis: number, share: number]> = {
  KeyW: [0, 1], ArrowUp: [0, 1], KeyS: [0, -1], ArrowDown: [0, -1],
  KeyQ: [1, 1], KeyE: [1, -1],
  KeyA: [2, 1], ArrowLeft: [2, 1], KeyD: [2, -1], ArrowRight: [2, -1],
};
const DEAD_ZONE = 0.12; // of a gamepad's sticks
const BUTTONS = ["push", "reset", "camera", "", "", "", "", "", "", "pause"]; // of a standard gamepad
const SHORTCUTS: Record<string, string> = { Space: "pause", Period: "step", KeyR: "reset", KeyP: "push", KeyC: "camera" };

const beyondDeadZone = (value: number) =>
  Math.abs(value) < DEAD_ZONE ? 0 : (Math.sign(value) * (Math.abs(value) - DEAD_ZONE)) / (1 - DEAD_ZONE);

/** Return the first gamepad; there is none in a frame that may not use them. */
function gamepad(): Gamepad | undefined {
  try {
    return navigator.getGamepads().find((each) => each?.connected) ?? undefined;
  } catch {
    return undefined;
  }
}

/** What a user wants by keys, gamepad and touch. */
export class Input {
  private keys = new Set<string>();
  private sticks = new Map<HTMLElement, [x: number, y: number]>();
  private pressed = new Set<number>(); // buttons of the gamepad

  constructor(
    private left: HTMLElement,
    private right: HTMLElement,
    private act: (action: string) => void,
  ) {
    addEventListener("keydown", (event) => this.onKey(event));
    addEventListener("keyup", (event) => this.keys.delete(event.code));
    addEventListener("blur", () => this.keys.clear());
    for (const stick of [left, right]) this.watch(stick);
  }

  private onKey(event: KeyboardEvent): void {
    const focus = (event.target as HTMLElement).tagName;
    const isTaken = focus === "SELECT" || (focus === "INPUT" && event.code.startsWith("Arrow"));
    if (isTaken || event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = ["BUTTON", "SUMMARY", "INPUT"].includes(focus);
    if (event.code in KEYS) {
      this.keys.add(event.code);
      event.preventDefault();
    } else if (event.code in SHORTCUTS && !event.repeat && !(onButton && event.code === "Space")) {
      this.act(SHORTCUTS[event.code]);
      event.preventDefault();
    }
  }

  private watch(stick: HTMLElement): void {
    const knob = stick.firstElementChild as HTMLElement;
    const move = (event: PointerEvent) => {
      const box = stick.getBoundingClientRect();
      const radius = box.width / 2;
      const [x, y] = [event.clientX - box.left - radius, event.clientY - box.top - radius];
      const share = Math.min(1, radius / (Math.hypot(x, y) || 1)) / radius;
      this.sticks.set(stick, [x * share, y * share]);
      knob.style.transform = `translate(${x * share * 34}px, ${y * share * 34}px)`;
    };
    stick.addEventListener("pointerdown", (event) => {
      stick.setPointerCapture(event.pointerId);
      move(event);
    });
    stick.addEventListener("pointermove", (event) => {
      if (stick.hasPointerCapture(event.pointerId)) move(event);
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      stick.addEventListener(end, () => {
        this.sticks.delete(stick);
        knob.style.transform = "";
      });
    }
  }

  /** Return the shares of vx, vy and yaw rate. */
  read(): Command {
    const shares: Command = [0, 0, 0];
    for (const key of this.keys) shares[KEYS[key][0]] += KEYS[key][1];
    const [leftX, leftY] = this.sticks.get(this.left) ?? [0, 0];
    const [rightX] = this.sticks.get(this.right) ?? [0, 0];
    shares[0] -= leftY;
    shares[1] -= leftX;
    shares[2] -= rightX;
    const [x = 0, y = 0, turn = 0] = gamepad()?.axes.map(beyondDeadZone) ?? [];
    shares[0] -= y;
    shares[1] -= x;
    shares[2] -= turn;
    return shares.map((share) => Math.min(Math.max(share, -1), 1)) as Command;
  }

  /** Do what the buttons of a gamepad say that are pressed since the last call. */
  readButtons(): void {
    gamepad()?.buttons.forEach((button, i) => {
      if (button.pressed && !this.pressed.has(i) && BUTTONS[i]) this.act(BUTTONS[i]);
      if (button.pressed) this.pressed.add(i);
      else this.pressed.delete(i);
    });
  }
}
