import { seededRandom } from '../../../shared/clock/index.ts';
import type { DiscoveryRecord } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import type { Engine, EngineInfo, EngineLoad, EngineSink, KvEvent } from '../../../shared/engines/index.ts';
import type { ServeError } from '../../../shared/errors/index.ts';
import type { Call, CallSink, EventEnvelope, Transport } from '../../../shared/planes/index.ts';
import { type EngineOutput, type EngineRequest, encodeEngineRequest } from '../../../shared/protocol/index.ts';
import { createWorkerMetrics } from '../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { EndpointHealth } from '../../../shared/worker/control/endpoint-health.ts';
import type { WorkerOptions } from '../../../shared/worker/options.ts';
import { startWorker, type Worker } from '../../../shared/worker/worker.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { engineRequest } from '../engines/mocker/support.ts';

/** Headers that name a request beside its id, as a frontend passes them on. */
const HEADERS = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'x-request-id': 'mine',
} as const;

export const ADDRESS = { namespace: 'ns', component: 'backend', endpoint: 'generate' } as const;

/** An engine that does what the test says. */
export class ScriptedEngine implements Engine {
  readonly kind = 'mocker';
  readonly requests: { request: EngineRequest; sink: EngineSink; signal: AbortSignal }[] = [];
  info: EngineInfo = {
    contextLength: 100,
    kvBlockSizeTokens: 4,
    totalKvBlocks: 1000,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 64,
    dataParallelSize: 1,
    modelInput: 'Tokens',
    modelType: ['Chat'],
    publishesKvEvents: true,
  };
  loads: EngineLoad[] = [load(0, 0)];
  healthError: Error | undefined;
  hangs = false;
  isStopped = false;
  emitKvEvents: (events: readonly KvEvent[]) => void = () => {};
  tellEventFault: (fault: string | undefined) => void = () => {};

  async start(): Promise<EngineInfo> {
    return this.info;
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    this.requests.push({ request, sink, signal });
  }

  async health(): Promise<void> {
    if (this.hangs) await new Promise(() => {});
    if (this.healthError !== undefined) throw this.healthError;
  }

  load(): readonly EngineLoad[] {
    return this.loads;
  }

  onKvEvents(listener: (events: readonly KvEvent[]) => void): void {
    this.emitKvEvents = listener;
  }

  onKvEventFault(listener: (fault: string | undefined) => void): void {
    this.tellEventFault = listener;
  }

  async stop(): Promise<void> {
    this.isStopped = true;
  }
}

export function load(usedKvBlocks: number, activePrefillTokens: number): EngineLoad {
  const rest = { dpRank: 0, runningRequests: 0, waitingRequests: 0, totalKvBlocks: 1000 };
  return { ...rest, usedKvBlocks, activePrefillTokens };
}

/** Memory discovery whose lease and writes the test breaks. */
export class BreakableDiscovery extends MemoryDiscovery {
  putError: Error | undefined;
  /** Writes that were asked for, in order. */
  readonly asked: ('put' | 'remove')[] = [];
  loseLease: () => void = () => {};
  regainLease: () => void = () => {};

  override async put(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.asked.push('put');
    if (this.putError !== undefined) throw this.putError;
    await super.put(record, signal);
  }

  override remove(record: DiscoveryRecord, signal?: AbortSignal): Promise<void> {
    this.asked.push('remove');
    return super.remove(record, signal);
  }

  override onLeaseLost(callback: () => void): void {
    this.loseLease = callback;
  }

  override onLeaseRegained(callback: () => void): void {
    this.regainLease = callback;
  }
}

/** Records what the caller of one request saw. */
export class CallerSink implements CallSink {
  isAccepted = false;
  movesAsked = 0;
  tokenCount = 0;
  readonly outputs: EngineOutput[] = [];
  end_ = false;
  error: ServeError | undefined;

  accepted(): void {
    this.isAccepted = true;
  }

  moveAsked(): void {
    this.movesAsked++;
  }

  tokens(_choice: number, _ids: ArrayLike<number>, _start: number, count: number): void {
    this.tokenCount += count;
  }

  output(output: EngineOutput): void {
    this.outputs.push(output);
  }

  end(): void {
    this.end_ = true;
  }

  fail(error: ServeError): void {
    this.error = error;
  }
}

/** Everything a worker needs, in memory and under a virtual clock. */
export function workerBed(engine: Engine, { hearsMoves = true } = {}) {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const discovery = new BreakableDiscovery({ hub: new MemoryHub(clock), clock, random });
  const requestPlane = createMemoryRequestPlane({ clock, hearsMoves });
  const eventPlane = createMemoryEventPlane({ clock, random });
  const metrics = createWorkerMetrics({ ...ADDRESS, model: 'm', clock });
  const health = new EndpointHealth(clock, [ADDRESS.endpoint]);
  const captured = captureLogger();
  const options: WorkerOptions = {
    engine,
    discovery,
    requestPlane,
    eventPlane,
    address: ADDRESS,
    model: {},
    names: { displayName: 'm' },
    clock,
    random,
    logger: captured.logger,
    metrics,
    health,
  };
  const records = async (): Promise<string[]> => {
    const buckets = ['v1/instances', 'v1/mdc', 'v1/event_channels'] as const;
    const lists = await Promise.all(buckets.map((bucket) => discovery.list({ bucket, prefix: '' })));
    return lists.flat().map((record) => record.type);
  };
  return {
    clock,
    discovery,
    engine,
    eventPlane,
    health,
    metrics,
    lines: captured.lines,
    options,
    records,
    /** Starts the worker, moving the clock by `loadMs` while its engine loads. */
    async start(more: Partial<WorkerOptions> = {}, loadMs = 0): Promise<Worker> {
      const starting = startWorker({ ...options, ...more }, new AbortController().signal);
      starting.catch(() => {}); // awaited below; the clock moves first
      await clock.advance(loadMs);
      return starting;
    },
    call(
      worker: Worker,
      prompt: readonly number[],
      rest: Partial<EngineRequest> = {},
      deadlineMs?: number,
      { headers = {} }: { readonly headers?: Readonly<Record<string, string>> } = {},
    ) {
      const sink = new CallerSink();
      const transport: Transport = { memory: `${worker.instanceId}/ns/backend/generate` };
      const request = engineRequest('r', prompt, rest);
      const { body, tokenIds } = encodeEngineRequest(request);
      const call: Call = requestPlane.call(
        transport,
        {
          id: rest.id ?? 'r',
          headers: { ...HEADERS, ...headers },
          body,
          ...(tokenIds && { tokenIds }),
          ...(deadlineMs === undefined ? {} : { deadlineMs }),
        },
        sink,
      );
      return { call, sink };
    },
    /** Everything published on `topic` from now on. */
    async follow(topic: string): Promise<EventEnvelope[]> {
      const envelopes: EventEnvelope[] = [];
      const scope = { kind: 'component', namespace: 'ns', component: 'backend' } as const;
      const subscription = await eventPlane.subscribe(scope, topic, {
        event: (envelope) => void envelopes.push(envelope),
      });
      for (const record of await discovery.list({ bucket: 'v1/event_channels', prefix: '' })) {
        if (record.type === 'EventChannel' && record.topic === topic) {
          subscription.connect(record.instance_id, record.transport);
        }
      }
      return envelopes;
    },
  };
}
