import { isRecord } from '../records/index.ts';
import type { InstanceMetadata } from './imds.ts';

/** How an instance was bought. */
export type Market = 'on-demand' | 'spot' | 'capacity-block';

/** Facts of an instance that do not change while it lives. */
export interface InstanceIdentity {
  readonly instanceId: string;
  readonly instanceType: string;
  /** Availability zone. */
  readonly zone: string;
  readonly market: Market;
}

/** Announcements of the metadata. */
export interface Notices {
  /**
   * State that Auto Scaling wants (`InService`, `Terminated`, `Warmed:Stopped`, ...); undefined outside a group. The
   * page "Retrieve the target lifecycle state through instance metadata" lists the states.
   */
  readonly target?: string | undefined;
  /** Interruption of a Spot instance, about two minutes ahead ("Spot Instance interruption notices"). */
  readonly spot?: { readonly action: string; readonly atMs: number } | undefined;
  /** Time at which EC2 said that this Spot instance is at elevated risk ("EC2 instance rebalance recommendations"). */
  readonly rebalanceAtMs?: number | undefined;
}

type Readable = Pick<InstanceMetadata, 'read'>;

/** Reads who the instance is. @throws Error with one line if the service lacks a fact */
export async function readIdentity(
  metadata: Readable,
  given: Market | undefined,
  signal: AbortSignal,
): Promise<InstanceIdentity> {
  const need = async (path: string): Promise<string> => {
    const value = await metadata.read(path, signal);
    if (value === undefined || value === '') throw new Error(`the instance metadata has no ${path}`);
    return value;
  };
  const instanceId = await need('instance-id');
  const instanceType = await need('instance-type');
  const zone = await need('placement/availability-zone');
  const lifeCycle = given ?? (await metadata.read('instance-life-cycle', signal));
  const market = lifeCycle === 'spot' || lifeCycle === 'capacity-block' ? lifeCycle : 'on-demand';
  return { instanceId, instanceType, zone, market };
}

/** Reads what is announced for the instance at this moment. */
export async function readNotices(metadata: Readable, signal: AbortSignal): Promise<Notices> {
  const target = await metadata.read('autoscaling/target-lifecycle-state', signal);
  const spot = parse(await metadata.read('spot/instance-action', signal));
  const rebalance = parse(await metadata.read('events/recommendations/rebalance', signal));
  const spotAtMs = timeOf(spot?.time);
  return {
    target,
    spot:
      spotAtMs === undefined || typeof spot?.action !== 'string' ? undefined : { action: spot.action, atMs: spotAtMs },
    rebalanceAtMs: timeOf(rebalance?.noticeTime),
  };
}

/** Returns an object in JSON; undefined for other text, which is no notice. */
function parse(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? 'null');
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined; // `hibernate` notices of old instances have other forms, and never come for GPU instances
  }
}

function timeOf(text: unknown): number | undefined {
  const ms = typeof text === 'string' ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
