import type {
  Activity,
  AutoScalingClient,
  AutoScalingGroup,
  InstanceRefresh,
  StartInstanceRefreshCommandInput,
} from '@aws-sdk/client-auto-scaling';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { quietSdkNotice } from '../../discovery/index.ts';
import { loadCode } from '../../errors/index.ts';
import { AutoScalingError, toAutoScalingError } from './auto-scaling-error.ts';

type Sdk = typeof import('./sdk-parts.ts');

/** Longest wait for one answer. */
const CALL_MS_MAX = 3000;
/** Tries of a call that changes nothing, or that has the same effect twice. */
const TRIES = 2;
/** Names of one call: the most that AWS takes, if `MaxRecords` says so too. */
const NAMES_MAX = 100;
/** Instances of one call that describes them, or sets their protection. */
const INSTANCES_MAX = 50;
/** Activities that show how the newest launches ended. */
const ACTIVITIES = 20;
/** Pages of one answer. */
const PAGES_MAX = 100;

/**
 * Calls to Amazon EC2 Auto Scaling. The client takes region, credentials and endpoint from the SDK's own variables.
 * Each call waits at most three seconds for its answer, and rejects with an `AutoScalingError`.
 */
export class AutoScalingCalls {
  readonly #sdk: Sdk;
  readonly #client: AutoScalingClient;
  readonly #clock: Clock;

  private constructor(sdk: Sdk, client: AutoScalingClient, clock: Clock) {
    this.#sdk = sdk;
    this.#client = client;
    this.#clock = clock;
  }

  /** Loads the SDK and opens a client. */
  static async open(clock: Clock): Promise<AutoScalingCalls> {
    quietSdkNotice();
    const sdk = await loadCode('Auto Scaling', () => import('./sdk-parts.ts'));
    const client = new sdk.AutoScalingClient({ maxAttempts: 1, requestHandler: { connectionTimeout: CALL_MS_MAX } });
    return new AutoScalingCalls(sdk, client, clock);
  }

  /** Returns the groups with these names that exist, 100 names to a call. */
  async groups(names: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, AutoScalingGroup>> {
    const found = new Map<string, AutoScalingGroup>();
    for (let at = 0; at < names.length; at += NAMES_MAX) {
      const input = { AutoScalingGroupNames: names.slice(at, at + NAMES_MAX), MaxRecords: NAMES_MAX };
      let token: string | undefined;
      for (let page = 0; page < PAGES_MAX; page++) {
        const command = new this.#sdk.DescribeAutoScalingGroupsCommand({ ...input, NextToken: token });
        const answer = await this.#try('DescribeAutoScalingGroups', TRIES, signal, (abortSignal) =>
          this.#client.send(command, { abortSignal }),
        );
        for (const group of answer.AutoScalingGroups ?? []) found.set(group.AutoScalingGroupName ?? '', group);
        token = answer.NextToken;
        if (token === undefined) break;
      }
    }
    return found;
  }

  /** Returns the groups of those of the instances that are in one, 50 instances to a call. */
  async groupsOf(instanceIds: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>();
    for (let at = 0; at < instanceIds.length; at += INSTANCES_MAX) {
      const InstanceIds = instanceIds.slice(at, at + INSTANCES_MAX);
      const command = new this.#sdk.DescribeAutoScalingInstancesCommand({ InstanceIds });
      const answer = await this.#try('DescribeAutoScalingInstances', TRIES, signal, (abortSignal) =>
        this.#client.send(command, { abortSignal }),
      );
      for (const { InstanceId = '', AutoScalingGroupName = '' } of answer.AutoScalingInstances ?? [])
        found.set(InstanceId, AutoScalingGroupName);
    }
    return found;
  }

  /** Returns the newest scaling activities of a group, newest first. */
  async activities(group: string, signal: AbortSignal): Promise<readonly Activity[]> {
    const command = new this.#sdk.DescribeScalingActivitiesCommand({
      AutoScalingGroupName: group,
      MaxRecords: ACTIVITIES,
    });
    const what = `DescribeScalingActivities of ${group}`;
    const answer = await this.#try(what, TRIES, signal, (abortSignal) => this.#client.send(command, { abortSignal }));
    return answer.Activities ?? [];
  }

  /** Returns the newest instance refresh of a group. */
  async newestRefresh(group: string, signal: AbortSignal): Promise<InstanceRefresh | undefined> {
    const command = new this.#sdk.DescribeInstanceRefreshesCommand({ AutoScalingGroupName: group, MaxRecords: 1 });
    const what = `DescribeInstanceRefreshes of ${group}`;
    const answer = await this.#try(what, TRIES, signal, (abortSignal) => this.#client.send(command, { abortSignal }));
    return answer.InstanceRefreshes?.[0];
  }

  /** Starts an instance refresh. It is tried once: a second call would find the refresh of the first. */
  async startRefresh(input: StartInstanceRefreshCommandInput, signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.StartInstanceRefreshCommand(input);
    await this.#try(`StartInstanceRefresh of ${input.AutoScalingGroupName}`, 1, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
  }

  /**
   * Sets how many instances a group works towards. `LaunchInstances` would answer which launch failed; an event
   * tells so seconds later. But it adds to the number instead of setting it, and takes one zone for each call. Its
   * caller also needs `ec2:CreateFleet`, so that a planner could start instances beside its groups ("Launching
   * instances with synchronous provisioning").
   */
  async setDesired(group: string, desired: number, signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.SetDesiredCapacityCommand({
      AutoScalingGroupName: group,
      DesiredCapacity: desired,
      HonorCooldown: false,
    });
    await this.#try(`SetDesiredCapacity ${desired} of ${group}`, TRIES, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
  }

  /**
   * Ends one instance and lowers the desired capacity of its group by one. It is tried once: AWS does not document that
   * a second call for an instance lowers nothing.
   */
  async terminate(instanceId: string, signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.TerminateInstanceInAutoScalingGroupCommand({
      InstanceId: instanceId,
      ShouldDecrementDesiredCapacity: true,
    });
    await this.#try(`TerminateInstanceInAutoScalingGroup ${instanceId}`, 1, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
  }

  /** Protects instances of a group from scale-in, 50 to a call. */
  async protect(group: string, instanceIds: readonly string[], signal: AbortSignal): Promise<void> {
    for (let at = 0; at < instanceIds.length; at += INSTANCES_MAX) {
      const command = new this.#sdk.SetInstanceProtectionCommand({
        AutoScalingGroupName: group,
        InstanceIds: instanceIds.slice(at, at + INSTANCES_MAX),
        ProtectedFromScaleIn: true,
      });
      await this.#try(`SetInstanceProtection of ${group}`, TRIES, signal, (abortSignal) =>
        this.#client.send(command, { abortSignal }),
      );
    }
  }

  /**
   * Abandons the launch of an instance that waits in its hook: the group ends it without its start ("Complete a
   * lifecycle action in an Auto Scaling group"). The group replaces it if its desired capacity stays.
   */
  async abandonLaunch(group: string, hook: string, instanceId: string, signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.CompleteLifecycleActionCommand({
      AutoScalingGroupName: group,
      LifecycleHookName: hook,
      InstanceId: instanceId,
      LifecycleActionResult: 'ABANDON',
    });
    await this.#try(`CompleteLifecycleAction ${instanceId}`, TRIES, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  /** Repeats a call that could not be answered; every other failure is for the caller. */
  async #try<T>(
    what: string,
    tries: number,
    signal: AbortSignal,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    for (let left = tries - 1; ; left--) {
      try {
        const lateMessage = `no answer within ${CALL_MS_MAX} ms`;
        return await withDeadline({ clock: this.#clock, timeoutMs: CALL_MS_MAX, signal, lateMessage }, call);
      } catch (thrown) {
        signal.throwIfAborted();
        const error = thrown instanceof AutoScalingError ? thrown : toAutoScalingError(thrown, what);
        if (error.kind !== 'unreachable' || left === 0) throw error;
      }
    }
  }
}
