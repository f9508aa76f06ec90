// Simulate one robot with its policy, under the conditions that a user chooses.

import { loadModel, unpack, type MjData, type MjModel, type Mujoco } from "./mujoco";
import type { PageGround, PageRobot } from "./page_data";
import { Policy, toBase, type Command, type Readings } from "./policy";
import type { Drawn } from "./scene";

/** What a user can change. */
export interface Conditions {
  friction: number; // sliding friction of robot and ground
  payload: number; // mass added to the trunk [kg]
  strength: number; // factor on all torques
  delay: number; // of joint targets [ms]
  noise: number; // factor on the sensor noise of the training
  slope: number; // uphill along x [deg]
}

const GRAVITY = 9.81; // [m/s^2]
const START_TIME = 1; // at the start of a step [s]; MuJoCo resets a robot that diverges to time zero
const FALLEN = 1.2; // time that a robot lies before it starts again [s]
const EDGE = 1; // distance from the edge of the ground at which it starts again [m]
const SCAN = { length: 1.6, width: 1.0, rows: 17, columns: 11 }; // points of the height scan

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);

/** Heights on a grid; each cell consists of two triangles that meet at its diagonal from low x, y to high x, y. */
export class Ground {
  readonly low: number;
  readonly rise: number;

  constructor(
    readonly shape: PageGround,
    readonly heights: Float32Array, // [points along x, points along y] [m]
  ) {
    let [low, high] = [Infinity, -Infinity];
    for (const height of heights) [low, high] = [Math.min(low, height), Math.max(high, height)];
    if (heights.length !== shape.rows * shape.columns || !Number.isFinite(high - low)) {
      throw new Error(`the ground has ${heights.length} heights; write the page again`);
    }
    [this.low, this.rise] = [low, Math.max(high - low, 1e-3)];
  }

  heightAt(x: number, y: number): number {
    const { rows, columns, cell, origin } = this.shape;
    const [u, v] = [clamp((x - origin[0]) / cell, 0, rows - 1.001), clamp((y - origin[1]) / cell, 0, columns - 1.001)];
    const [i, j] = [Math.floor(u), Math.floor(v)];
    const [first, beside, third] = [[0, 0], u - i >= v - j ? [1, 0] : [0, 1], [1, 1]].map(
      ([di, dj]) => this.heights[(i + di) * columns + j + dj],
    );
    const [larger, smaller] = [Math.max(u - i, v - j), Math.min(u - i, v - j)];
    return first + larger * (beside - first) + smaller * (third - beside);
  }

  isAtEdge(x: number, y: number): boolean {
    const { rows, columns, cell, origin } = this.shape;
    const [u, v] = [x - origin[0], y - origin[1]];
    return Math.min(u, v, (rows - 1) * cell - u, (columns - 1) * cell - v) < EDGE;
  }
}

/** A robot in MuJoCo, moved by a policy. */
export class Simulation implements Drawn {
  readonly model: MjModel;
  readonly data: MjData;
  readonly ground: Ground | null;
  readonly jointNames: string[];
  readonly feet: string[];
  readonly nominal: Conditions;
  conditions: Conditions;
  start = 0; // index of the place to start at
  falls = 0;
  time = 0; // [s] of the simulation
  sinceFall = 0; // [s]
  fallen = 0; // [s] that the robot has still to lie; 0 while it walks
  computing = 0; // time that the last control step took [ms]

  private bodyNames: Map<string, number>;
  private sensors: Map<string, number>; // first number of each sensor
  private positions: Int32Array; // of the joints, in qpos
  private velocities: Int32Array; // and in qvel
  private trunk: number;
  private trunkMass: number;
  private trunkInertia: number[];
  private pastTargets: number[][] = []; // the newest first
  private diverged = false; // in the last control step

  static async load(mujoco: Mujoco, robot: PageRobot): Promise<Simulation> {
    const policy = new Policy(await unpack(robot.onnx));
    let ground: Ground | null = null;
    if (robot.ground) ground = new Ground(robot.ground, new Float32Array((await unpack(robot.ground.heights)).buffer));
    return new Simulation(mujoco, robot, policy, await loadModel(mujoco, robot), ground);
  }

  private constructor(
    private mujoco: Mujoco,
    readonly robot: PageRobot,
    readonly policy: Policy,
    model: MjModel,
    ground: Ground | null,
  ) {
    this.model = model;
    this.data = new mujoco.MjData(model);
    this.ground = ground;
    const { mjOBJ_JOINT, mjOBJ_SENSOR, mjOBJ_BODY } = mujoco.mjtObj;
    const nameOf = (kind: { value: number }, i: number): string => mujoco.mj_id2name(model, kind.value, i);
    const joints = Array.from({ length: model.nu }, (_, i) => model.actuator_trnid[2 * i] as number);
    this.jointNames = joints.map((i) => nameOf(mjOBJ_JOINT, i));
    if (this.jointNames.join() !== policy.description.joint_names.join()) {
      throw new Error(`the robot has the joints ${this.jointNames}; the policy moves ${policy.description.joint_names}`);
    }
    this.positions = Int32Array.from(joints, (i) => model.jnt_qposadr[i]);
    this.velocities = Int32Array.from(joints, (i) => model.jnt_dofadr[i]);
    const sensors = Array.from({ length: model.nsensor }, (_, i) => nameOf(mjOBJ_SENSOR, i));
    this.sensors = new Map(sensors.map((name, i) => [name, model.sensor_adr[i]]));
    this.feet = sensors.filter((name) => name.endsWith("_pos")).map((name) => name.slice(0, -4));
    this.bodyNames = new Map(Array.from({ length: model.nbody }, (_, i) => [nameOf(mjOBJ_BODY, i), i]));
    this.trunk = model.jnt_bodyid[0];
    this.trunkMass = model.body_mass[this.trunk];
    this.trunkInertia = [0, 1, 2].map((i) => model.body_inertia[3 * this.trunk + i]);
    this.prepareModel();
    const friction = model.npair ? model.pair_friction[0] : model.geom_friction[0];
    this.nominal = { friction, payload: 0, strength: 1, delay: 0, noise: 0, slope: 0 };
    this.conditions = { ...this.nominal };
    this.setConditions({});
    this.reset();
  }

  /** Set what the training sets in the model file's model. */
  private prepareModel(): void {
    const { model, robot, ground } = this;
    model.opt.timestep = robot.timestep;
    if (robot.contact_impedance) {
      for (const field of [model.geom_solimp, model.pair_solimp]) {
        for (let i = 0; i < field.length; i += 5) field[i] = field[i + 1] = robot.contact_impedance;
      }
      model.opt.iterations = Math.max(model.opt.iterations, 50);
    }
    this.velocities.forEach((dof, i) => {
      if (robot.armature.length) model.dof_armature[dof] = robot.armature[i];
      if (robot.joint_friction.length) model.dof_frictionloss[dof] = robot.joint_friction[i];
    });
    if (ground) {
      const { rows, columns } = ground.shape; // MuJoCo's rows are along y
      model.hfield_data.set(
        Float32Array.from({ length: rows * columns }, (_, i) => {
          const [y, x] = [Math.floor(i / rows), i % rows];
          return (ground.heights[x * columns + y] - ground.low) / ground.rise;
        }),
      );
    }
  }

  /** Number of a body by its name; -1 for a name that no body has. */
  bodyId(name: string): number {
    return this.bodyNames.get(name) ?? -1;
  }

  /** Return the name of a body. */
  bodyName(id: number): string {
    return [...this.bodyNames].find(([, each]) => each === id)?.[0] ?? "";
  }

  get controlPeriod(): number {
    return this.policy.description.control_period;
  }

  get slope(): number {
    return this.conditions.slope;
  }

  get standingHeight(): number {
    return this.policy.description.simulation.standing_height;
  }

  get command(): number[] {
    return this.policy.command;
  }

  get scanned(): number[][] {
    return this.robot.scan_height === null ? [] : this.scan();
  }

  /** Change some of the conditions. */
  setConditions(changes: Partial<Conditions>): void {
    this.conditions = { ...this.conditions, ...changes };
    const { model, data } = this;
    const { friction, payload, slope } = this.conditions;
    for (let i = 0; i < model.ngeom; i++) model.geom_friction[3 * i] = friction;
    for (let i = 0; i < model.npair; i++) model.pair_friction.fill(friction, 5 * i, 5 * i + 2);
    const scale = Math.max(1 + payload / this.trunkMass, 0.1);
    model.body_mass[this.trunk] = this.trunkMass * scale;
    this.trunkInertia.forEach((each, i) => (model.body_inertia[3 * this.trunk + i] = each * scale));
    const angle = (slope * Math.PI) / 180;
    model.opt.gravity.set([-GRAVITY * Math.sin(angle), 0, -GRAVITY * Math.cos(angle)]);
    this.writeDrives();
    const state = [data.qpos.slice(), data.qvel.slice()];
    this.mujoco.mj_setConst(model, data); // which changes the state
    [data.qpos, data.qvel].forEach((field, i) => field.set(state[i]));
    this.mujoco.mj_forward(model, data);
  }

  /** Write gains and limits of the motors; without stiffness while the robot lies. */
  private writeDrives(): void {
    const { stiffness, damping, torque_limits: limits } = this.policy.description;
    const { actuator_gainprm: gain, actuator_biasprm: bias, actuator_forcerange: range, nu } = this.model;
    const [gains, biases] = [gain.length / nu, bias.length / nu];
    const { strength } = this.conditions;
    for (let i = 0; i < nu; i++) {
      const factor = this.fallen > 0 ? 0 : stiffness[i] * strength;
      gain[gains * i] = this.isMotor ? strength : factor;
      bias[biases * i + 1] = this.isMotor ? 0 : -factor;
      bias[biases * i + 2] = this.isMotor ? 0 : -damping[i] * strength;
      range.set([-limits[i] * strength, limits[i] * strength], 2 * i);
    }
  }

  private get isMotor(): boolean {
    return this.policy.description.actuator.type === "dc_motor";
  }

  /** Put the robot into its standing pose at the chosen start. */
  reset(): void {
    const { mujoco, model, data, policy } = this;
    mujoco.mj_resetData(model, data);
    const [x, y, z] = this.robot.ground?.starts[this.start]?.position ?? [0, 0, 0];
    data.qpos.set([x, y, z + this.standingHeight], 0);
    this.positions.forEach((at, i) => (data.qpos[at] = policy.description.default_joint_pos[i]));
    this.fallen = this.sinceFall = 0;
    this.writeDrives();
    mujoco.mj_forward(model, data);
    policy.reset();
    this.pastTargets = [];
  }

  /** Simulate one control step. */
  step(command: Command): void {
    const began = performance.now();
    if (this.fallen > 0) this.lie();
    else this.walk(command);
    this.time += this.controlPeriod;
    this.computing = performance.now() - began;
  }

  private walk(command: Command): void {
    this.simulate(this.policy.step(command, this.readings()));
    this.sinceFall += this.controlPeriod;
    if (this.diverged || this.policy.isStopped || this.isDown()) {
      this.falls++;
      this.sinceFall = 0;
      this.fallen = this.diverged ? this.controlPeriod : FALLEN;
      this.writeDrives();
    } else if (this.ground?.isAtEdge(this.data.qpos[0], this.data.qpos[1])) {
      this.reset();
    }
  }

  private lie(): void {
    this.simulate(this.policy.description.default_joint_pos);
    this.fallen -= this.controlPeriod;
    if (this.fallen <= 0) this.reset();
  }

  /** Simulate the physics steps of one control step with joint targets [rad]. */
  simulate(targets: number[]): void {
    const { model, data, mujoco, conditions, robot } = this;
    const substeps = robot.substeps;
    const delay = Math.round(conditions.delay / 1000 / robot.timestep); // in physics steps
    this.pastTargets = [targets, ...this.pastTargets].slice(0, 2 + Math.ceil(delay / substeps));
    data.time = START_TIME;
    const flags = model.opt.disableflags;
    for (let i = 0; i < substeps; i++) {
      model.opt.disableflags = i < substeps - 1 ? flags | mujoco.mjtDisableBit.mjDSBL_SENSOR.value : flags;
      const ago = Math.max(0, Math.ceil((delay - i) / substeps));
      const arrived = this.pastTargets[Math.min(ago, this.pastTargets.length - 1)];
      data.ctrl.set(this.isMotor ? this.motorTorques(arrived) : arrived);
      mujoco.mj_step(model, data);
    }
    this.diverged = data.time < START_TIME + (substeps - 0.5) * robot.timestep;
  }

  /** Return the torques of DC motors [N m], which their speeds limit. */
  private motorTorques(targets: number[]): number[] {
    const { actuator, stiffness, damping } = this.policy.description;
    const { qpos, qvel } = this.data;
    const gain = this.fallen > 0 ? 0 : 1;
    return targets.map((target, i) => {
      const velocity = qvel[this.velocities[i]];
      const torque = gain * stiffness[i] * (target - qpos[this.positions[i]]) - damping[i] * velocity;
      const [stall, share] = [actuator.stall_torque![i], velocity / actuator.no_load_speed![i]];
      return clamp(torque, stall * (-1 - share), stall * (1 - share));
    });
  }

  /** What the sensors of the robot read, with noise. */
  private readings(): Readings {
    const { data, conditions, robot } = this;
    const { qpos, qvel } = data;
    const quat = this.orientation();
    const exact: Record<string, number[]> = {
      base_lin_vel: this.velocity(),
      base_ang_vel: [...qvel.subarray(3, 6)],
      gravity: toBase(quat, [0, 0, -1]),
      joint_pos: Array.from(this.positions, (at) => qpos[at]),
      joint_vel: Array.from(this.velocities, (at) => qvel[at]),
      friction: [conditions.friction],
      payload: [conditions.payload],
      base_height: [this.height()],
    };
    if (robot.scan_height !== null) exact.height_scan = this.scan().map(([, , z]) => this.aboveScan(z));
    if (!conditions.noise) return exact;
    const noisy = Object.entries(exact).map(([name, values]): [string, number[]] => {
      const width = conditions.noise * (robot.noise[name] ?? 0);
      return [name, values.map((each) => each + width * (2 * Math.random() - 1))];
    });
    return Object.fromEntries(noisy);
  }

  private aboveScan(ground: number): number {
    return clamp(this.data.qpos[2] - ground - this.robot.scan_height!, -1, 1);
  }

  /** Orientation of the trunk w x y z in a frame whose z axis is vertical, also on a slope. */
  private orientation(): number[] {
    const half = (-this.conditions.slope * Math.PI) / 360;
    const [c, s] = [Math.cos(half), Math.sin(half)]; // a turn about y
    const [w, x, y, z] = this.data.qpos.subarray(3, 7);
    return [c * w - s * y, c * x + s * z, c * y + s * w, c * z - s * x];
  }

  /** Velocity of the trunk in its own frame [m/s]. */
  private velocity(): number[] {
    return toBase(this.data.qpos.subarray(3, 7), [...this.data.qvel.subarray(0, 3)]);
  }

  /** Measured vx, vy [m/s] and yaw rate [rad/s]. */
  measured(): Command {
    const [vx, vy] = this.velocity();
    return [vx, vy, this.data.qvel[5]];
  }

  /** Height of the trunk above the ground [m]. */
  height(): number {
    const [x, y, z] = this.data.qpos;
    return z - (this.ground?.heightAt(x, y) ?? 0);
  }

  /** Points of the height scan on the ground, from the rear to the front and for each x from the right to the left. */
  scan(): [number, number, number][] {
    const [px, py, , w, x, y, z] = this.data.qpos;
    const [hx, hy] = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z)];
    const norm = Math.hypot(hx, hy) || 1;
    const [c, s] = [hx / norm, hy / norm];
    return Array.from({ length: SCAN.rows * SCAN.columns }, (_, i) => {
      const dx = SCAN.length * (Math.floor(i / SCAN.columns) / (SCAN.rows - 1) - 0.5);
      const dy = SCAN.width * ((i % SCAN.columns) / (SCAN.columns - 1) - 0.5);
      const [gx, gy] = [px + c * dx - s * dy, py + s * dx + c * dy];
      return [gx, gy, this.ground?.heightAt(gx, gy) ?? 0];
    });
  }

  /** Norm of the force of a link on the ground [N]. */
  contactForce(link: string): number {
    const at = this.sensors.get(`${link}_contact`);
    return at === undefined ? 0 : Math.hypot(...this.data.sensordata.subarray(at, at + 3));
  }

  /** Torque of each joint as a share of its limit, from -1 to 1. */
  torqueShares(): number[] {
    const { torque_limits: limits } = this.policy.description;
    return limits.map((limit, i) => (limit > 0 ? this.data.actuator_force[i] / limit : 0));
  }

  private isDown(): boolean {
    const { contact_links = [], contact_force = 0, max_tilt = Math.PI } = this.policy.description.simulation;
    const cosine = -toBase(this.orientation(), [0, 0, -1])[2];
    return cosine < Math.cos(max_tilt) || contact_links.some((link) => this.contactForce(link) > contact_force);
  }

  /** Change the velocity of the trunk [m/s], along x and y of the ground. */
  push(vx: number, vy: number): void {
    this.data.qvel[0] += vx;
    this.data.qvel[1] += vy;
  }

  /** Pull a point of a body, given in the body's frame [m], to a point of the world; null ends it. */
  pull(body: number, point: number[], target: number[] | null): void {
    const { data, model } = this;
    data.xfrc_applied.fill(0);
    if (!target) return;
    const place = this.pointOf(body, point);
    const stiffness = 40 * (model.body_subtreemass[this.trunk] as number); // [N/m]
    const limit = 25 * (model.body_subtreemass[this.trunk] as number); // [N]
    const force = target.map((each, i) => stiffness * (each - place[i]));
    const share = Math.min(1, limit / (Math.hypot(...force) || 1));
    const [fx, fy, fz] = force.map((each) => share * each);
    const [rx, ry, rz] = place.map((each, i) => each - data.xipos[3 * body + i]);
    data.xfrc_applied.set([fx, fy, fz, ry * fz - rz * fy, rz * fx - rx * fz, rx * fy - ry * fx], 6 * body);
  }

  /** World coordinates of a point of a body [m]. */
  pointOf(body: number, point: number[]): number[] {
    const { xpos, xmat } = this.data;
    return [0, 1, 2].map(
      (i) => xpos[3 * body + i] + point.reduce((sum, each, j) => sum + xmat[9 * body + 3 * i + j] * each, 0),
    );
  }

  delete(): void {
    this.data.delete();
    this.model.delete();
  }
}
