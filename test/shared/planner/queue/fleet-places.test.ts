import { describe, expect, it } from 'vitest';
import type { ObservedOption } from '../../../../shared/planner/live/connector.ts';
import { placesOf } from '../../../../shared/planner/queue/fleet-places.ts';
import { toSignals } from '../../../../shared/planner/signals/eventbridge-events.ts';
import { fleetSpec, optionSpec } from '../../../support/planner/ec2-fleet.ts';

const INSTANCE = 'i-0123456789abcdef0';
const aggregated = fleetSpec([optionSpec('g0')]);
const { decode } = aggregated.pools;
const split = { ...aggregated, pools: { prefill: { ...decode!, options: [optionSpec('p0')] }, decode } };

function seenWith(id: string) {
  const counts = { ready: 1, starting: 0, draining: 0, desired: 1 };
  const instances = [{ id, state: 'ready' as const }];
  const option: ObservedOption = { id: '0-on-demand', ...counts, min: 0, max: 8, instances };
  return { pools: { decode: { ...counts, refreshing: false, options: [option] } } };
}

const warningOf = (id: string) => ({
  id: 'event-1',
  'detail-type': 'EC2 Spot Instance Interruption Warning',
  source: 'aws.ec2',
  time: '2026-11-28T18:00:00Z',
  detail: { 'instance-id': id, 'instance-action': 'terminate' },
});

/** "Monitor Capacity Blocks using EventBridge": it names only the reservation. */
const expiryOf = (reservation: string) => ({
  id: 'event-1',
  'detail-type': 'Capacity Block Reservation Expiration Warning',
  source: 'aws.ec2',
  time: '2026-11-28T18:00:00Z',
  detail: { 'capacity-reservation-id': reservation, 'end-date': '2026-11-28T18:40:00Z' },
});

describe('the places of a fleet', () => {
  it('give the events of its groups their pool, and none to other groups', () => {
    expect(placesOf(aggregated).ofGroup('g0')).toEqual({ namespace: 'ns', model: 'm', component: 'agg' });
    expect(placesOf(split).ofGroup('g0')).toMatchObject({ component: 'decode' });
    expect(placesOf(split).ofGroup('p0')).toMatchObject({ component: 'prefill' });
    expect(placesOf(split).ofGroup('other')).toBeUndefined();
  });

  it('find the instances of a capacity block by its reservation', () => {
    const fleet = fleetSpec([optionSpec('g0', 0, { reservation: 'cr-0123456789abcdef0' })]);
    const places = placesOf(fleet, seenWith(INSTANCE));
    const interrupt = { type: 'capacity.interrupt', component: 'agg', instance_id: INSTANCE, kind: 'block-end' };
    expect(toSignals(expiryOf('cr-0123456789abcdef0'), places)).toMatchObject({
      kind: 'signals',
      signals: [interrupt],
    });
    expect(toSignals(expiryOf('cr-0123456789abcdef1'), places)).toMatchObject({ kind: 'unknown' });
  });

  it('find the instance of a spot notice in the fleet as it was seen last', () => {
    const places = placesOf(aggregated, seenWith(INSTANCE));
    const interrupt = { type: 'capacity.interrupt', component: 'agg', instance_id: INSTANCE, kind: 'spot-warning' };
    expect(toSignals(warningOf(INSTANCE), places)).toMatchObject({ kind: 'signals', signals: [interrupt] });
    expect(toSignals(warningOf('i-0123456789abcdef1'), places)).toMatchObject({ kind: 'unknown' });
    expect(toSignals(warningOf(INSTANCE), placesOf(aggregated))).toMatchObject({ kind: 'unknown' });
  });
});
