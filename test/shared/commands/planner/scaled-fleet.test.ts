import { describe, expect, it } from 'vitest';
import { scaledFleet } from '../../../../shared/commands/planner/scaled-fleet.ts';
import { fleetSpec, optionSpec } from '../../../support/planner/ec2-fleet.ts';
import { clusterFleet, podFleets } from '../../../support/planner/pod-fleet.ts';

const one = fleetSpec([optionSpec('g0')]);
const other = { ...one, model: 'other' };
const json = (value: object) => ({ kind: 'json', value: { ...value } }) as const;

describe('the fleet that a planner on EC2 scales', () => {
  it('is the only one, or the one that namespace and model choose', async () => {
    const alone = { plannerConnector: 'ec2', plannerFleets: json({ gpusMax: 8, fleets: [one] }) } as const;
    expect(await scaledFleet(alone)).toEqual({ fleet: one, gpusMax: 8 });
    const both = { ...alone, plannerFleets: json({ fleets: [one, other] }) };
    expect((await scaledFleet({ ...both, plannerModel: 'OTHER' }))?.fleet.model).toBe('other');
    await expect(scaledFleet(both)).rejects.toThrow(/names several fleets.*known: ns#m, ns#other/);
    await expect(scaledFleet({ ...both, namespace: 'elsewhere' })).rejects.toThrow(/names no fleet of that namespace/);
  });

  it('does not exist for another connector, which refuses the file', async () => {
    expect(await scaledFleet({ plannerConnector: 'virtual' })).toBeUndefined();
    const given = { plannerConnector: 'local', plannerFleets: json({ fleets: [one] }) } as const;
    await expect(scaledFleet(given)).rejects.toThrow(
      '--planner-fleets is for --planner-connector ec2, kubernetes or eks, not local',
    );
  });

  it('comes with the field, the value and what is allowed if the file is wrong', async () => {
    const wrong = fleetSpec([optionSpec('g0', 0, { replicasPerInstance: 3 })]);
    const given = { plannerConnector: 'ec2', plannerFleets: json({ fleets: [wrong] }) } as const;
    await expect(scaledFleet(given)).rejects.toThrow(
      /--planner-fleets\.fleets\.0\.pools\.decode\.options\.0\.replicasPerInstance 3: must be 2/,
    );
  });

  it('consists of Deployments with the connectors of a cluster, which the file must name', async () => {
    const given = { plannerConnector: 'kubernetes', plannerFleets: json(podFleets()) } as const;
    expect((await scaledFleet(given))?.fleet).toEqual(clusterFleet());
    await expect(scaledFleet({ ...given, plannerConnector: 'eks' })).rejects.toThrow(
      '--planner-connector eks: the cluster of m has the kind kubernetes',
    );
    await expect(scaledFleet({ ...given, plannerConnector: 'ec2' })).rejects.toThrow(/Unrecognized key: "cluster"/);
    await expect(scaledFleet({ plannerConnector: 'eks' })).rejects.toThrow(
      '--planner-fleets (STATOR_PLANNER_FLEETS) is missing: it names the Deployments of each fleet',
    );
  });
});
