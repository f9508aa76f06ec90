// Build the page without robots, rsl_rl/viz/page.html: one file with script, style and the WebAssembly of MuJoCo.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const MUJOCO = "node_modules/@mujoco/mujoco/";
const OUTPUT = "../rsl_rl/viz/page.html";

// The page's policy forbids to make functions of text, which MuJoCo's bindings do at two places. These make the same
// functions as closures.
const CLOSURES = {
  "new Function(...args, invokerFnBody)(...closureArgs)": `function (...given) {
    checkArgCount(given.length, minArgs, expectedArgCount, humanName, throwBindingError);
    const destructors = needsDestructorStack ? [] : null;
    const types = argTypes.slice(isClassMethodFunc ? 1 : 2);
    const values = isClassMethodFunc ? [this, ...given] : given;
    const wired = types.map((type, i) => type.toWireType(destructors, values[i]));
    const result = cppInvokerFunc(cppTargetFunc, ...wired);
    if (needsDestructorStack) runDestructors(destructors);
    else types.forEach((type, i) => type.destructorFunction !== null && type.destructorFunction(wired[i]));
    return returns ? argTypes[0].fromWireType(result) : undefined;
  }`,
  "new Function(...params, functionBody)(...args)": `function (object, method, destructors, packed) {
    let at = packed;
    const given = types.map((type) => {
      const value = type.readValueFromPointer(at);
      at += type.argPackAdvance;
      return value;
    });
    const result = kind === 1 ? new method(...given) : kind === 0 ? method.call(object, ...given) : method.call(...given);
    return retType.isVoid ? undefined : emval_returnValue(retType, destructors, result);
  }`,
};

const withoutEval = {
  name: "without eval",
  setup(builder) {
    builder.onLoad({ filter: /@mujoco\/mujoco\/mujoco\.js$/ }, ({ path }) => {
      let contents = readFileSync(path, "utf8");
      for (const [evaluated, closure] of Object.entries(CLOSURES)) {
        if (!contents.includes(evaluated)) throw new Error(`${path} has no "${evaluated}"; adapt build.mjs`);
        contents = contents.replace(evaluated, () => closure);
      }
      return { contents, loader: "js" };
    });
  },
};

const result = await build({
  entryPoints: ["src/main.ts"],
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  external: ["module", "node:*"],
  define: { "import.meta.url": "document.baseURI" },
  plugins: [withoutEval],
  logLevel: "error",
});
const script = result.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
const style = (await build({ entryPoints: ["src/style.css"], minify: true, write: false })).outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
const parts = {
  POLICY: [
    "default-src 'none'",
    `script-src ${hash(script)} 'wasm-unsafe-eval'`,
    `style-src ${hash(style)}`,
    "img-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; "),
  STYLE: style,
  LICENCES: escaped(
    [
      "rsl_rl",
      readFileSync("../LICENSE", "utf8"),
      `three.js ${version("three")}`,
      readFileSync("node_modules/three/LICENSE", "utf8"),
      `MuJoCo ${version("@mujoco/mujoco")}, Copyright DeepMind Technologies Limited`,
      readFileSync("node_modules/typescript/LICENSE", "utf8"), // the same licence; MuJoCo's package has no copy of it
    ].join("\n\n"),
  ),
  WASM: gzipSync(readFileSync(`${MUJOCO}mujoco.wasm`), { level: 9 }).toString("base64"),
  SCRIPT: script,
};
const page = readFileSync("src/page.html", "utf8").replace(/{{(\w+)}}/g, (_, name) => parts[name]);
writeFileSync(OUTPUT, page);
console.log(`${OUTPUT}: ${(page.length / 1e6).toFixed(1)} MB`);
