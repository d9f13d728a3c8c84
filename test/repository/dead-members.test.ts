import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { deadMembers } from '../../dead-members.mjs';

const SOURCES = {
  'product/door.ts': `
import { type Promised, Told, type Wide } from './parts.ts';
export interface Published { readonly shown: number }
export function open(wide: Wide): Published {
  const told = new Told();
  const promised: Promised = told;
  told.written = wide.given;
  told.counted++;
  closeLater(Promise.resolve(new Closed()));
  use(Promise.resolve(new Used()));
  console.log(JSON.stringify(wide.sent), narrow(wide), promised.called());
  return { shown: 1 };
}
type Closing<T> = [T] extends [Closable | undefined] ? [] : [() => void];
interface Closable { close(): void }
function use<T>(opened: T, ..._close: Closing<Awaited<T>>): void {
  (opened as Closable).close();
}
class Used {
  close(): void {}
}
async function closeLater<T extends { close(): void }>(promise: Promise<T>): Promise<void> {
  (await promise).close();
}
class Closed {
  close(): void {}
  open(): void {}
}
function narrow({ passed }: { readonly passed: number }): number {
  return passed;
}
`,
  'product/parts.ts': `
export interface Wide {
  readonly given: number;
  readonly passed: number;
  readonly sent: { readonly inside: number };
  readonly unread: number;
  readonly kind: 'wide';
}
export interface Promised { called(): number; neverCalled(): number }
export class Told implements Promised {
  written = 0;
  counted = 0;
  /** For tests: read by them only. */
  observed = 0;
  called(): number { return 1; }
  neverCalled(): number { return 2; }
  toJSON(): string { return ''; }
}
`,
  'test/parts.test.ts': `
import { Told, type Wide } from '../product/parts.ts';
export const read = ({ unread }: Wide): number => unread + new Told().neverCalled() + new Told().written;
`,
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-dead-members-'));
  for (const [path, text] of Object.entries(SOURCES)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2023', 'dom'],
    strict: true,
    types: [],
    allowImportingTsExtensions: true,
    noEmit: true,
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['product', 'test'] }));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('finds the members that are only written, or only read by tests', () => {
  const dead = deadMembers(join(folder, 'tsconfig.json'), /^product\//, /^product\/door\.ts$/);
  expect(dead.map((each: string) => each.split(' ')[1]).sort()).toEqual([
    'Closed.open',
    'Promised.neverCalled',
    'Told.counted',
    'Told.neverCalled',
    'Told.written',
    'Wide.unread',
  ]);
});
