import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { type BuildOptions, build, buildSync, type Metafile, type Plugin } from 'esbuild';
import { throughDoors } from '../through-doors.mjs';

/** Packages with native code: never packed with a function, and never loaded when a function starts. */
const NATIVE_PACKAGES = ['zeromq', 'tokenizers', '@node-rs/xxhash'];

/**
 * The page at /docs, with the licences of its parts. The function reads it from the folder only when a client opens it.
 */
const SWAGGER_UI = ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'];

/** Entry point of the HTTP function, relative to the repository. */
const HTTP_FUNCTION_ENTRY = 'functions/http/lambda.ts';
/** Entry point of the planner, relative to the repository. */
export const PLANNER_FUNCTION_ENTRY = 'functions/planner/lambda.ts';
/** Entry point of the function that tells the planner of held requests, relative to the repository. */
export const WAKE_FUNCTION_ENTRY = 'functions/wake/lambda.ts';

/** Fields of package.json that the function shows to clients. Most of the rest is a list of packages. */
const SHOWN_OF_PRODUCT: readonly string[] = ['name', 'version', 'description', 'license'];

/** Stands in for `@grpc/proto-loader`, relative to the repository. */
const NO_PROTO_LOADER = 'infra/no-proto-loader.mjs';

/** Stands in for the code of the console, relative to the repository. */
const NO_CONSOLE = 'infra/no-console.mjs';

/** Stands in for the client of NATS, relative to the repository. */
const NO_NATS = 'infra/no-nats.mjs';
/** Packages of the client of NATS, and that of its WebSockets. They are imported only when a connection is made. */
const NATS_PACKAGES = /^(@nats-io\/|ws$)/;

/** The file that the runtime loads, and what it loads at once. */
const ENTRY = 'index.mjs';
const INIT = 'init.mjs';

/**
 * Names are shortened: a tenth less to read and to parse. Exported names, error codes and messages stay, by which logs
 * are read.
 */
const BUILD = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  mainFields: ['module', 'main'],
  minify: true,
  legalComments: 'none',
  logLevel: 'warning',
} as const satisfies BuildOptions;

/**
 * For CommonJS packages, which call require() for node's own modules; `createRequire` costs each file a part of a
 * millisecond.
 */
const REQUIRE =
  'const require=name=>{const found=process.getBuiltinModule(name);' +
  'if(found===undefined)throw new Error("Cannot find module "+name);return found};';

/** `import a,{b as c}from"node:d";` or a part of it, as the bundler prints it. */
const IMPORTED_BUILTIN = /\bimport ?((?:\*as )?[\w$]+)?,?(?:\{([^}]*)\})? ?from("node:[\w/]+");/g;

/**
 * Returns what `import()` of a module of Node returns: its names, looked up when they are read, and itself as default.
 */
const NAMESPACE =
  'name=>{const builtin=process.getBuiltinModule(name);return Object.create(builtin,{default:{value:builtin}})}';

/** Folder of the bundle of the deployed HTTP function, relative to the repository. */
const HTTP_FUNCTION_DIRECTORY = 'node_modules/.cache/stator/functions/http';

export interface FunctionBundle {
  /** Folder to pack; holds `index.mjs` and the chunks that it loads lazily. */
  readonly directory: string;
  /** Size of all files of the folder together. */
  readonly bytes: number;
  /** `index.mjs` and what it loads at once: what every cold start parses. */
  readonly initBytes: number;
}

export interface BundleOptions {
  /** Absolute path of the repository. @default process.cwd(), which is where `cdk` and the tests run */
  readonly root?: string;
  /** Module whose `handler` is exported, relative to `root`. @default 'functions/http/lambda.ts' */
  readonly entry?: string;
  /** Folder to write, emptied first; absolute, or relative to `root`. @default a folder under node_modules/.cache */
  readonly outdir?: string;
  /** Texts of further files that the function reads from its folder, by their names. @default none */
  readonly files?: Readonly<Record<string, string>>;
}

/**
 * Bundles a function for the Node runtime of Lambda: everything inside, the AWS SDK included, so that what was tested
 * is what runs. Modules that are imported lazily become chunks of their own and cost a cold start nothing; what loads
 * with the function is one file.
 *
 * @throws Error when a module that loads with the function needs a package with native code.
 */
export async function bundleFunction(options: BundleOptions = {}): Promise<FunctionBundle> {
  const root = options.root ?? process.cwd();
  const directory = resolve(root, options.outdir ?? HTTP_FUNCTION_DIRECTORY);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const { metafile } = await build({
    ...BUILD,
    plugins: [settingsWithoutHelp(root), withoutConsole(root), withoutNats(root), throughDoors, productFacts(root)],
    absWorkingDir: root,
    entryPoints: { index: options.entry ?? HTTP_FUNCTION_ENTRY },
    outdir: directory,
    outExtension: { '.js': '.mjs' },
    splitting: true,
    // msgpackr does without its native helper, which no bundle could hold.
    external: [...NATIVE_PACKAGES, 'msgpackr-extract'],
    alias: { '@grpc/proto-loader': join(root, NO_PROTO_LOADER) },
    metafile: true,
    banner: { js: REQUIRE },
  });
  const loaded = initChunks(metafile);
  dropUnreached(root, metafile);
  mergeInit(root, directory, metafile, loaded);
  for (const file of readdirSync(directory)) takeBuiltins(join(directory, file));
  const initBytes = [ENTRY, INIT].reduce((sum, file) => sum + statSync(join(directory, file)).size, 0);
  if (options.entry === undefined) copyDocsPage(root, directory);
  for (const [name, text] of Object.entries(options.files ?? {})) writeFileSync(join(directory, name), text);
  return { directory, bytes: bytesOf(directory), initBytes };
}

/** Packs of the product's own package.json only what the function shows. */
function productFacts(root: string): Plugin {
  return {
    name: 'product-facts',
    setup({ onLoad }) {
      onLoad({ filter: /[\\/]package\.json$/ }, ({ path }) => {
        if (path !== resolve(root, 'package.json')) return undefined;
        return {
          loader: 'json',
          contents: JSON.stringify(JSON.parse(readFileSync(path, 'utf8')), [...SHOWN_OF_PRODUCT]),
        };
      });
    },
  };
}

const LITERAL = String.raw`(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\x60(?:[^\x60\\]|\\.)*\x60)`;
/** The help text of a setting in the table: a literal, or a sum of literals. */
const HELP_TEXT = new RegExp(String.raw`\babout:\s*${LITERAL}(?:\s*\+\s*${LITERAL})*`, 'g');

/**
 * Packs the settings without their help texts: a function prints no help, and each start would parse them.
 * @throws Error when a help text has a form that is not known here
 */
function settingsWithoutHelp(root: string): Plugin {
  const folder = join(root, 'shared/config/table/');
  return {
    name: 'settings-without-help',
    setup({ onLoad }) {
      onLoad({ filter: /[\\/]config[\\/]table[\\/][^\\/]+\.ts$/ }, ({ path }) => {
        if (!path.startsWith(folder)) return undefined;
        const contents = readFileSync(path, 'utf8').replaceAll(HELP_TEXT, `about: ''`);
        if (/\babout:(?! ''[, ]| string\b)/.test(contents))
          throw new Error(`${path} has a help text in a form that is not known`);
        return { loader: 'ts', contents };
      });
    },
  };
}

/** Leaves out what a console does. Its routes stay in the table of what this process has not. */
function withoutConsole(root: string): Plugin {
  const folders = ['shared/console/', 'shared/frontends/http/console/'].map((folder) => join(root, folder));
  return {
    name: 'without-console',
    setup({ onResolve }) {
      onResolve({ filter: /\.ts$/ }, ({ kind, path, resolveDir }) => {
        if (kind !== 'dynamic-import') return undefined;
        const file = resolve(resolveDir, path);
        return folders.some((folder) => file.startsWith(folder)) ? { path: join(root, NO_CONSOLE) } : undefined;
      });
    },
  };
}

/** Leaves out the client of NATS, 300 kB: functions refuse to call workers through NATS, and follow no events. */
function withoutNats(root: string): Plugin {
  const opener = join(root, 'shared/planes/nats/open-nats.ts');
  const none = { path: join(root, NO_NATS) };
  return {
    name: 'without-nats',
    setup({ onResolve }) {
      onResolve({ filter: NATS_PACKAGES }, (imported) => (imported.kind === 'dynamic-import' ? none : undefined));
      onResolve({ filter: /[\\/]open-nats\.ts$/ }, ({ path, resolveDir }) =>
        resolve(resolveDir, path) === opener ? none : undefined,
      );
    },
  };
}

/**
 * Puts what loads with the entry into one file: each file more costs a start half a millisecond of CPU. The former
 * files hand on what is in it, for the chunks that are loaded later and know them by their names. The entry stays
 * apart: it waits for its start, and what its start loads would wait for it.
 *
 *     index.mjs ──> init.mjs = chunk-A + chunk-B          later.mjs ── a ──> chunk-A.mjs = { p0_a as a } of init.mjs
 */
function mergeInit(root: string, directory: string, metafile: Metafile, loaded: ReadonlySet<string>): void {
  const parts = [...loaded]
    .filter((path) => basename(path) !== ENTRY)
    .map((path, at) => ({
      file: basename(path),
      names: (metafile.outputs[path]?.exports ?? []).map((name) => [name, `p${at}_${name}`] as const),
    }));
  const later = Object.keys(metafile.outputs).filter((path) => !loaded.has(path));
  const merge = (contents: string, outfile: string, ...more: readonly string[]): Uint8Array => {
    const external = [...later.map((path) => `./${basename(path)}`), ...NATIVE_PACKAGES, 'msgpackr-extract', ...more];
    const stdin = { contents, resolveDir: directory };
    const { outputFiles } = buildSync({ ...BUILD, absWorkingDir: root, stdin, outfile, external, write: false });
    return outputFiles[0]!.contents; // one entry point, one file
  };
  const list = (pairs: readonly (readonly [string, string])[]) => pairs.map((pair) => pair.join(' as ')).join(',');
  const all = parts.map(({ file, names }) => `export {${list(names)}} from './${file}';`);
  const init = merge(all.join(''), INIT);
  for (const { file, names } of parts) {
    const handedOn = names.map(([name, merged]) => [merged, name] as const);
    writeFileSync(join(directory, file), `export {${list(handedOn)}} from './${INIT}';`);
  }
  writeFileSync(join(directory, INIT), init);
  const index = merge(`export * from './${ENTRY}';`, ENTRY, `./${INIT}`);
  writeFileSync(join(directory, ENTRY), index);
}

/**
 * Takes Node's own modules as they are. An `import` first reads every name of the module, and some names load code that
 * the function does not use. The names of `node:http` load all of `fetch`, which costs each cold start 30 ms of CPU.
 * The names of the other modules cost 10 ms together.
 *
 *     import{readFile as a}from"node:fs/promises";   becomes
 *     const{readFile:a}=process.getBuiltinModule("node:fs/promises");
 *
 * @throws Error when an import has a form that is not known here
 */
function takeBuiltins(path: string): void {
  const taken: string[] = [];
  const take = (_all: string, whole: string | undefined, names: string | undefined, module: string): string => {
    const builtin = `process.getBuiltinModule(${module})`;
    if (whole) taken.push(`${whole.replace('*as ', '')}=${builtin}`);
    if (names) taken.push(`{${names.replaceAll(' as ', ':')}}=${builtin}`);
    return '';
  };
  const text = readFileSync(path, 'utf8')
    .replaceAll(IMPORTED_BUILTIN, take)
    .replaceAll(/\bimport\(("node:[\w/]+")\)/g, `Promise.resolve($1).then(${NAMESPACE})`);
  if (/\b(from|import)"node:/.test(text))
    throw new Error(`${path} imports a module of Node in a way that is not known`);
  writeFileSync(path, taken.length === 0 ? text : `const ${taken.join(',')};${text}`);
}

/** Lays the files of the page at /docs beside the function. */
function copyDocsPage(root: string, directory: string): void {
  for (const file of SWAGGER_UI) {
    cpSync(join(root, 'node_modules/swagger-ui-dist', file), join(directory, 'swagger-ui', file));
  }
}

/** Removes chunks that nothing imports: those of code that was left out as unused. */
function dropUnreached(root: string, { outputs }: Metafile): void {
  const reached = new Set<string>();
  const waiting = Object.keys(outputs).filter((path) => basename(path) === ENTRY);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    for (const imported of outputs[path]?.imports ?? []) if (!imported.external) waiting.push(imported.path);
  }
  for (const path of Object.keys(outputs)) if (!reached.has(path)) rmSync(resolve(root, path));
}

/** Follows static imports from the entry chunk and refuses native packages among them. */
function initChunks(metafile: Metafile): ReadonlySet<string> {
  const loaded = new Set<string>();
  // Lazily imported modules are entry points of their chunks as well; only index.mjs is the function's own.
  const waiting = Object.keys(metafile.outputs).filter((path) => basename(path) === ENTRY);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (loaded.has(path)) continue;
    loaded.add(path);
    for (const imported of metafile.outputs[path]?.imports ?? []) {
      if (imported.kind === 'dynamic-import') continue;
      if (imported.external && NATIVE_PACKAGES.includes(imported.path))
        throw nativePackageError(metafile, imported.path);
      if (!imported.external) waiting.push(imported.path);
    }
  }
  return loaded;
}

function nativePackageError(metafile: Metafile, name: string): Error {
  const importers = Object.entries(metafile.inputs)
    .filter(([, input]) => input.imports.some((imported) => imported.path === name))
    .map(([path]) => path);
  return new Error(
    `${name} has native code and cannot be packed with a function: ` +
      `import it lazily, with import(), in ${importers.join(', ')}`,
  );
}

function bytesOf(directory: string): number {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
