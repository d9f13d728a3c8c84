import { describe, expect, it } from 'vitest';
import { readFleetSpecs, unitOf } from '../../../../shared/planner/options/fleet-spec.ts';

const option = {
  id: '0-on-demand',
  group: 'dev-chat-0-on-demand',
  types: ['g6e.12xlarge'],
  market: 'on-demand',
  gpusPerInstance: 4,
  replicasPerInstance: 2,
  min: 0,
  max: 8,
};
const pool = { options: [option], gpusPerReplica: 2, startSecs: 480, drainSecs: 900 };
const fleet = { namespace: 'dynamo', model: 'm', pools: { decode: pool } };

const read = (raw: unknown) => readFleetSpecs(JSON.stringify(raw), 'STATOR_PLANNER_FLEETS');
const withOption = (parts: object) => ({
  fleets: [{ ...fleet, pools: { decode: { ...pool, options: [{ ...option, ...parts }] } } }],
});

describe('the fleets that a planner scales on EC2', () => {
  it('are read as they were written', () => {
    const block = {
      ...option,
      id: '1-capacity-block',
      market: 'capacity-block',
      zone: 'us-east-1b',
      endsAt: '2026-12-01T11:30:00Z',
    };
    const spot = { ...option, id: '2-spot', market: 'spot', warmPool: { min: 1, state: 'Stopped' } };
    const pools = { decode: { ...pool, options: [option, block, spot] }, prefill: pool };
    const fleets = { gpusMax: 64, fleets: [{ ...fleet, pools, planner: { law: 'rate' } }] };
    expect(read(fleets)).toEqual(fleets);
  });

  it.each([
    ['{', /^STATOR_PLANNER_FLEETS is not JSON$/],
    [withOption({ id: 'first' }), /decode\.options\.0\.id "first": must be like 0-on-demand/],
    [withOption({ market: 'reserved' }), /market "reserved": .*"on-demand"\|"spot"\|"capacity-block"/],
    [withOption({ min: 9 }), /options\.0\.min 9: must not be above max/],
    [withOption({ replicasPerInstance: 4 }), /replicasPerInstance 4: must be 2: 4 GPUs of an instance hold/],
    [withOption({ types: [] }), /types \[\]/],
    [withOption({ endsAt: 'tomorrow' }), /endsAt "tomorrow"/],
    [withOption({ colour: 'red' }), /options\.0 .*colour/],
    [{ fleets: [{ ...fleet, model: undefined }] }, /fleets\.0\.model left out/],
    [
      { fleets: [{ ...fleet, pools: { decode: { ...pool, options: [option, option] } } }] },
      /options\.1\.id "0-on-demand": 0-on-demand is there twice/,
    ],
  ])('are refused by field, value and what is allowed: %j', (raw, problem) => {
    const text = typeof raw === 'string' ? raw : JSON.stringify(raw);
    expect(() => readFleetSpecs(text, 'STATOR_PLANNER_FLEETS')).toThrow(problem);
  });

  it('change by whole instances, or by all instances of one engine', () => {
    const specOf = (gpusPerReplica: number) =>
      read({
        fleets: [
          {
            ...fleet,
            pools: {
              decode: {
                ...pool,
                gpusPerReplica,
                options: [{ ...option, replicasPerInstance: Math.floor(4 / gpusPerReplica) }],
              },
            },
          },
        ],
      }).fleets[0]!.pools.decode!;
    const units = [1, 2, 3, 4, 5, 16].map((gpus) => {
      const spec = specOf(gpus);
      const { replicas, instances } = unitOf(spec.options[0]!, spec);
      return [replicas, instances];
    });
    expect(units).toEqual([
      [4, 1],
      [2, 1],
      [1, 1],
      [1, 1],
      [1, 2],
      [1, 4],
    ]);
  });
});
