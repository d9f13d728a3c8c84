import { cpSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { buildSync, type Metafile } from 'esbuild';

/** Packages with native code: never packed with a function, and never loaded when a function starts. */
const NATIVE_PACKAGES = ['zeromq', 'tokenizers', '@node-rs/xxhash'];

/** The page at /docs, with the licences of what it is made of; read from the folder only when somebody opens it. */
const SWAGGER_UI = ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'];

/** Entry point of the HTTP function, relative to the repository. */
const HTTP_FUNCTION_ENTRY = 'functions/http/lambda.ts';

/** Stands in for `node:http`, relative to the repository. */
const NODE_HTTP = 'infra/node-http.mjs';

/** Stands in for `@grpc/proto-loader`, relative to the repository. */
const NO_PROTO_LOADER = 'infra/no-proto-loader.mjs';

/** Where the deployed HTTP function is bundled to, relative to the repository. */
const HTTP_FUNCTION_DIRECTORY = 'node_modules/.cache/stator/functions/http';

export interface FunctionBundle {
  /** Folder to pack; holds `index.mjs` and the chunks that it loads lazily. */
  readonly directory: string;
  /** All files of the folder together. */
  readonly bytes: number;
  /** `index.mjs` and the chunks that are loaded with it: what every cold start parses. */
  readonly initBytes: number;
}

export interface BundleOptions {
  /** Absolute path of the repository. @default process.cwd(), which is where `cdk` and the tests run */
  readonly root?: string;
  /** Module whose `handler` is exported, relative to `root`. @default 'functions/http/lambda.ts' */
  readonly entry?: string;
  /** Folder to write, emptied first; absolute, or relative to `root`. @default a folder under node_modules/.cache */
  readonly outdir?: string;
}

/**
 * Bundles a function for the Node runtime of Lambda: everything inside, the AWS SDK included, so that what was tested is
 * what runs. Modules that are imported lazily become chunks of their own and cost a cold start nothing.
 *
 * Identifiers stay as they are: stack traces can be read without a source map, and the packed size hardly differs.
 *
 * @throws Error when a module that loads with the function needs a package with native code.
 */
export function bundleFunction(options: BundleOptions = {}): FunctionBundle {
  const root = options.root ?? process.cwd();
  const directory = resolve(root, options.outdir ?? HTTP_FUNCTION_DIRECTORY);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const { metafile } = buildSync({
    absWorkingDir: root,
    entryPoints: { index: options.entry ?? HTTP_FUNCTION_ENTRY },
    outdir: directory,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    mainFields: ['module', 'main'],
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    // msgpackr does without its native helper, which no bundle could hold.
    external: [...NATIVE_PACKAGES, 'msgpackr-extract'],
    alias: { 'node:http': join(root, NODE_HTTP), '@grpc/proto-loader': join(root, NO_PROTO_LOADER) },
    metafile: true,
    logLevel: 'warning',
    // CommonJS packages inside an ES module bundle still call require() for node's own modules.
    banner: {
      js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
    },
  });
  const assetBytes = options.entry === undefined ? copyDocsPage(root, directory) : 0;
  return { directory, bytes: sumBytes(metafile, () => true) + assetBytes, initBytes: sumInitBytes(metafile) };
}

/** Lays the files of the page at /docs beside the function; returns their bytes. */
function copyDocsPage(root: string, directory: string): number {
  let bytes = 0;
  for (const file of SWAGGER_UI) {
    const target = join(directory, 'swagger-ui', file);
    cpSync(join(root, 'node_modules/swagger-ui-dist', file), target);
    bytes += statSync(target).size;
  }
  return bytes;
}

/** Follows static imports from the entry chunk and refuses native packages among them. */
function sumInitBytes(metafile: Metafile): number {
  const loaded = new Set<string>();
  // Lazily imported modules are entry points of their chunks as well; only index.mjs is the function's own.
  const waiting = Object.keys(metafile.outputs).filter((path) => basename(path) === 'index.mjs');
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
  return sumBytes(metafile, (path) => loaded.has(path));
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

function sumBytes(metafile: Metafile, isCounted: (path: string) => boolean): number {
  let bytes = 0;
  for (const [path, output] of Object.entries(metafile.outputs)) if (isCounted(path)) bytes += output.bytes;
  return bytes;
}
