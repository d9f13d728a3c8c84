/**
 * The files and folders that `npm run check:prose` reads: every page and program of the repository. Of a file of tests
 * it reads the titles.
 */
export const COVERED: readonly string[] = [
  '.dependency-cruiser.mjs',
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
  'rollup.config.mjs',
  'shared',
  'test',
  'third-party.mjs',
  'through-doors.mjs',
  'vitest.config.ts',
  'wasm',
  'web',
];
