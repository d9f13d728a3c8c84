import { AutoScalingClient, type AutoScalingClientConfig } from '@aws-sdk/client-auto-scaling';
import { Account, type AccountOptions, REGION } from './account.ts';
import { CallFaults } from './faults.ts';
import { interruptSpot, loseInstance, loseZone, recommendRebalance } from './interruptions.ts';
import { reconcile } from './reconcile.ts';
import { failRefresh, runningRefresh } from './refresh.ts';
import { serve } from './server.ts';
import type { FakeInstance, GroupSpec } from './types.ts';

export type { BusEvent, FakeGroup, FakeInstance, GroupSpec, HookSpec } from './types.ts';

export interface FakeAutoScalingOptions extends AccountOptions {
  readonly groups?: readonly GroupSpec[];
}

/**
 * Amazon EC2 Auto Scaling as clients see it, on a virtual or a real clock: the query protocol over HTTP, and the states
 * of instances as AWS documents them. What EC2 does (shortages, interruptions, lost zones) a test decides. Groups do
 * not rebalance their zones: `AZRebalance` can be suspended without effect.
 */
export interface FakeAutoScaling {
  readonly url: string;
  /** State behind the API, for assertions and for the tests' own deeds. */
  readonly account: Account;
  readonly faults: CallFaults;
  /** Returns a client that calls this server, with local credentials and one attempt unless `config` says otherwise. */
  client(config?: AutoScalingClientConfig): AutoScalingClient;
  /** Returns the instances of a group, oldest first. */
  instances(group: string): FakeInstance[];
  interruptSpot(id: string): void;
  recommendRebalance(id: string): void;
  loseInstance(id: string): void;
  /** Returns a function that brings the zone back. */
  loseZone(zone: string): () => void;
  /** Adds a version of the launch template: `$Latest` means it from now on. The group keeps its own. */
  publishTemplate(group: string, version: string): void;
  /** Makes the group launch with another version, as a deployment does. Its instances keep theirs. */
  useTemplate(group: string, version: string): void;
  /** Ends the refresh of a group as failed, as an alarm or a failed launch would. */
  failRefresh(group: string, reason: string): void;
  stop(): Promise<void>;
}

/** Starts a fake Auto Scaling on 127.0.0.1. */
export async function startAutoScaling(options: FakeAutoScalingOptions): Promise<FakeAutoScaling> {
  const account = new Account(options, reconcile);
  for (const group of options.groups ?? []) account.addGroup(group);
  const faults = new CallFaults();
  const { url, stop } = await serve(account, faults);
  const clients: AutoScalingClient[] = [];
  const instance = (id: string): FakeInstance => {
    const found = account.instances.get(id);
    if (found === undefined) throw new Error(`no instance ${id}`);
    return found;
  };
  const group = (name: string) => {
    const found = account.groups.get(name);
    if (found === undefined) throw new Error(`no group ${name}`);
    return found;
  };
  return {
    url,
    account,
    faults,
    client: (config) => {
      const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
      const client = new AutoScalingClient({ endpoint: url, region: REGION, credentials, maxAttempts: 1, ...config });
      clients.push(client);
      return client;
    },
    instances: (name) => account.of(group(name)),
    interruptSpot: (id) => interruptSpot(account, instance(id)),
    recommendRebalance: (id) => recommendRebalance(account, instance(id)),
    loseInstance: (id) => loseInstance(account, instance(id)),
    loseZone: (zone) => loseZone(account, zone),
    publishTemplate: (name, version) => {
      group(name).latest = version;
    },
    useTemplate: (name, version) => {
      group(name).template = { ...group(name).template, version };
    },
    failRefresh: (name, reason) => {
      const refresh = runningRefresh(group(name));
      if (refresh === undefined) throw new Error(`no refresh of ${name} runs`);
      failRefresh(account, group(name), refresh, reason);
    },
    stop: async () => {
      for (const client of clients) client.destroy();
      await stop();
    },
  };
}
