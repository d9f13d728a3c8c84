// What `cdk` runs (cdk.json): bundles infra/app.ts and imports the result, so that synthesis needs no TypeScript
// loader. The bundle lies under node_modules because its imports of aws-cdk-lib are resolved from there, in a folder of
// this run alone: others may run beside it.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const cache = resolve('node_modules/.cache/stator');
mkdirSync(cache, { recursive: true });
const folder = mkdtempSync(join(cache, `synth-${process.pid}-`));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const outfile = join(folder, 'app.mjs');
await build({
  entryPoints: ['infra/app.ts'],
  outfile,
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'inline',
  logLevel: 'warning',
});
await import(pathToFileURL(outfile).href);
