#!/usr/bin/env -S node --max-semi-space-size=4
// The command `stator`. In the repository, so that npm can link it before anything is built; the program is a bundle that
// runs in this same process. The flag above keeps V8's young generation small, see functions/cli/main.ts.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FAILURE_EXIT = 1;
const program = new URL('../dist/stator.js', import.meta.url);

if (existsSync(program)) {
  await import(program.href);
} else {
  const clone = fileURLToPath(new URL('..', import.meta.url));
  const isInstalled = existsSync(new URL('../node_modules/esbuild', import.meta.url));
  process.stderr.write(
    `stator: not built; run ${isInstalled ? 'npm run build' : 'npm ci, which builds,'} in ${clone}\n`,
  );
  process.exitCode = FAILURE_EXIT;
}
