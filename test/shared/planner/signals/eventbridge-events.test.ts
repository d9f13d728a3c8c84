import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FleetPlaces, toSignals } from '../../../../shared/planner/signals/eventbridge-events.ts';
import { readPlannerEvent } from '../../../../shared/protocol/index.ts';

const FOLDER = join(import.meta.dirname, '../../../fixtures/planner/eventbridge-events');
const GROUP = 'my-auto-scaling-group';
const BLOCK = ['i-0aaaaaaaaaaaaaaa1', 'i-0aaaaaaaaaaaaaaa2'];

const places: FleetPlaces = {
  ofGroup: (group) => (group === GROUP ? { namespace: 'ns', model: 'm', component: 'agg' } : undefined),
  groupOf: (id) => (id === 'i-1234567890abcdef0' || BLOCK.includes(id) ? GROUP : undefined),
  inReservation: (id) => (id === 'cr-1234567890abcdefg' ? BLOCK : []),
};

/** Events as AWS documents them, each with what planners hear of it. */
const golden = readdirSync(FOLDER).map((file) => {
  const { event, expected } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as {
    event: object;
    expected: object;
  };
  return [file.replace('.json', ''), event, expected] as const;
});

describe('an event of EventBridge', () => {
  it.each(golden)('%s is what planners hear of it', (_, event, expected) => {
    const translated = toSignals(event, places);
    expect(translated).toEqual(expected);
    for (const signal of translated.kind === 'signals' ? translated.signals : []) {
      expect(readPlannerEvent(signal)).toEqual({ kind: 'event', event: signal });
    }
  });

  it('of an instance of no fleet is unknown', () => {
    const [, event] = golden.find(([name]) => name === 'spot-interruption-warning') ?? [];
    const nowhere = { ...places, groupOf: () => undefined };
    expect(toSignals(event, nowhere)).toEqual({
      kind: 'unknown',
      what: 'aws.ec2: EC2 Spot Instance Interruption Warning',
    });
  });

  it('differs from what planners send each other, and from anything else', () => {
    expect(toSignals({ type: 'tick', v: 1 }, places)).toEqual({ kind: 'other' });
    fc.assert(
      fc.property(fc.anything(), (body) => {
        expect(toSignals(body, places)).toEqual({ kind: 'other' });
      }),
    );
  });

  it('of any shape of detail gives only signals that planners can read', () => {
    const [, spot] = golden.find(([name]) => name === 'launch-unsuccessful-capacity') ?? [];
    const types = golden.map(([, event]) => (event as { 'detail-type'?: string })['detail-type'] ?? 'x');
    fc.assert(
      fc.property(fc.constantFrom(...types), fc.dictionary(fc.string(), fc.anything()), (type, more) => {
        const detail = { ...more, AutoScalingGroupName: GROUP, 'instance-id': BLOCK[0], EC2InstanceId: BLOCK[1] };
        const translated = toSignals({ ...spot, 'detail-type': type, detail }, places);
        for (const signal of translated.kind === 'signals' ? translated.signals : []) {
          expect(readPlannerEvent(signal).kind).toBe('event');
        }
      }),
    );
  });
});
