/**
 * The pages and folders that `npm run check:prose` reads. The list only grows, until it names `test` as a whole. Of a
 * file of tests it reads the titles. To add a room of `test`, rewrite it until `npm run check:prose -- test/ROOM` finds
 * nothing. Then add its path on a line of its own, in order.
 */
export const COVERED: readonly string[] = [
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'README.md',
  'bench',
  'docs',
  'examples',
  'functions',
  'infra',
  'shared',
  'test/functions',
  'test/infra',
  'test/repository',
  'test/shared/access',
  'test/shared/artifacts',
  'test/shared/clock',
  'test/shared/commands',
  'test/shared/concurrency',
  'test/shared/config',
  'test/shared/discovery',
  'test/shared/errors',
  'test/shared/parsers',
  'test/shared/planes',
  'test/shared/planner',
  'test/shared/protocol',
  'test/shared/records',
  'test/shared/simulate',
  'test/shared/standalone',
  'test/shared/telemetry',
  'test/shared/tokens',
  'wasm',
];
