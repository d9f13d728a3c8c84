import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { COVERED } from './covered.ts';
import { lintFile } from './lint.ts';
import { wrapLines } from './wrap.ts';

// npm run check:prose                 lints what test/support/prose/covered.ts lists
// npm run check:prose -- PATH...      lints files and folders
// npm run check:prose -- --wrap PATH...   also wraps their lines at the last column first
const UNWRITTEN = /(?:\.d\.ts|_pb\.ts|docs\/configuration\.md)$/;

/** Returns the pages and TypeScript files at `path`, without those that are generated. */
function filesAt(path: string): string[] {
  const files = statSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))
    : [path];
  return files.filter((file) => /\.(?:md|tsx?|mjs)$/.test(file) && !UNWRITTEN.test(file)).sort();
}

const isWrapping = process.argv.includes('--wrap');
const named = process.argv.slice(2).filter((argument) => argument !== '--wrap');
let count = 0;
for (const file of (named.length > 0 ? named : COVERED).flatMap(filesAt)) {
  if (isWrapping && !file.endsWith('CHANGELOG.md')) {
    writeFileSync(file, wrapLines(readFileSync(file, 'utf8'), file.endsWith('.md')));
  }
  for (const { line, message } of await lintFile(file)) {
    console.log(`${file}:${line}: ${message}`);
    count += 1;
  }
}
if (count > 0) {
  console.error(`${count} places break "How sentences read" of CONTRIBUTING.md`);
  process.exitCode = 1;
}
