/**
 * The pages and folders that `npm run check:prose` reads. The list only grows, until it names `docs`, `shared`,
 * `functions` and `infra`. To add a room, rewrite it until `npm run check:prose -- shared/ROOM` finds nothing. Then add
 * its path on a line of its own, in order.
 */
export const COVERED: readonly string[] = [
  'CONTRIBUTING.md',
  'README.md',
  'docs/architecture.md',
  'docs/benchmarks.md',
  'docs/compatibility.md',
  'docs/dependencies.md',
  'docs/disaggregation.md',
  'docs/engines.md',
  'docs/keys.md',
  'docs/kserve.md',
  'docs/limits.md',
  'docs/media.md',
  'docs/mock-engine.md',
  'docs/parameters.md',
  'docs/parsers.md',
  'docs/router-service.md',
  'docs/sdk.md',
  'docs/security.md',
  'docs/tracing.md',
  'shared/access',
  'shared/artifacts',
  'shared/clock',
  'shared/concurrency',
  'shared/config',
  'shared/errors',
  'shared/records',
  'shared/responses',
];
