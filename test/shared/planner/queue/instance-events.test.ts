import { describe, expect, it } from 'vitest';
import { INSTANCE_EVENTS_GROUP, routeInstanceEvents } from '../../../../shared/planner/queue/instance-events.ts';
import { fleetSpec, optionSpec } from '../../../support/planner/ec2-fleet.ts';

const NEVER = new AbortController().signal;
const BLOCK = 'cr-0123456789abcdef0';
const models = [
  { group: 'ns#one', fleet: fleetSpec([optionSpec('g0')]) },
  { group: 'ns#two', fleet: fleetSpec([{ ...optionSpec('g1'), reservation: BLOCK }]) },
];
const INSTANCES = new Map([
  ['i-00000000a', 'g0'],
  ['i-00000000b', 'g1'],
  ['i-00000000c', 'of-others'],
  ['i-00000000e', 'g0'],
]);

let asked: readonly string[][] = [];
const groupsOf = async (ids: readonly string[]) => {
  asked = [...asked, [...ids]];
  return new Map([...INSTANCES].filter(([id]) => ids.includes(id)));
};
const recordOf = (body: unknown, group = INSTANCE_EVENTS_GROUP, messageId = 'm') => ({
  ...{ messageId, group, sentAtMs: 0 },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});
const eventOf = (more: object) => ({ id: 'e', source: 'aws.ec2', time: '2026-11-28T18:00:00Z', detail: {}, ...more });
const spot = (id: string) =>
  eventOf({ 'detail-type': 'EC2 Spot Instance Interruption Warning', detail: { 'instance-id': id } });
const route = async (...records: ReturnType<typeof recordOf>[]) => {
  asked = [];
  const routed = await routeInstanceEvents(records, { models, groupsOf }, NEVER);
  return routed.map(({ group, messageId }) => `${messageId} ${group}`);
};

describe('events that name only instances', () => {
  it('go to the model whose group the instance is in, with one look for the whole batch', async () => {
    const [a, b] = [recordOf(spot('i-00000000a'), undefined, 'a'), recordOf(spot('i-00000000b'), undefined, 'b')];
    expect(await route(a, b)).toEqual(['a ns#one', 'b ns#two']);
    expect(asked).toEqual([['i-00000000a', 'i-00000000b']]);
  });

  it('go to each model that they are about, once', async () => {
    const affectedEntities = [...INSTANCES.keys()].map((entityValue) => ({ entityValue }));
    const health = eventOf({ 'detail-type': 'AWS Health Event', source: 'aws.health', detail: { affectedEntities } });
    expect(await route(recordOf(health))).toEqual(['m ns#one', 'm ns#two']);
  });

  it('go to the model whose option has the reservation that they name', async () => {
    const detail = { 'capacity-reservation-id': BLOCK };
    expect(await route(recordOf(eventOf({ 'detail-type': 'Capacity Block Expiration Warning', detail })))).toEqual([
      'm ns#two',
    ]);
    expect(asked).toEqual([]);
  });

  it('say nothing if they are about other instances of the account, or cannot be read', async () => {
    const others = [spot('i-00000000c'), spot('i-00000000d'), eventOf({}), 'not JSON', 'null', '[]'];
    expect(await route(...others.map((body) => recordOf(body)))).toEqual([]);
  });

  it('leave other messages as they are, and cost them no look', async () => {
    const tick = recordOf(spot('i-00000000b'), 'ns#one');
    expect(await routeInstanceEvents([tick], { models, groupsOf }, NEVER)).toEqual([tick]);
    expect(await route(tick)).toEqual(['m ns#one']);
    expect(asked).toEqual([]);
  });
});
