// Run an exported policy: from readings in SI units to joint targets, as deploy/onnx_policy.py does on a robot.

import { Network } from "./network";
import { readModel, type Model, type Tensor } from "./onnx";

export type Command = [vx: number, vy: number, yawRate: number]; // [m/s], [m/s], [rad/s]
export type Readings = Record<string, ArrayLike<number>>;

/** What is known of a policy; the names are those of policy.json. */
export interface Description {
  task: string;
  inputs: Record<string, number[]>;
  observations: { name: string; size: number; scale: number; history: number }[];
  joint_names: string[];
  default_joint_pos: number[];
  action_scale: number | number[];
  action_clip: number;
  stiffness: number[];
  damping: number[];
  torque_limits: number[];
  target_limits: number[][];
  command_ranges: number[][];
  commands: {
    velocity?: { max_lin_acc?: number; max_yaw_acc?: number };
    gait_clock?: { period?: number; dead_zone?: number };
  };
  control_period: number;
  input_limits: Record<string, number>;
  actuator: { type: string; stall_torque?: number[]; no_load_speed?: number[] };
  simulation: { standing_height: number; contact_links?: string[]; contact_force?: number; max_tilt?: number };
}

const LISTS = ["default_joint_pos", "stiffness", "damping", "torque_limits"] as const;
const MAX_HELD = 5; // calls in a row without usable readings, in which the last targets are returned

function isNumbers(value: unknown, count: number): value is number[] {
  return Array.isArray(value) && value.length === count && value.every((each) => Number.isFinite(each));
}

function require(condition: boolean, field: string, wanted: string): void {
  if (!condition) throw new Error(`${field} of the policy is not ${wanted}; export the policy again`);
}

/** Return the description in an ONNX file; one that is not complete is an error that names the field. */
export function readDescription(model: Model): Description {
  const entries: Record<string, any> = Object.create(null);
  for (const [name, text] of model.metadata) {
    try {
      entries[name] = JSON.parse(text);
    } catch {
      continue; // entries of other programs may have any content
    }
  }
  require([undefined, 1, 2].includes(entries.format), "format", "1 or 2");
  const names = entries.joint_names;
  require(Array.isArray(names) && names.length > 0 && names.every((each) => typeof each === "string"),
    "joint_names", "a list of names");
  for (const name of LISTS) require(isNumbers(entries[name], names.length), name, "one finite number for each joint");
  const { action_scale: scale, observations, target_limits: targets, command_ranges: ranges } = entries;
  require(Number.isFinite(scale) || isNumbers(scale, names.length), "action_scale", "a finite number");
  for (const name of ["action_clip", "control_period"]) {
    require(Number.isFinite(entries[name]) && entries[name] > 0, name, "a positive number");
  }
  const pairs = (value: unknown, count: number) =>
    Array.isArray(value) && value.length === count && value.every((each) => isNumbers(each, 2));
  require(pairs(targets, names.length), "target_limits", "two numbers for each joint");
  require(pairs(ranges, 3), "command_ranges", "three ranges");
  const isTerm = (term: any) =>
    typeof term?.name === "string" && [term.size, term.scale, term.history].every((each) => Number.isFinite(each));
  require(Array.isArray(observations) && observations.every(isTerm), "observations", "a list of terms");
  const isPlain = observations.every((term: any) => term.clip == null) && entries.observation_clip == null;
  require(isPlain && (entries.history_order ?? "term") === "term", "observations", "without clipping and term by term");
  const size = observations.reduce((sum: number, term: any) => sum + term.size * term.history, 0);
  const shapes = entries.inputs ?? {};
  require(model.inputs.every((name) => Array.isArray(shapes[name]) && shapes[name].every(Number.isInteger)),
    "inputs", "a shape for each input");
  require(shapes.obs?.[1] === size, "observations", `as long as the input of the network, ${shapes.obs?.[1]}`);
  const { max_tilt = Math.PI, ...simulation } = entries.simulation ?? {};
  require(Number.isFinite(simulation.standing_height) && Number.isFinite(max_tilt), "simulation", "complete");
  const actuator = entries.actuator ?? { type: "pd" };
  const motor = actuator.type === "dc_motor";
  require(actuator.type === "pd" || (motor && [actuator.stall_torque, actuator.no_load_speed].every((each) =>
    isNumbers(each, names.length))), "actuator", "pd or dc_motor");
  return {
    ...(entries as Description),
    commands: entries.commands ?? {},
    input_limits: entries.input_limits ?? {},
    simulation: { ...simulation, max_tilt },
    actuator,
  };
}

/** Turn a vector from the world frame into the frame of a body with the orientation w x y z. */
export function toBase([w, ...axis]: ArrayLike<number> & Iterable<number>, vector: number[]): number[] {
  const cross = (a: number[], b: number[]) => [0, 1, 2].map((i) => {
    const [j, k] = [(i + 1) % 3, (i + 2) % 3];
    return a[j] * b[k] - a[k] * b[j];
  });
  const twice = cross(axis, vector).map((each) => 2 * each);
  const turned = cross(axis, twice);
  return vector.map((each, i) => each - w * twice[i] + turned[i]);
}

/** A network with its description, its memory, and what it needs of the steps before. */
export class Policy {
  readonly description: Description;
  readonly commandRange: number[][]; // of each of the three numbers; that of the training, and zero
  command: number[] = []; // that the network reads
  /** Why the last readings were not usable; "" if they were. */
  problem = "";
  private network: Network;
  private action: number[] = [];
  private past: number[][][] = []; // of each term, the last values of its history
  private memories: Tensor[] = [];
  private targets: number[] = [];
  private time = 0; // of the gait clock [s]
  private held = 0;

  constructor(onnx: Uint8Array) {
    const model = readModel(onnx);
    this.description = readDescription(model);
    this.network = new Network(model);
    this.commandRange = this.description.command_ranges.map(([low, high]) => [Math.min(low, 0), Math.max(high, 0)]);
    this.reset();
  }

  /** Start an episode. */
  reset(): void {
    const { default_joint_pos, inputs, observations } = this.description;
    this.action = default_joint_pos.map(() => 0);
    this.targets = [...default_joint_pos];
    this.past = observations.map(() => []);
    this.command = [0, 0, 0];
    this.time = this.held = 0;
    this.problem = "";
    this.memories = this.network.inputs.slice(1).map((name) => ({
      dims: inputs[name],
      data: new Float64Array(inputs[name].reduce((product, dim) => product * dim, 1)),
    }));
  }

  get isStopped(): boolean {
    return this.held > MAX_HELD;
  }

  /** Return joint targets [rad]; after too many readings that are not usable the policy is stopped. */
  step(wanted: Command, readings: Readings): number[] {
    try {
      if (!this.isStopped) {
        this.advance(wanted, readings);
        this.held = 0;
        this.problem = "";
      }
    } catch (error) {
      this.held++;
      this.problem = (error as Error).message;
    }
    this.time += this.description.control_period;
    return this.targets;
  }

  private advance(wanted: Command, readings: Readings): void {
    const { action_clip: clip, action_scale: scale, default_joint_pos, target_limits } = this.description;
    const command = this.limited(wanted);
    const clock = this.clock(command);
    const newest = this.description.observations.map((term) => {
      const own: Readings = { command, action: this.action, gait_clock: clock };
      return this.scaled(term, own[term.name] ?? readings[term.name]);
    });
    const histories = this.description.observations.map(({ history }, i) => {
      const before = this.past[i].length ? this.past[i] : Array(history).fill(newest[i]);
      return [...before.slice(1), newest[i]];
    });
    const obs = Float64Array.from(histories.flat(2));
    const [actions, ...memories] = this.network.run([{ dims: [1, obs.length], data: obs }, ...this.memories]);
    if (actions.data.length !== default_joint_pos.length || !actions.data.every(Number.isFinite)) {
      throw new Error(`the network's actions are not ${default_joint_pos.length} finite numbers`);
    }
    this.action = [...actions.data].map((each) => Math.min(Math.max(each, -clip), clip));
    this.targets = this.action.map((each, i) => {
      const target = default_joint_pos[i] + (typeof scale === "number" ? scale : scale[i]) * each;
      return Math.min(Math.max(target, target_limits[i][0]), target_limits[i][1]);
    });
    this.memories = memories;
    this.command = command;
    this.past = histories;
  }

  /** Return the command that the network reads next: within the range of the training, with limited changes. */
  private limited(wanted: Command): number[] {
    const { max_lin_acc: lin = 0, max_yaw_acc: yaw = 0 } = this.description.commands.velocity ?? {};
    return wanted.map((each, i) => {
      const target = Math.min(Math.max(each, this.commandRange[i][0]), this.commandRange[i][1]);
      const change = (i < 2 ? lin : yaw) * this.description.control_period || Infinity;
      return this.command[i] + Math.min(Math.max(target - this.command[i], -change), change);
    });
  }

  /** Return sine and cosine of the gait's phase, or zeros for a command to stand. */
  private clock(command: number[]): number[] {
    const { period = 1, dead_zone = 0 } = this.description.commands.gait_clock ?? {};
    const angle = (2 * Math.PI * this.time) / period;
    return Math.hypot(...command) > dead_zone ? [Math.sin(angle), Math.cos(angle)] : [0, 0];
  }

  private scaled(term: Description["observations"][number], reading: ArrayLike<number> | undefined): number[] {
    const { input_limits: limits, default_joint_pos } = this.description;
    if (!reading) throw new Error(`the page has no observation ${term.name}`);
    const values = Array.from(reading, (each, i) => each - (term.name === "joint_pos" ? default_joint_pos[i] : 0));
    if (values.length !== term.size || !values.every(Number.isFinite)) throw new Error(`${term.name} is not finite`);
    const [largest, largestScaled] = [limits[term.name] ?? Infinity, limits.observation ?? Infinity];
    if (values.some((each) => Math.abs(each) > largest || Math.abs(each * term.scale) > largestScaled)) {
      throw new Error(`${term.name} is larger than any in training`);
    }
    return values.map((each) => each * term.scale);
  }
}
