import type { Clock, Random } from '../clock/index.ts';
import type { Discovery, EndpointRecord, Watch } from '../discovery/index.ts';
import { type ServeError, workerError } from '../errors/index.ts';
import { askOnce, type OneAnswer, type PlaneRequest, type RequestPlane, type Transport } from '../planes/index.ts';
import type { ExplanationRecord } from '../scheduler/index.ts';
import type { ComponentScope } from '../worker-events/index.ts';
import {
  CHOOSE_ENDPOINT,
  type ChooseQuery,
  type ChosenWorker,
  decodeMessage,
  EXPLAIN_ENDPOINT,
  encodeChange,
  encodeQuery,
  PROBE_BODY,
  RELEASE_ENDPOINT,
  type ReservationChangeQuery,
  ROUTER_COMPONENT,
  WELL_KNOWN_INSTANCE,
} from './messages.ts';

/** Deadline of a change of a reservation. If it does not arrive, the resident's own limits end the reservation. */
export const CHANGE_MS_MAX = 2000;
/** Deadline of an explanation. Operators wait for one, requests never do. */
export const EXPLAIN_MS_MAX = 2000;

/** Carries questions to one resident router, over the request plane (`PlaneLine`) or gRPC (router/grpc). */
export interface ResidentLine {
  /** Connects if necessary, and checks whether the router is there. Never rejects, and ends in time. */
  probe(timeoutMs: number): Promise<boolean>;
  /** Asks for a worker. Calls `onQueued` in a later turn if the request has to wait. */
  choose(query: ChooseQuery, onQueued: () => void): AskedCall;
  /**
   * Reports the stage of a request. The caller does not wait, and the report is given up after `CHANGE_MS_MAX`. Never
   * throws.
   */
  change(change: ReservationChangeQuery): void;
  /**
   * Explains why one of the last requests went to its worker, or where a query would go now; undefined if the router
   * cannot say.
   */
  explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined>;
  /** Ends further questions. Earlier ones may still be answered. */
  close(): void;
}

/** A question that is being answered. */
export interface AskedCall {
  /**
   * Decision of the router. Rejects with the class from the router or the connection: a standby gives
   * `WorkerUnavailable`.
   */
  readonly decision: Promise<ChosenWorker>;
  /** Leaves the router's queue. The outcome of the question then has no meaning. Idempotent. */
  kill(): void;
}

/** Failure of a router that ended its answer before it decided. */
export const UNDECIDED: ServeError = workerError('Disconnected', 'an answer without a decision');

/** Address of a resident router on the request plane. */
interface PlaneAddress {
  readonly instanceId: string;
  readonly choose: Transport;
  readonly release: Transport;
  readonly explain: Transport;
}

export interface PlaneLineOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
}

/** A resident router from discovery, or one known only by its gRPC address: `host:port`. */
export type ResidentAddress = PlaneAddress | { readonly instanceId: string; readonly grpc: string };

/** Asks a resident router on the request plane. The plane keeps the connection. */
export class PlaneLine implements ResidentLine {
  readonly #address: PlaneAddress;
  readonly #options: PlaneLineOptions;

  constructor(address: PlaneAddress, options: PlaneLineOptions) {
    this.#address = address;
    this.#options = options;
  }

  async probe(timeoutMs: number): Promise<boolean> {
    return (await this.#ask(this.#address.choose, { body: PROBE_BODY }, timeoutMs)).kind === 'answered';
  }

  choose(query: ChooseQuery, onQueued: () => void): AskedCall {
    const { requestId: id, traceparent } = query;
    const request = { id, headers: traceparent === undefined ? {} : { traceparent }, ...encodeQuery(query) };
    let kill = (): void => {};
    let isDecided = false; // rejecting a resolved promise has a cost
    const decision = new Promise<ChosenWorker>((resolve, reject) => {
      const call = this.#options.plane.call(this.#address.choose, request, {
        accepted() {},
        tokens: () => reject(workerError('BackendProtocol', 'the router sent tokens')),
        output: ({ body }) => {
          try {
            const message = decodeMessage(body);
            isDecided = message.kind === 'decision';
            if (message.kind === 'decision') resolve(message.chosen);
            else onQueued();
          } catch (thrown) {
            call.kill();
            reject(thrown);
          }
        },
        end: () => {
          if (!isDecided) reject(UNDECIDED);
        },
        fail: reject,
      });
      kill = () => call.kill();
    });
    return { decision, kill };
  }

  change(change: ReservationChangeQuery): void {
    void this.#ask(this.#address.release, { body: encodeChange(change) }, CHANGE_MS_MAX); // never rejects
  }

  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const answer = await this.#ask(this.#address.explain, question, EXPLAIN_MS_MAX);
    if (answer.kind === 'failed') return undefined;
    const { explanation } = (answer.output?.body ?? {}) as { readonly explanation?: ExplanationRecord | null };
    return explanation ?? undefined;
  }

  close(): void {}

  #ask(
    transport: Transport,
    question: Partial<PlaneRequest> & { readonly body: unknown },
    timeoutMs: number,
  ): Promise<OneAnswer> {
    const { plane, clock, random } = this.#options;
    return askOnce(plane, transport, { id: random.uuid(), headers: {}, ...question }, { clock, timeoutMs });
  }
}

/** An instance of a component, and the address of each of its endpoints. */
export interface ServingInstance {
  readonly instanceId: string;
  readonly endpoints: Readonly<Partial<Record<string, Transport>>>;
}

/**
 * Follows the instances of a component, in the order of their ids. The first call comes once all are read, then one at
 * every change. Rejects if discovery cannot be read, or with the signal's reason.
 */
export async function watchInstances(
  discovery: Discovery,
  { namespace, component }: ComponentScope,
  onChange: (instances: readonly ServingInstance[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const records = new Map<string, EndpointRecord>();
  let isReading = true;
  const tell = (): void => {
    if (!isReading) onChange(instancesOf(records.values()));
  };
  const listener: Parameters<Discovery['watch']>[1] = {
    event(event) {
      if (event.kind === 'removed') records.delete(event.key);
      else if (event.record.type === 'Endpoint') records.set(event.key, event.record);
      tell();
    },
  };
  const watch = await discovery.watch(
    { bucket: 'v1/instances', prefix: `${namespace}/${component}` },
    listener,
    signal,
  );
  isReading = false;
  tell();
  return watch;
}

function instancesOf(records: Iterable<EndpointRecord>): readonly ServingInstance[] {
  const byId = new Map<string, Record<string, Transport>>();
  for (const { instance_id: id, endpoint, transport } of records) {
    byId.set(id, { ...byId.get(id), [endpoint]: transport });
  }
  const instances = [...byId].map(([instanceId, endpoints]) => ({ instanceId, endpoints }));
  return instances.sort((a, b) => (a.instanceId < b.instanceId ? -1 : 1));
}

/**
 * Follows the resident routers of a namespace: the instances that have all their endpoints. Rejects as `watchInstances`
 * does.
 */
export function watchResidents(
  discovery: Discovery,
  namespace: string,
  onChange: (residents: readonly ResidentAddress[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const onInstances = (instances: readonly ServingInstance[]): void =>
    onChange(
      instances.flatMap(({ instanceId, endpoints }) => {
        const { [CHOOSE_ENDPOINT]: choose, [RELEASE_ENDPOINT]: release, [EXPLAIN_ENDPOINT]: explain } = endpoints;
        const isWhole = choose !== undefined && release !== undefined && explain !== undefined;
        return isWhole ? [{ instanceId, choose, release, explain }] : [];
      }),
    );
  return watchInstances(discovery, { namespace, component: ROUTER_COMPONENT }, onInstances, signal);
}

/**
 * Addresses of resident routers for callers that do not look them up in discovery: `tcp://host:port`,
 * `grpc://host:port`.
 */
interface ResidentUrlOptions {
  readonly urls: readonly string[];
  readonly namespace: string;
  /** Returns the address of a router at the place of a `tcp` URL. */
  readonly plane: Pick<RequestPlane, 'at'>;
  readonly clock: Clock;
  /** Returns the addresses of the host name of a URL. A name of several tasks has several, of which one answers. */
  resolve(host: string): Promise<readonly string[]>;
  onChange(residents: readonly ResidentAddress[]): void;
  /** Hears that a name could not be resolved. Its earlier addresses stay. */
  onProblem(url: string, reason: unknown): void;
}

/** Interval between two look-ups of a name, in milliseconds, because tasks behind it come and go. */
const REFRESH_MS = 5000;

/** Follows the addresses of the URLs. Resolves after the first look-up of every name. Never rejects. */
export async function watchResidentUrls(options: ResidentUrlOptions): Promise<{ close(): void }> {
  const { urls, namespace, plane, clock, resolve, onChange, onProblem } = options;
  const planeAddressOf = (place: string): ResidentAddress => addressOnPlane(plane, place, namespace);
  const known = new Map<string, readonly ResidentAddress[]>(); // by URL
  let before = '';
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return; // the resolver has its own deadline
    isLooking = true;
    await Promise.all(
      urls.map(async (url) => {
        const { protocol, hostname, port } = new URL(url);
        const addressOf = protocol === 'grpc:' ? grpcAddressOf : planeAddressOf;
        try {
          const hosts = await resolve(hostname.replace(/^\[|\]$/g, ''));
          known.set(
            url,
            [...hosts].sort().map((host) => addressOf(placeOf(host, port))),
          );
        } catch (reason) {
          onProblem(url, reason);
        }
      }),
    );
    isLooking = false;
    const residents = urls.flatMap((url) => known.get(url) ?? []);
    const now = residents.map(({ instanceId }) => instanceId).join();
    if (now !== before) onChange(residents);
    before = now;
  };
  await look();
  const timer = clock.every(REFRESH_MS, () => void look());
  return { close: () => timer.cancel() };
}

function placeOf(host: string, port: string): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function grpcAddressOf(place: string): ResidentAddress {
  return { instanceId: place, grpc: place };
}

function addressOnPlane({ at }: Pick<RequestPlane, 'at'>, place: string, namespace: string): ResidentAddress {
  if (at === undefined) throw new Error('endpoints of this request plane can only be found by discovery');
  const transportOf = (endpoint: string): Transport =>
    at(place, `${WELL_KNOWN_INSTANCE}/${namespace}/${ROUTER_COMPONENT}/${endpoint}`);
  return {
    instanceId: place,
    choose: transportOf(CHOOSE_ENDPOINT),
    release: transportOf(RELEASE_ENDPOINT),
    explain: transportOf(EXPLAIN_ENDPOINT),
  };
}
