import { describe, expect, it } from 'vitest';
import { FLEET, PLANNED } from '../../infra/grafana/console.ts';
import { metricsOf, renderDashboard } from '../../infra/grafana/dashboard.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { createPlannerMetrics } from '../../shared/planner/index.ts';
import {
  createDemandMetrics,
  createFrontendMetrics,
  createStallMetrics,
  MetricRegistry,
} from '../../shared/telemetry/index.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const DASHBOARDS = [
  ['fleet', FLEET, knownToFrontends],
  ['planner', PLANNED, knownToPlanners],
] as const;

async function knownToFrontends(): Promise<ReadonlyMap<string, string>> {
  const { registry } = createFrontendMetrics({ clock: new VirtualClock() });
  createStallMetrics(registry);
  createDemandMetrics(registry);
  return familiesOf(registry);
}

function knownToPlanners(): Promise<ReadonlyMap<string, string>> {
  const registry = new MetricRegistry();
  createPlannerMetrics(registry, parsePlannerConfig({ mode: 'agg', max_gpu_budget: 8 }), () => 1, 'ns');
  return familiesOf(registry);
}

/** Returns the types of the families, by their names. */
async function familiesOf(registry: MetricRegistry): Promise<ReadonlyMap<string, string>> {
  const page = await registry.render();
  return new Map([...page.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name = '', type = '']) => [name, type]));
}

describe.each(DASHBOARDS)('the dashboard of the page %s', (name, dashboard, known) => {
  it('shows metrics that exist, each as its type can be read', async () => {
    const families = await known();
    expect(metricsOf(dashboard).filter((metric) => !families.has(metric))).toEqual([]);
    const queries = dashboard.panels.flatMap((panel) => Object.values(panel.queries));
    for (const query of queries) {
      for (const [, metric = ''] of query.matchAll(/(?:rate|increase)\((\w+?)(?:_bucket|_sum|_count)?[{[]/g))
        expect(families.get(metric), query).toMatch(/counter|histogram/);
      for (const [, metric = ''] of query.matchAll(/(\w+)_bucket/g))
        expect(families.get(metric), query).toBe('histogram');
    }
  });

  it('lays its panels out without overlaps', () => {
    const { panels } = JSON.parse(renderDashboard(dashboard)) as {
      readonly panels: readonly { readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>> }[];
    };
    const taken = new Set<string>();
    for (const { gridPos } of panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x}/${y}`)).toBe(false);
          taken.add(`${x}/${y}`);
        }
    }
  });

  it('is the file of the repository', async () => {
    await expect(renderDashboard(dashboard)).toMatchFileSnapshot(`../../deploy/grafana/${name}.json`);
  });
});

describe('the panels of failures', () => {
  it('show zero before the first failure, whose counter does not exist until then', () => {
    const queries = FLEET.panels.flatMap((panel) => Object.values(panel.queries));
    const failed = queries.filter((query) => query.includes('status="error"'));
    expect(failed).toHaveLength(2);
    for (const query of failed) expect(query).toMatch(/^\(sum\([^/]*status="error"[^/]* or vector\(0\)\)/);
  });
});
