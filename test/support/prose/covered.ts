/**
 * The files and folders that `npm run check:prose` reads. The list only grows, until it names `test` as a whole. Of a
 * file of tests it reads the titles. To add a room of `test`, rewrite it until `npm run check:prose -- test/ROOM` finds
 * nothing. Then add its path on a line of its own, in order.
 */
export const COVERED: readonly string[] = [
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'README.md',
  'bench',
  'dead-members.mjs',
  'docs',
  'esbuild.config.mjs',
  'examples',
  'functions',
  'infra',
  'member-reads.mjs',
  'shared',
  'test/contract',
  'test/e2e',
  'test/faults',
  'test/functions',
  'test/infra',
  'test/repository',
  'test/shared',
  'third-party.mjs',
  'through-doors.mjs',
  'vitest.config.ts',
  'wasm',
];
