// Draw the robot and its ground with three.js. MuJoCo's axes are kept: z points up from the ground.

import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import type { MjData, MjModel } from "./mujoco";
import type { Ground } from "./simulation";

const VISIBLE_GROUPS = 2; // geoms of higher groups are hidden in MuJoCo's viewers too
const PLANE = 60; // size of the plane, which moves with the robot [m]
const SLOW_RATIO = 0.6; // pixels that the processor draws for a pixel of the screen, along each side
const PATCH = 60; // cells along each side of the patches in which a ground is drawn

/** A robot that is drawn. */
export interface Drawn {
  readonly model: MjModel;
  readonly data: MjData;
  readonly ground: Ground | null; // null: a plane
  readonly slope: number; // of the ground, uphill along x [deg]
  readonly standingHeight: number; // of the trunk [m]
  readonly command: number[]; // vx, vy [m/s]
  readonly scanned: number[][]; // points of the height scan; none for a robot without it
  height(): number; // of the trunk above the ground [m]
  measured(): number[]; // vx, vy [m/s]
}

/** A point of a body that a user has grabbed. */
export interface Grip {
  body: number;
  point: number[]; // in the body's frame
  distance: number; // from the camera
}

const color = (name: string) =>
  new THREE.Color(getComputedStyle(document.documentElement).getPropertyValue(name).trim());

/** Whether there is no graphics card: the processor draws, and can draw less. */
const drawsSlowly = !document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });

/** Return a material of a surface; one that shines costs more. */
function surface(look: THREE.MeshLambertMaterialParameters, roughness: number): Surface {
  return drawsSlowly
    ? new THREE.MeshLambertMaterial(look)
    : new THREE.MeshStandardMaterial({ ...look, roughness, metalness: roughness < 1 ? 0.1 : 0 });
}

type Surface = THREE.MeshLambertMaterial | THREE.MeshStandardMaterial;

export class Scene {
  follows = true;
  private renderer: THREE.WebGLRenderer;
  private scene = new THREE.Scene();
  private camera = new THREE.PerspectiveCamera(40, 1, 0.05, 80);
  private controls: OrbitControls;
  private world = new THREE.Group(); // in the frame of the ground, which a slope tilts
  private sun = new THREE.DirectionalLight(0xffffff, 2.4);
  private sky = new THREE.HemisphereLight(0xffffff, 0x8a8f96, 1.7);
  private shapes: { mesh: THREE.Mesh; geom: number; body: number }[] = [];
  private floor: THREE.Mesh | null = null;
  private commanded = arrow();
  private measured = arrow();
  private rope = new THREE.Line(new THREE.BufferGeometry(), new THREE.LineBasicMaterial({ depthTest: false }));
  private scan = new THREE.Points(
    new THREE.BufferGeometry(),
    new THREE.PointsMaterial({ size: 0.025, transparent: true, opacity: 0.8 }),
  );
  private lastPlace = new THREE.Vector3();
  private size = 1; // of the robot [m]

  constructor(
    private canvas: HTMLCanvasElement,
    private panel: HTMLElement,
    private left: number, // width of what is at the left in a wide window [px]
  ) {
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: !drawsSlowly });
    this.renderer.setPixelRatio(drawsSlowly ? SLOW_RATIO : Math.min(devicePixelRatio, 2));
    this.renderer.shadowMap.enabled = true;
    if (drawsSlowly) this.renderer.shadowMap.type = THREE.BasicShadowMap;
    this.camera.up.set(0, 0, 1);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.maxPolarAngle = 1.5;
    this.controls.minDistance = 0.4;
    this.controls.maxDistance = 25;
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.setScalar(drawsSlowly ? 512 : 1024);
    this.sun.shadow.radius = 4;
    this.rope.frustumCulled = this.scan.frustumCulled = false;
    this.scene.add(this.sky, this.world);
    this.world.add(this.sun, this.sun.target, this.commanded.group, this.measured.group, this.rope, this.scan);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.colorScene());
    this.colorScene();
  }

  /** Show another robot on its ground, from where the camera is or from beside the robot. */
  show(robot: Drawn, keepsCamera: boolean): void {
    const isFirst = !this.floor;
    for (const { mesh } of this.shapes) this.remove(mesh);
    if (this.floor) this.remove(this.floor);
    this.shapes = [];
    const { model } = robot;
    for (let geom = 0; geom < model.ngeom; geom++) {
      const body = model.geom_bodyid[geom];
      if (model.geom_group[geom] > VISIBLE_GROUPS || model.body_rootid[body] === 0) continue;
      const geometry = shapeOf(model, geom);
      if (!geometry) continue;
      const [r, g, b, a] = colorOf(model, geom);
      const rgb = new THREE.Color().setRGB(r, g, b, THREE.SRGBColorSpace);
      const material = surface({ color: rgb, transparent: a < 1, opacity: a }, 0.55);
      const mesh = new THREE.Mesh(geometry, material);
      mesh.castShadow = mesh.receiveShadow = true;
      mesh.matrixAutoUpdate = false;
      this.shapes.push({ mesh, geom, body });
      this.world.add(mesh);
    }
    this.floor = robot.ground ? groundMesh(robot.ground) : planeMesh();
    this.world.add(this.floor);
    this.size = Math.max(0.4, robot.standingHeight);
    const reach = 3 * this.size;
    Object.assign(this.sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, far: 12 * this.size });
    this.sun.shadow.camera.updateProjectionMatrix();
    this.colorScene();
    if (isFirst || !keepsCamera) this.lookAt(robot);
  }

  /** Put the camera beside the robot. */
  lookAt(robot: Drawn): void {
    this.draw(robot, []);
    const place = this.placeOf(robot);
    this.controls.target.copy(place);
    const reach = (1.3 * this.size + 0.35) * Math.max(1, 0.85 / this.camera.aspect); // farther on a phone
    this.camera.position.copy(place).add(new THREE.Vector3(-1.1, -2.0, 0.75).multiplyScalar(reach));
    this.lastPlace.copy(place);
  }

  private placeOf(robot: Drawn): THREE.Vector3 {
    const [x, y, z] = robot.data.qpos;
    const height = z - robot.height() + 0.75 * robot.standingHeight;
    return this.world.localToWorld(new THREE.Vector3(x, y, height));
  }

  /** Draw one frame; a rope with two ends shows what pulls the robot. */
  draw(robot: Drawn, rope: number[][]): void {
    const { data } = robot;
    this.world.rotation.y = (-robot.slope * Math.PI) / 180;
    this.world.updateMatrixWorld();
    const { geom_xpos: xpos, geom_xmat: xmat } = data;
    for (const { mesh, geom } of this.shapes) {
      const [p, m] = [3 * geom, 9 * geom];
      mesh.matrix.set(
        xmat[m], xmat[m + 1], xmat[m + 2], xpos[p],
        xmat[m + 3], xmat[m + 4], xmat[m + 5], xpos[p + 1],
        xmat[m + 6], xmat[m + 7], xmat[m + 8], xpos[p + 2],
        0, 0, 0, 1,
      );
    }
    const [x, y, z, w, qx, qy, qz] = data.qpos;
    if (this.floor && !robot.ground) this.floor.position.set(Math.round(x / 2) * 2, Math.round(y / 2) * 2, 0);
    const ground = z - robot.height();
    this.sun.position.set(x - 2 * this.size, y - 1.6 * this.size, ground + 5 * this.size);
    this.sun.target.position.set(x, y, ground);
    const yaw = Math.atan2(2 * (qx * qy + w * qz), 1 - 2 * (qy * qy + qz * qz));
    const top = z + 0.8 * this.size;
    this.point(this.commanded, robot.command, yaw, [x, y, top + 0.03]);
    this.point(this.measured, robot.measured(), yaw, [x, y, top]);
    this.rope.visible = rope.length > 0;
    if (this.rope.visible) this.rope.geometry.setFromPoints(rope.map((end) => new THREE.Vector3(...end)));
    const points = robot.scanned.map(([px, py, pz]) => new THREE.Vector3(px, py, pz + 0.01));
    this.scan.visible = points.length > 0;
    if (this.scan.visible) this.scan.geometry.setFromPoints(points);
    const place = this.placeOf(robot);
    if (this.follows) {
      const moved = place.clone().sub(this.lastPlace);
      this.camera.position.add(moved);
      this.controls.target.add(moved);
    }
    this.lastPlace.copy(place);
    this.controls.update();
    this.fit();
    this.renderer.render(this.scene, this.camera);
  }

  /** Let an arrow show a velocity vx, vy [m/s]. */
  private point({ group, shaft, tip }: Arrow, [vx, vy]: number[], yaw: number, [x, y, z]: number[]): void {
    const [length, thickness] = [Math.hypot(vx, vy) * this.size, 0.05 * Math.min(this.size, 0.6)];
    group.visible = length > thickness && Number.isFinite(length);
    if (!group.visible) return;
    group.position.set(x, y, z);
    group.rotation.z = yaw + Math.atan2(vy, vx);
    const head = Math.min(3 * thickness, 0.6 * length);
    shaft.scale.set(length - head, thickness, thickness);
    tip.position.x = length - head;
    tip.scale.set(head, 2.2 * thickness, 2.2 * thickness);
  }

  /** Return what is grabbed at a point of the canvas; null beside the robot. */
  grab(robot: Drawn, clientX: number, clientY: number): Grip | null {
    const hit = this.ray(clientX, clientY).intersectObjects(this.shapes.map(({ mesh }) => mesh))[0];
    const shape = hit && this.shapes.find(({ mesh }) => mesh === hit.object);
    if (!shape) return null;
    const { x, y, z } = this.world.worldToLocal(hit.point.clone());
    const { xpos, xmat } = robot.data;
    const offset = [x, y, z].map((each, i) => each - xpos[3 * shape.body + i]);
    const point = [0, 1, 2].map((j) => offset.reduce((sum, each, i) => sum + xmat[9 * shape.body + 3 * i + j] * each, 0));
    return { body: shape.body, point, distance: hit.distance };
  }

  /** Return the point at a distance from the camera below the pointer, in the frame of the ground. */
  pointAt(clientX: number, clientY: number, distance: number): number[] {
    const { ray } = this.ray(clientX, clientY);
    return this.world.worldToLocal(ray.at(distance, new THREE.Vector3())).toArray();
  }

  /** Let the pointer turn the camera, or not. */
  set turnsCamera(value: boolean) {
    this.controls.enabled = value;
  }

  private ray(clientX: number, clientY: number): THREE.Raycaster {
    const box = this.canvas.getBoundingClientRect();
    const [u, v] = [(clientX - box.left) / box.width, (clientY - box.top) / box.height];
    const caster = new THREE.Raycaster();
    caster.setFromCamera(new THREE.Vector2(2 * u - 1, 1 - 2 * v), this.camera);
    return caster;
  }

  /** Follow the size of the canvas; the robot is in the middle of what the panel leaves free. */
  private fit(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = this.renderer.getPixelRatio();
    if (this.canvas.width !== Math.floor(width * ratio) || this.canvas.height !== Math.floor(height * ratio)) {
      this.renderer.setSize(width, height, false);
    }
    // the robot is in the middle of what the panels leave free
    const beside = this.panel.clientWidth;
    const across = width >= 1080 ? (beside - this.left) / 2 : width > 760 ? beside / 2 : 0;
    const down = width > 760 ? 0 : Math.max(0, this.panel.clientHeight - 60) / 2;
    this.camera.aspect = width / height;
    this.camera.setViewOffset(width, height, across, down, width, height);
  }

  private remove(mesh: THREE.Mesh): void {
    mesh.traverse((part) => (part as THREE.Mesh).geometry.dispose());
    (mesh.material as THREE.Material).dispose();
    this.world.remove(mesh);
  }

  private colorScene(): void {
    const sky = color("--sky");
    this.scene.background = sky;
    this.scene.fog = new THREE.Fog(sky, 7 * this.size + 4, 16 * this.size + 14);
    this.commanded.material.color = color("--commanded");
    this.measured.material.color = color("--measured");
    (this.rope.material as THREE.LineBasicMaterial).color = color("--measured");
    (this.scan.material as THREE.PointsMaterial).color = color("--commanded");
    if (!this.floor) return;
    const material = this.floor.material as Surface;
    if (material.map) {
      material.map.dispose();
      material.map = tiles();
    } else {
      material.color = color("--tile");
    }
  }
}

interface Arrow {
  group: THREE.Group;
  shaft: THREE.Mesh;
  tip: THREE.Mesh;
  material: THREE.MeshBasicMaterial;
}

/** An arrow along x, whose shaft and tip have the length and the diameter 1. */
function arrow(): Arrow {
  const material = new THREE.MeshBasicMaterial();
  const [cylinder, cone] = [new THREE.CylinderGeometry(0.5, 0.5, 1, 12), new THREE.ConeGeometry(0.5, 1, 16)];
  const [shaft, tip] = [cylinder, cone].map((geometry) => {
    return new THREE.Mesh(geometry.rotateZ(-Math.PI / 2).translate(0.5, 0, 0), material);
  });
  const group = new THREE.Group();
  group.add(shaft, tip);
  return { group, shaft, tip, material };
}

function shapeOf(model: MjModel, geom: number): THREE.BufferGeometry | null {
  const [a, b, c] = model.geom_size.subarray(3 * geom, 3 * geom + 3);
  switch (model.geom_type[geom]) {
    case 2:
      return new THREE.SphereGeometry(a, 20, 14);
    case 3:
      return new THREE.CapsuleGeometry(a, 2 * b, 6, 18).rotateX(Math.PI / 2);
    case 4:
      return new THREE.SphereGeometry(1, 20, 14).scale(a, b, c);
    case 5:
      return new THREE.CylinderGeometry(a, a, 2 * b, 24).rotateX(Math.PI / 2);
    case 6:
      return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
    case 7:
      return meshOf(model, model.geom_dataid[geom]);
    default:
      return null;
  }
}

function meshOf(model: MjModel, mesh: number): THREE.BufferGeometry {
  const [vertex, face] = [model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]];
  const vertices = model.mesh_vert.slice(3 * vertex, 3 * (vertex + model.mesh_vertnum[mesh]));
  const faces = model.mesh_face.slice(3 * face, 3 * (face + model.mesh_facenum[mesh]));
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(Float32Array.from(vertices), 3));
  geometry.setIndex(Array.from(faces as ArrayLike<number>));
  const flat = geometry.toNonIndexed(); // each face has its own normal
  flat.computeVertexNormals();
  return flat;
}

function colorOf(model: MjModel, geom: number): number[] {
  const material = model.geom_matid[geom];
  const [field, at] = material >= 0 ? [model.mat_rgba, material] : [model.geom_rgba, geom];
  return Array.from(field.subarray(4 * at, 4 * at + 4) as ArrayLike<number>);
}

/** A texture of 2 x 2 tiles of one metre. */
function tiles(): THREE.Texture {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 512;
  const context = canvas.getContext("2d")!;
  const css = (name: string) => `#${color(name).getHexString()}`;
  context.fillStyle = css("--tile");
  context.fillRect(0, 0, 512, 512);
  context.strokeStyle = css("--tile-line");
  for (let i = 0; i <= 8; i++) {
    context.lineWidth = i % 4 ? 1 : 3;
    context.strokeRect(-9, i * 64, 530, 0);
    context.strokeRect(i * 64, -9, 0, 530);
  }
  const texture = new THREE.CanvasTexture(canvas);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.repeat.set(PLANE / 2, PLANE / 2);
  texture.anisotropy = drawsSlowly ? 1 : 8;
  texture.colorSpace = THREE.SRGBColorSpace;
  return texture;
}

function planeMesh(): THREE.Mesh {
  const mesh = new THREE.Mesh(
    new THREE.PlaneGeometry(PLANE, PLANE),
    surface({ map: tiles() }, 1),
  );
  mesh.receiveShadow = true;
  return mesh;
}

/** Patches of a ground, of which only those in view are drawn. */
function groundMesh(ground: Ground): THREE.Mesh {
  const { rows, columns, cell, origin } = ground.shape;
  const material = surface({ flatShading: true }, 1);
  const whole = new THREE.Mesh(new THREE.BufferGeometry(), material);
  for (let i = 0; i < rows - 1; i += PATCH) {
    for (let j = 0; j < columns - 1; j += PATCH) {
      const [lengthX, lengthY] = [Math.min(PATCH, rows - 1 - i) + 1, Math.min(PATCH, columns - 1 - j) + 1];
      const places = new Float32Array(3 * lengthX * lengthY);
      const faces: number[] = [];
      for (let a = 0; a < lengthX; a++) {
        for (let b = 0; b < lengthY; b++) {
          const height = ground.heights[(i + a) * columns + j + b];
          const first = a * lengthY + b;
          places.set([origin[0] + (i + a) * cell, origin[1] + (j + b) * cell, height], 3 * first);
          if (a + 1 < lengthX && b + 1 < lengthY) {
            faces.push(first, first + lengthY, first + lengthY + 1, first, first + lengthY + 1, first + 1);
          }
        }
      }
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
      geometry.setIndex(faces);
      geometry.computeVertexNormals();
      const patch = new THREE.Mesh(geometry, material);
      patch.receiveShadow = true;
      whole.add(patch);
    }
  }
  return whole;
}
