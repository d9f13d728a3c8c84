// Bundles what is run or deployed into dist/. Native packages stay outside the bundles and are loaded from node_modules.
import { chmod, cp, rm } from 'node:fs/promises';
import { build } from 'esbuild';

const NATIVE = ['zeromq'];

const common = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  // ES modules where a package has both: a CommonJS one that is imported lazily would lose its names to `default`.
  mainFields: ['module', 'main'],
  format: 'esm',
  sourcemap: true,
  legalComments: 'none',
  logLevel: 'warning',
  external: NATIVE,
  // CommonJS packages inside an ES module bundle still call require() for node's own modules.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
};

await rm('dist', { recursive: true, force: true });
await Promise.all([
  build({
    ...common,
    entryPoints: {
      stator: 'functions/cli/main.ts',
      // The package's own doors: `import ... from 'stator'` and `'stator/worker'`.
      frontend: 'functions/sdk/frontend.ts',
      worker: 'functions/sdk/worker.ts',
      'tokenizer-loader': 'shared/tokens/loader-thread.ts',
      'encode-thread': 'shared/tokens/prompts/encode-thread.ts',
      bench: 'bench/main.ts',
      'bench-floor': 'bench/floor.ts',
      'bench-loop-probe': 'bench/loop-probe.ts',
    },
    outdir: 'dist',
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
  }),
]);
await chmod('dist/stator.js', 0o755);
await cp('shared/artifacts/builtin-model', 'dist/builtin-model', { recursive: true });
// The page at /docs, with the licences of what it is made of.
const SWAGGER_UI = ['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'];
for (const file of SWAGGER_UI) {
  await cp(new URL(file, import.meta.resolve('swagger-ui-dist/package.json')), `dist/swagger-ui/${file}`);
}
