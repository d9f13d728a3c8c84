import { systemClock } from '../../shared/clock/index.ts';
import { type FakeAutoScaling, type GroupSpec, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import type { FakeInstance } from '../support/aws/fake-imds.ts';
import { type Fleet, waitUntil } from '../support/index.ts';
import { HostMachine } from './host-machine.ts';

const GROUP = 'chat-0-on-demand';
/** Time-out of the hooks of deployed fleets. A shorter one would end launches of a busy machine. */
const HOOK_SECS = 300;

interface LaunchOptions {
  readonly group?: Partial<GroupSpec>;
  readonly instance?: FakeInstance;
  /** Heartbeat time-out of the terminate hook, in seconds. @default that of the deployed fleets */
  readonly terminateSecs?: number;
  /** Time until a hook is open, in milliseconds. @default 0 */
  readonly hookMs?: number;
}

/** The only instance of an Auto Scaling group, with a machine of its own. */
export class HostBed extends HostMachine {
  #scaling: FakeAutoScaling | undefined;

  /** Launches one instance. @param env further settings of its agent */
  static async launch(
    fleet: Fleet,
    env: Readonly<Record<string, string>> = {},
    { group = {}, instance = {}, terminateSecs, hookMs = 0 }: LaunchOptions = {},
  ): Promise<HostBed> {
    let bed: HostBed | undefined;
    const scaling = await startAutoScaling({
      clock: systemClock,
      times: { launchMs: 0, terminateMs: 0, warmStartMs: 0, hookMs },
      groups: [{ ...groupSpec(GROUP, terminateSecs), desired: 1, ...group }],
      onState: () => bed?.follow(),
    });
    const [first] = await waitUntil(() => {
      const launched = scaling.instances(GROUP);
      return launched.length > 0 && launched;
    });
    if (first === undefined) throw new Error('no instance was launched');
    const discovery = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: fleet.fileKv };
    const options = { fleet, scaling, env: { ...discovery, ...env }, facts: instance };
    const { imds, ports } = await HostMachine.parts(first, options);
    bed = new HostBed(first, imds, ports, options);
    bed.follow();
    bed.#scaling = scaling;
    return bed;
  }

  get scaling(): FakeAutoScaling {
    if (this.#scaling === undefined) throw new Error('no instance was launched');
    return this.#scaling;
  }

  /** Calls of the agent to Auto Scaling, as `action hook result`. */
  calls(action: string): readonly string[] {
    return this.scaling.faults.calls
      .filter((call) => call.action === action)
      .map(({ parameters }) =>
        [parameters.LifecycleHookName, parameters.LifecycleActionResult].filter(Boolean).join(' '),
      );
  }

  async terminate(): Promise<void> {
    const { TerminateInstanceInAutoScalingGroupCommand } = await import('@aws-sdk/client-auto-scaling');
    const input = { InstanceId: this.instance.id, ShouldDecrementDesiredCapacity: true };
    await this.scaling.client().send(new TerminateInstanceInAutoScalingGroupCommand(input));
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#scaling?.stop();
  }
}

/** Returns a group with the hooks for which an agent is there. */
export function groupSpec(name: string, terminateSecs = HOOK_SECS): GroupSpec {
  const hook = (
    of: string,
    transition: 'EC2_INSTANCE_LAUNCHING' | 'EC2_INSTANCE_TERMINATING',
    heartbeatSecs: number,
  ) => ({
    name: of,
    transition: `autoscaling:${transition}` as const,
    heartbeatSecs,
    defaultResult: 'ABANDON' as const,
  });
  return {
    name,
    types: ['g6e.12xlarge'],
    zones: ['us-east-1b'],
    max: 2,
    hooks: [
      hook('launch', 'EC2_INSTANCE_LAUNCHING', HOOK_SECS),
      hook('terminate', 'EC2_INSTANCE_TERMINATING', terminateSecs),
    ],
  };
}
