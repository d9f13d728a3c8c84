// Bundles what is run or deployed into dist/. Native packages stay outside the bundles: node_modules has them.
// Does nothing if dist/ is up to date: a process that runs from it goes on loading its later chunks.
// - `node esbuild.config.mjs` is for a clone: readable, with source maps and benchmarks.
// - `node esbuild.config.mjs --package` is for a package: no blanks, source maps and benchmarks, shortened statements,
//   and short local names in the code of others.
// - `node esbuild.config.mjs --prepare` is for npm: either of the two is enough, if it is there and up to date.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { shortLocals } from './short-locals.mjs';
import { describeThirdParties } from './third-party.mjs';
import { throughDoors } from './through-doors.mjs';

const NATIVE = ['zeromq'];
/** The page at /docs, with the licences of what it is made of. */
const SWAGGER_UI = ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'];
const CONSOLE_HTML = 'web/index.html';
const MODEL = 'shared/artifacts/builtin-model';
/** Stand-ins for packages that other ones may load, and that nothing here needs. */
const UNUSED = { '@grpc/proto-loader': './infra/no-proto-loader.mjs', bowser: './infra/no-bowser.mjs' };
/** Goes with node_modules: other packages are another build. */
const RECORD = 'node_modules/.cache/stator/build.json';

const isPackage = process.argv.includes('--package');
const isPrepare = process.argv.includes('--prepare');
const variant = isPackage ? 'package' : 'clone';

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  // ES modules if a package has both: a CommonJS one that is imported lazily would lose its names to `default`.
  mainFields: ['module', 'main'],
  format: 'esm',
  splitting: true,
  outdir: 'dist',
  // Stator's names stay as they are: stack traces can be read without a source map.
  sourcemap: !isPackage,
  minifyWhitespace: isPackage,
  minifySyntax: isPackage,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  external: NATIVE,
  plugins: isPackage ? [throughDoors, shortLocals] : [throughDoors],
  // msgpackr looks for a native helper beside itself, where a bundle has none.
  define: { 'process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED': '"true"' },
  // CommonJS packages inside an ES module bundle still call require() for node's own modules.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
};

const product = {
  ...common,
  alias: UNUSED,
  chunkNames: 'chunks/[name]-[hash]',
  entryPoints: {
    stator: 'functions/cli/main.ts',
    // The package's own doors: `import ... from 'stator'` and `'stator/worker'`.
    frontend: 'functions/sdk/frontend.ts',
    worker: 'functions/sdk/worker.ts',
    'tokenizer-loader': 'shared/tokens/loader-thread.ts',
    'encode-thread': 'shared/tokens/prompts/encode-thread.ts',
  },
};

const benchmarks = {
  ...common,
  chunkNames: 'bench-chunks/[name]-[hash]',
  entryPoints: {
    bench: 'bench/main.ts',
    'bench-floor': 'bench/floor.ts',
    'bench-mixed-floor': 'bench/mixed-floor.ts',
    'bench-loop-probe': 'bench/loop-probe.ts',
  },
};

/** The page of the console, which browsers load: always without blanks, because its size counts. */
const page = {
  bundle: true,
  platform: 'browser',
  target: ['chrome120', 'firefox121'],
  format: 'esm',
  outdir: 'dist/console-page',
  entryPoints: { console: 'web/main.tsx' },
  jsx: 'automatic',
  jsxImportSource: 'preact',
  define: { Intl: 'plainIntl' },
  inject: ['web/plain-intl.ts'],
  minify: true,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
};

/** Returns when a file was written and how long it is, or undefined if it does not exist. */
function stampOf(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat && `${stat.mtimeMs} ${stat.size}`;
}

/** Whether dist/ was made, as a variant that will do, of the files as they are now. */
function isUpToDate() {
  try {
    const record = JSON.parse(readFileSync(RECORD, 'utf8'));
    if (!isPrepare && record.variant !== variant) return false;
    return (
      record.outputs.every((path) => existsSync(path)) &&
      Object.entries(record.inputs).every(([path, stamp]) => stampOf(path) === stamp)
    );
  } catch {
    return false; // no record, or one of another time: build
  }
}

/** Compresses the files of the console's page, as the server sends them. Returns their paths. */
async function packPage(files) {
  await cp(CONSOLE_HTML, 'dist/console-page/index.html');
  for (const file of files) {
    await writeFile(`${file}.gz`, gzipSync(await readFile(file), { level: 9 }));
    await rm(file);
  }
  return ['dist/console-page/index.html', ...files.map((file) => `${file}.gz`)];
}

async function bundle(build) {
  await rm('dist', { recursive: true, force: true });
  const kinds = isPackage ? [page, product] : [page, product, benchmarks];
  const results = await Promise.all(kinds.map((options) => build(options)));
  await chmod('dist/stator.js', 0o755);
  await cp(MODEL, 'dist/builtin-model', { recursive: true });
  await mkdir('dist/swagger-ui', { recursive: true });
  for (const file of SWAGGER_UI) {
    const source = new URL(file, import.meta.resolve('swagger-ui-dist/package.json'));
    if (/\.(css|js)$/.test(file))
      await writeFile(`dist/swagger-ui/${file}.gz`, gzipSync(await readFile(source), { level: 9 }));
    else await cp(source, `dist/swagger-ui/${file}`);
  }
  const sources = results.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const [ofPage, ...others] = results.map(({ metafile }) => Object.keys(metafile.outputs));
  const outputs = [...others.flat(), ...(await packPage(ofPage))];
  if (isPackage) {
    await describeThirdParties([...sources, 'node_modules/swagger-ui-dist/swagger-ui-bundle.js']);
    outputs.push('dist/sbom.cdx.json', 'dist/THIRD-PARTY-LICENSES.txt');
  }
  const own = sources.filter((path) => !/^node_modules|:/.test(path));
  const model = (await readdir(MODEL)).map((name) => `${MODEL}/${name}`);
  const rooms = (await readdir('shared', { withFileTypes: true })).filter((each) => each.isDirectory());
  const doors = rooms.map(({ name }) => `shared/${name}/index.ts`);
  const scripts = ['esbuild.config.mjs', 'short-locals.mjs', 'third-party.mjs', 'through-doors.mjs'];
  const inputs = [...scripts, CONSOLE_HTML, 'package-lock.json', ...model, ...doors, ...own];
  const record = { variant, outputs, inputs: Object.fromEntries(inputs.map((path) => [path, stampOf(path)])) };
  await mkdir('node_modules/.cache/stator', { recursive: true });
  await writeFile(RECORD, JSON.stringify(record));
}

if (!isUpToDate()) {
  const esbuild = await import('esbuild').catch((error) => error);
  if ('build' in esbuild) await bundle(esbuild.build);
  // Not a failure of the installation: bin/stator.js says the same to who runs it.
  else if (isPrepare)
    console.error('stator: not built: esbuild is not installed; npm ci without --omit=dev installs it');
  else throw esbuild;
}
