import { describe, expect, it } from 'vitest';
import { estimateDeployment } from '../../shared/commands/deploy-needs.ts';
import { devTemplate, productionTemplates } from './templates.ts';

const IDLE = { requestsPerDay: 0, secondsPerRequest: 10 };
const sum = (parts: readonly { readonly dollars: number }[]) =>
  parts.reduce((total, { dollars }) => total + dollars, 0);

describe('the price of a deployment', () => {
  it('is at most 40 dollars a month for dev when nobody asks anything', () => {
    const { idle, load } = estimateDeployment([devTemplate().toJSON()], IDLE);
    expect(sum(load)).toBe(0);
    expect(sum(idle)).toBeGreaterThan(18);
    expect(sum(idle)).toBeLessThanOrEqual(40);
    expect(idle.find(({ name }) => name.startsWith('tasks of'))).toMatchObject({
      count: 1,
      dollars: expect.closeTo(14.42, 1),
    });
  });

  it('counts gateway, function and seconds of a load', () => {
    const million = { requestsPerDay: 1e6 / (730 / 24), secondsPerRequest: 2 };
    const { load } = estimateDeployment([devTemplate().toJSON()], million);
    const [gateway, requests, seconds] = load.map(({ dollars }) => dollars);
    expect([gateway, requests]).toEqual([expect.closeTo(3.5), expect.closeTo(0.2)]);
    expect(seconds).toBeCloseTo(2e6 * (1769 / 1024) * 0.0000133334);
  });

  it('says from how many streams on containers are cheaper, and counts all of production', () => {
    const stacks = Object.values(productionTemplates()).map((template) => template.toJSON());
    const { idle, streamsForContainers } = estimateDeployment(stacks, IDLE);
    expect(streamsForContainers).toBeCloseTo(1.22, 1);
    const names = idle.map(({ name }) => name);
    expect(names.filter((name) => name.startsWith('tasks of'))).toHaveLength(5);
    expect(names).toContain('NAT gateways with their addresses');
  });
});
