import { describe, expect, it } from 'vitest';
import { plannerFleetsOf } from '../../infra/constructs/ec2-fleet/planner-fleets.ts';
import config from '../../infra/examples/ec2.config.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { readFleetSpecs } from '../../shared/planner/options/fleet-spec.ts';
import { GPUS } from './deployments.ts';
import { productionTemplates } from './templates.ts';

const specs = plannerFleetsOf(readSettings(config, 'file'));

describe('the fleets that a planner gets', () => {
  it('are those that a planner reads, with the settings that its law takes', () => {
    expect(readFleetSpecs(JSON.stringify(specs), 'STATOR_PLANNER_FLEETS')).toEqual(specs);
    for (const { planner } of specs.fleets) expect(() => parsePlannerConfig(planner ?? {})).not.toThrow();
  });

  it('are one for each model and generation, with the groups that the templates create', () => {
    expect(specs.fleets.map(({ namespace, model, pools }) => [namespace, model, Object.keys(pools).sort()])).toEqual([
      ['dynamo-a1', 'Qwen/Qwen3-32B', ['decode']],
      ['dynamo', 'Qwen/Qwen3-8B', ['decode', 'prefill']],
    ]);
    const named = specs.fleets.flatMap(({ pools }) =>
      Object.values(pools).flatMap((pool) => pool?.options.map(({ group }) => group) ?? []),
    );
    const created = Object.values(productionTemplates(GPUS)).flatMap((template) =>
      Object.values(template.findResources('AWS::AutoScaling::AutoScalingGroup')).map(
        ({ Properties }) => Properties.AutoScalingGroupName as string,
      ),
    );
    expect(named.sort()).toEqual(created.sort());
  });

  it('say what a machine holds, and how many there may be', () => {
    expect(specs.fleets[0]).toMatchObject({
      pools: {
        decode: {
          options: [
            {
              id: '0-on-demand',
              market: 'on-demand',
              gpusPerInstance: 4,
              replicasPerInstance: 2,
              min: 0,
              max: 4,
              warmPool: { min: 1, state: 'Stopped' },
            },
            { id: '1-spot', market: 'spot', types: ['g6e.12xlarge', 'g6e.24xlarge'], max: 8 },
          ],
          gpusPerReplica: 2,
          startSecs: 480,
          drainSecs: 900,
        },
      },
      planner: { mode: 'agg', min_endpoint: 0, start_at_zero: true, max_gpu_budget: 48, rate_requests_per_second: 2 },
    });
    expect(specs.fleets[1]?.planner).toEqual({
      mode: 'disagg',
      prefill_min_endpoint: 1,
      decode_min_endpoint: 1,
      max_gpu_budget: 16,
      rate_prefill_requests_per_second: 4,
      rate_decode_requests_per_second: 2,
    });
  });

  it('name the reservation of a capacity block, so that its notice finds the machines', () => {
    const reservation = 'cr-0123456789abcdef0';
    const block = { market: 'capacity-block', types: ['p5.48xlarge'], zones: ['eu-west-1b'], max: 8 };
    const options = [{ ...block, reservationId: reservation, endsAt: '2027-01-31T11:30:00Z' }];
    const fleets = { ...config.fleets, chat: { ...config.fleets?.chat, options } };
    const [chat] = plannerFleetsOf(readSettings({ ...config, fleets }, 'file')).fleets;
    expect(chat?.pools.decode?.options).toMatchObject([{ id: '0-capacity-block', reservation }]);
  });

  it('start without a worker if the edges hold the first request', () => {
    const startsAtZero = (given: object) =>
      plannerFleetsOf(readSettings({ ...config, ...given }, 'file')).fleets.map(
        ({ planner }) => planner?.start_at_zero,
      );
    expect(startsAtZero({})).toEqual([true, undefined]); // the second has at least one worker
    expect(startsAtZero({ limits: { ...config.limits, holdSecs: 0 } })).toEqual([undefined, undefined]);
  });

  it('are an output of the edge, if there are any', () => {
    const outputOf = (given: object) => productionTemplates(given).Edge!.findOutputs('PlannerFleets').PlannerFleets;
    expect(JSON.parse(outputOf(GPUS)?.Value as string)).toEqual(specs);
    expect(outputOf({})).toBeUndefined();
  });
});
