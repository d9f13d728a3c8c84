// What `cdk` runs (cdk.json): bundles infra/app.ts and imports the result, so that synthesis needs no TypeScript loader.
// The bundle lies under node_modules because its imports of aws-cdk-lib are resolved from there.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const outfile = resolve('node_modules/.cache/stator/infra-app.mjs');
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
