// Compiles xxh3.ts and writes its code where the product loads it from: `npm run wasm`.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('xxh3.ts', import.meta.url));
const target = fileURLToPath(new URL('../shared/tokens/hashing/xxh3-code.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'stator-wasm-'));
try {
  const file = join(folder, 'xxh3.wasm');
  const flags = '-O3 --converge --noAssert --runtime stub --memoryBase 8 --initialMemory 5 --maximumMemory 5';
  const compiler = ['--yes', '--package=assemblyscript@0.28.20', '--', 'asc', source, ...flags.split(' '), '-o', file];
  execFileSync('npx', compiler, { stdio: 'inherit' });
  const sum = createHash('sha256').update(readFileSync(source)).digest('hex');
  writeFileSync(
    target,
    `// Written by \`npm run wasm\`.

/** SHA-256 of the wasm/xxh3.ts that the code was compiled from. */
export const XXH3_SOURCE = '${sum}';

/** WebAssembly in base64. */
export const XXH3_CODE =
  '${readFileSync(file).toString('base64')}';
`,
  );
} finally {
  rmSync(folder, { recursive: true });
}
