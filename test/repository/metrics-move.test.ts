import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { limitNames } from '../../shared/errors/index.ts';
import { SPECULATION_OUTCOMES } from '../../shared/pipeline/pipeline.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { createPlannerMetrics } from '../../shared/planner/index.ts';
import { createFrontendMetrics, MetricRegistry } from '../../shared/telemetry/index.ts';
import * as edge from '../../shared/telemetry/metrics/edge-metrics.ts';
import { createRouterMetrics } from '../../shared/telemetry/metrics/router-metrics.ts';
import { createWorkerMetrics } from '../../shared/telemetry/metrics/worker-metrics.ts';

/** The product, but for where metrics are made. */
const SOURCES = ['shared', 'functions'].flatMap((root) =>
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => join(root, path))
    .filter((path) => !path.startsWith('shared/telemetry/metrics/') && !path.endsWith('/planner-metrics.ts'))
    .map((path) => ({ path, text: readFileSync(path, 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '') })),
);

/** Functions of what counts, and of what those return to count on. */
function recordersOf(of: object): string[] {
  const names = new Set<string>();
  for (let at: object | null = of; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value, get }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (get === undefined && typeof value === 'function' && name !== 'constructor') names.add(name);
    }
  }
  return [...names];
}

/** Where a test reads what was counted, and what only starts others. */
const NOT_COUNTED: ReadonlySet<string> = new Set(['render']);

function isCalled(name: string): boolean {
  const call = new RegExp(`[.]${name}(?:[?][.])?[(]`); // x.moved(...), x?.moved?.(...)
  const handedOn = new RegExp(`(?:[.]${name}\\b(?! *[=(])|[{,]\\s*${name}\\s*[,}])`); // moved: x.moved, { moved }
  return SOURCES.some(({ text }) => call.test(text) || handedOn.test(text));
}

const frontend = createFrontendMetrics();
const meter = frontend.startRequest({ model: 'm', endpoint: 'e', requestType: 'unary' });

const registry = new MetricRegistry();
const router = createRouterMetrics({ registry, namespace: 'n', routerId: '1', isKvMode: true });
const worker = createWorkerMetrics({ namespace: 'n', component: 'c', endpoint: 'e', model: 'm' });
const config = parsePlannerConfig({ mode: 'agg' });

const HEADS: Readonly<Record<string, object>> = {
  frontend,
  router,
  'a pool of workers': router.pool('m', 'decode', 'aggregated'),
  worker,
  planner: createPlannerMetrics(new MetricRegistry(), config, () => 1, 'ns'),
  'a request': meter,
  ...Object.fromEntries(
    Object.entries(edge).flatMap(([name, make]) =>
      typeof make === 'function' ? [[name, (make as (registry: MetricRegistry) => object)(new MetricRegistry())]] : [],
    ),
  ),
};

describe.each(Object.entries(HEADS))('the recorders of %s', (_, recorders) => {
  it('are all called by the product', () => {
    expect(recordersOf(recorders).filter((name) => !NOT_COUNTED.has(name) && !isCalled(name))).toEqual([]);
  });
});

/** Label values that are promised and made at zero: each is said somewhere. */
const LABELS: Readonly<Record<string, readonly string[]>> = {
  limit: limitNames,
  stage: ['preprocess', 'route', 'dispatch', 'transport_roundtrip', 'postprocess'],
  phase: ['prefill', 'decode', 'aggregated'],
  outcome: ['success', 'failure', 'cancelled', ...SPECULATION_OUTCOMES],
  part: ['table', 'log', 'snapshots', 'replicas'],
};

it.each(Object.entries(LABELS))('every value of the label %s is said by the product', (_, values) => {
  const declarations = /shared\/errors\/limits\.ts$|shared\/pipeline\/pipeline\.ts$/;
  const said = SOURCES.filter(({ path }) => !declarations.test(path));
  expect(values.filter((value) => !said.some(({ text }) => text.includes(`'${value}'`)))).toEqual([]);
});
