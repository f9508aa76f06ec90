// Play a reference motion: a robot takes the poses of a clip, without physics and policy.

import { Quaternion, Vector3 } from "three";
import { element, showCard, Slider, watchSections } from "./controls";
import { Input } from "./input";
import { loadModel, unpack, type MjData, type MjModel, type Mujoco } from "./mujoco";
import type { PageMotion } from "./page_data";
import { Scene, type Drawn } from "./scene";

const MAX_ELAPSED = 0.25; // between two frames; a page that was hidden longer goes on from where it was [s]
const UP = new Vector3(0, 0, 1);

/** A robot in the pose of a clip at a time. */
class Motion implements Drawn {
  readonly data: MjData;
  readonly ground = null;
  readonly slope = 0;
  readonly command = [0, 0];
  readonly scanned = [];
  readonly standingHeight: number;
  readonly length: number; // of a round [s]
  private numFrames: number;
  private turn: number; // about the vertical in a round [rad]
  private shift: number[]; // a point x, y of a round is at R x + shift in the next one [m]

  static async load(mujoco: Mujoco, motion: PageMotion): Promise<Motion> {
    const model = await loadModel(mujoco, motion);
    return new Motion(mujoco, motion, model, new Float32Array((await unpack(motion.poses)).buffer));
  }

  private constructor(
    private mujoco: Mujoco,
    readonly motion: PageMotion,
    readonly model: MjModel,
    private poses: Float32Array, // [frames, nq]
  ) {
    this.data = new mujoco.MjData(model);
    this.numFrames = poses.length / model.nq;
    if (!Number.isInteger(this.numFrames) || this.numFrames < 2) {
      throw new Error(`the motion has ${poses.length} numbers for ${model.nq} coordinates; write the page again`);
    }
    this.standingHeight = motion.standing_height;
    this.length = (this.numFrames - 1) / motion.fps;
    const [first, last] = [this.pose(0), this.pose(this.numFrames - 1)];
    const change = rotationOf(last).multiply(rotationOf(first).invert());
    this.turn = 2 * Math.atan2(change.z, change.w);
    const [x, y] = turned(first, this.turn);
    this.shift = [last[0] - x, last[1] - y];
  }

  private pose(frame: number): Float32Array {
    return this.poses.subarray(frame * this.model.nq, (frame + 1) * this.model.nq);
  }

  /** Take the pose at a time of the clip [s], after some rounds of a loop. */
  show(time: number, rounds: number): void {
    const place = Math.min(Math.max(time * this.motion.fps, 0), this.numFrames - 1);
    const frame = Math.min(Math.floor(place), this.numFrames - 2);
    const share = place - frame;
    const [before, after] = [this.pose(frame), this.pose(frame + 1)];
    const { qpos } = this.data;
    qpos.set(before.map((value, i) => value + share * (after[i] - value)));
    const rotation = rotationOf(before).slerp(rotationOf(after), share);
    const { x, y, z, w } = rotation.premultiply(new Quaternion().setFromAxisAngle(UP, rounds * this.turn));
    qpos.set([w, x, y, z], 3);
    for (let i = 0; i < rounds; i++) {
      const [px, py] = turned(qpos, this.turn);
      qpos.set([px + this.shift[0], py + this.shift[1]]);
    }
    this.mujoco.mj_kinematics(this.model, this.data);
  }

  height(): number {
    return this.data.qpos[2];
  }

  measured(): number[] {
    return [0, 0];
  }
}

/** Return the rotation of the trunk in a pose. */
function rotationOf([, , , w, x, y, z]: ArrayLike<number> & Iterable<number>): Quaternion {
  return new Quaternion(x, y, z, w).normalize();
}

/** Turn x, y of a pose about the vertical by an angle [rad]. */
function turned([x, y]: ArrayLike<number> & Iterable<number>, angle: number): number[] {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  return [c * x - s * y, s * x + c * y];
}

/** What a user sees and does in the page of a motion. */
export class MotionPage {
  private scene = new Scene(element("view"), element("panel"), 0);
  private input = new Input(element("left-stick"), element("right-stick"), (action) => this.act(action));
  private timeline: Slider;
  private time = 0; // of the clip [s]
  private rounds = 0; // of a loop, since the start
  private isPaused = false;
  private speed = 1;
  private lastFrame = 0; // [ms]

  static async open(mujoco: Mujoco, motion: PageMotion): Promise<MotionPage> {
    return new MotionPage(await Motion.load(mujoco, motion));
  }

  private constructor(private robot: Motion) {
    const { name, fps, card } = robot.motion;
    document.body.classList.add("motion");
    document.title = element("title").textContent = name;
    element("about-title").textContent = "About this motion";
    element("view").ariaLabel = "The robot, in 3D. Drag to turn the camera.";
    showCard(card);
    watchSections();
    const range = [0, robot.length];
    this.timeline = new Slider(element("timeline"), { label: "Time", unit: "s", range, step: 1 / fps }, () => this.scrub());
    for (const action of ["pause", "step", "reset", "camera"]) {
      element(action).addEventListener("click", () => this.act(action));
    }
    element("speed").addEventListener("change", () => (this.speed = Number(element<HTMLSelectElement>("speed").value)));
    this.show(0, 0);
    this.scene.show(robot, false);
  }

  private show(time: number, rounds: number): void {
    [this.time, this.rounds] = [time, rounds];
    this.robot.show(time, rounds);
    this.timeline.setNominal(time);
  }

  /** Show a later time; a loop goes on from where it ends, and another clip starts again. */
  private advance(seconds: number): void {
    const { length, motion } = this.robot;
    const time = this.time + seconds;
    this.show(time % length, motion.loop ? this.rounds + Math.floor(time / length) : 0);
  }

  /** Show the time of the slider, and stay there. */
  private scrub(): void {
    if (!this.isPaused) this.act("pause");
    this.show(this.timeline.value, this.rounds);
  }

  act(action: string): void {
    if (action === "pause") {
      this.isPaused = !this.isPaused;
      element("pause").textContent = this.isPaused ? "Go on" : "Pause";
    } else if (action === "step") {
      if (!this.isPaused) this.act("pause");
      this.advance(1 / this.robot.motion.fps);
    } else if (action === "reset") {
      this.show(0, 0);
    } else if (action === "camera") {
      this.scene.follows = !this.scene.follows;
      element("camera").setAttribute("aria-pressed", `${this.scene.follows}`);
    }
  }

  /** Show a frame, and ask for the next one. */
  frame(now: number): void {
    requestAnimationFrame((next) => this.frame(next));
    const elapsed = Math.min((now - this.lastFrame) / 1000, MAX_ELAPSED);
    this.lastFrame = now;
    this.input.readButtons();
    if (!this.isPaused) this.advance(this.speed * elapsed);
    this.scene.draw(this.robot, []);
  }

  get current(): Motion {
    return this.robot;
  }
}
