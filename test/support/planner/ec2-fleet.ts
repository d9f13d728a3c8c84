import { AutoScalingCalls } from '../../../shared/planner/ec2/auto-scaling-calls.ts';
import { Ec2Connector, type Ec2ConnectorOptions } from '../../../shared/planner/ec2/connector.ts';
import type { FleetSpec, OptionSpec } from '../../../shared/planner/options/fleet-spec.ts';
import { type Fake, groupSpec, startFake } from '../aws/auto-scaling/fake.ts';
import type { FakeAutoScalingOptions, GroupSpec } from '../aws/auto-scaling/index.ts';
import type { VirtualClock } from '../virtual-clock.ts';

/** Returns the option of a group that `groupSpec` describes. */
export function optionSpec(group: string, at = 0, option: Partial<OptionSpec> = {}): OptionSpec {
  return {
    id: `${at}-on-demand`,
    group,
    types: ['g6e.12xlarge'],
    market: 'on-demand',
    gpusPerInstance: 4,
    replicasPerInstance: 2,
    min: 0,
    max: 8,
    ...option,
  };
}

/** Returns a fleet of one pool with these options. */
export function fleetSpec(options: readonly OptionSpec[]): FleetSpec {
  const pool = { options: [...options], gpusPerReplica: 2, startSecs: 480, drainSecs: 900 };
  return { namespace: 'ns', model: 'm', pools: { decode: pool } };
}

export interface Ec2Fleet extends AsyncDisposable {
  readonly fake: Fake;
  readonly clock: VirtualClock;
  readonly connector: Ec2Connector;
  /** Opens another connector of the same fleet, as the next process would. */
  open(more?: Partial<Ec2ConnectorOptions>): Promise<Ec2Connector>;
}

/** Starts groups behind a fake Auto Scaling, and a connector whose real client calls it. */
export async function startEc2Fleet(
  groups: readonly Partial<GroupSpec>[] = [{}],
  options: Partial<FakeAutoScalingOptions> = {},
  more: Partial<Ec2ConnectorOptions> = {},
): Promise<Ec2Fleet> {
  const specs = groups.map((group, at) => groupSpec({ name: `g${at}`, ...group }));
  const fake = await startFake({ ...options, groups: specs });
  const { clock } = fake;
  const fleet = fleetSpec(specs.map(({ name, max }, at) => optionSpec(name, at, { max })));
  process.env.AWS_ENDPOINT_URL_AUTO_SCALING = fake.url;
  process.env.AWS_REGION = 'us-east-1';
  process.env.AWS_ACCESS_KEY_ID = 'local';
  process.env.AWS_SECRET_ACCESS_KEY = 'local';
  const opened: Ec2Connector[] = [];
  const open = async (others: Partial<Ec2ConnectorOptions> = {}): Promise<Ec2Connector> => {
    const calls = await AutoScalingCalls.open(clock);
    const connector = new Ec2Connector({ fleet, calls, clock, ...more, ...others });
    opened.push(connector);
    return connector;
  };
  return {
    fake,
    clock,
    connector: await open(),
    open,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(opened.map((connector) => connector.close()));
      await fake.stop();
    },
  };
}
