// Load MuJoCo, which is in the page as compressed WebAssembly.

import load, { type MainModule, type MjData, type MjModel } from "@mujoco/mujoco";

export type { MainModule as Mujoco, MjData, MjModel };

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Return the bytes of a base64 text that were compressed with gzip. */
export async function unpack(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([fromBase64(text) as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Compile a model and its packed files. */
export async function loadModel(
  mujoco: MainModule,
  source: { model: string; assets: Record<string, string> },
): Promise<MjModel> {
  const files = new mujoco.MjVFS();
  for (const [name, content] of Object.entries(source.assets)) files.addBuffer(name, await unpack(content));
  const model = mujoco.MjModel.from_xml_string(source.model, files);
  files.delete();
  return model;
}

export async function loadMujoco(wasm: string): Promise<MainModule> {
  const quiet = () => {}; // MuJoCo warns of each simulation that diverges, which the page counts
  return load({ wasmBinary: await unpack(wasm), print: quiet, printErr: quiet });
}
